// The report of QuantizeNet as text, JSON and HTML.
#include <algorithm>
#include <cmath>

#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/io/unknown_names.hpp"

namespace caffe {
namespace {

constexpr int64_t kFewItems = 200;  // one of them is 0.5 percentage points

// ", of 40 labels: one is 2.50 percentage points".
std::string Resolution(int64_t count, const std::string& what) {
  const double point = 100.0 / static_cast<double>(std::max<int64_t>(count, 1));
  return Concat(", of ", count, " ", what, ": one is ", GeneralText(point, 2), " percentage points",
                count < kFewItems ? ", which is too coarse to judge a small loss" : "");
}

std::string DecibelText(double value) {
  if (std::isnan(value)) return "NaN";
  return value == INFINITY ? "equal" : FixedText(value, 1);
}

// A layer in float, or in half, has no rounding of its own that is measured.
std::string OwnDecibelText(const LayerReport& row) {
  const bool measured = row.range.known() || !row.rounding.empty();
  if (!measured) return std::isnan(row.snr) ? "NaN" : "-";
  return DecibelText(row.own_snr);
}

std::string RoundingText(const LayerReport& row) {
  if (row.rounding.empty()) return "-";
  return row.rounding +
         (row.rounding_gain > 0 ? " +" + FixedText(row.rounding_gain, 1) + " dB" : "");
}

// The cells of a row, in the order of kHeads.
constexpr const char* kHeads[] = {"layer",    "type",  "blob",   "range", "method",
                                  "rounding", "clip%", "own dB", "dB",    "cosine"};
constexpr int kTextColumns = 6;  // these are aligned left

std::vector<std::string> Cells(const LayerReport& row) {
  const auto& [low, high, method] = row.range;
  const bool range = row.range.known();
  return {row.layer,
          row.type,
          row.blob,
          range ? GeneralText(low, 4) + " to " + GeneralText(high, 4) : "-",
          method.empty() || !range ? "-" : method,
          RoundingText(row),
          range ? FixedText(row.clipped_percent, 3) : "-",
          OwnDecibelText(row),
          DecibelText(row.snr),
          std::isnan(row.cosine) ? "NaN" : FixedText(row.cosine, 5)};
}

// Each line is a fact about the whole net.
std::vector<std::string> Summary(const QuantizeReport& report) {
  std::vector<std::string> lines;
  lines.push_back(Concat(NetLabel(report.net), " in ", report.type,
                         report.method.empty() ? "" : ", method " + report.method, ", on ",
                         report.device));
  lines.push_back(Concat(report.calibration_items, " items to calibrate, ", report.held_out_items,
                         " held out to compare with the float net"));
  if (report.power_of_two)
    lines.push_back(
        "the scales of blobs, and of weights that are stored as codes, are powers of two");
  if (report.dynamic_ms > 0) {
    lines.push_back(Concat("a forward takes ", FixedText(report.dynamic_ms, 2), " ms; ",
                           FixedText(report.float_ms, 2), " ms in float, ",
                           FixedText(report.known_ranges_ms, 2), " ms with ranges that are known"));
  }
  if (!report.given_weights.empty()) {
    lines.push_back(Concat("the given weights are stored as ", report.given_weights,
                           " already: the float net computes with them, and is not the one that ",
                           "was trained"));
  }
  if (report.float_top1) {
    lines.push_back(Concat("top-1: float ", FixedText(*report.float_top1, 2), " %, ", report.type,
                           " ", FixedText(*report.quantized_top1, 2), " %",
                           Resolution(report.labels, "labels")));
  }
  if (!report.no_top1.empty()) lines.push_back("no top-1: " + report.no_top1);
  if (report.agreement) {
    const bool dense = report.positions != report.held_out_items;
    lines.push_back(Concat("same class as float: ", FixedText(*report.agreement, 2), " %",
                           Resolution(report.positions, dense ? "positions" : "items")));
  }
  if (report.max_drop) {
    lines.push_back(
        Concat("at most ", GeneralText(*report.max_drop, 6),
               " percentage points may be lost: ", report.within_max_drop ? "met" : "NOT met",
               ", with ", report.wider.size(), " layers in a wider type"));
  }
  if (report.corrected_biases > 0) {
    lines.push_back(Concat("biases corrected: ", report.corrected_biases, " layers"));
  }
  if (report.equalized_layers > 0) {
    lines.push_back(Concat("channels equalized: ", report.equalized_layers, " layers"));
  }
  if (report.tuned_ranges > 0) {
    lines.push_back(Concat("ranges tuned by the scores: ", report.tuned_ranges, " blobs"));
  }
  for (const LayerReport& row : report.layers) {
    if (row.not_finite == 0) continue;
    lines.push_back(Concat("blob ", row.blob, " of layer ", row.layer, ": ", row.not_finite, " of ",
                           row.values, " values are infinite or NaN in one of the nets"));
  }
  lines.push_back(
      Concat("weights: ", report.bytes, " bytes, ",
             FixedText(static_cast<double>(report.bytes) /
                           static_cast<double>(std::max<int64_t>(report.float_bytes, 1)),
                       3),
             " of the ", report.float_bytes, " in float"));
  return lines;
}

std::string HtmlText(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

// Counts on a logarithmic scale, over the bins that hold values; the range is a lighter area.
std::string Drawing(const LayerReport& row) {
  constexpr int kWidth = 240, kHeight = 48, kColumns = 120;
  const Histogram& histogram = row.histogram;
  if (histogram.total() == 0) return "";
  int first = Histogram::kBins, last = 0;
  for (int i = 0; i < Histogram::kBins; ++i) {
    if (histogram.counts[i] == 0) continue;
    first = std::min(first, i);
    last = i + 1;
  }
  const double low = histogram.Edge(first), high = histogram.Edge(last);
  std::vector<double> columns(kColumns, 0);
  for (int i = first; i < last; ++i) {
    columns[static_cast<int64_t>(i - first) * kColumns / (last - first)] +=
        static_cast<double>(histogram.counts[i]);
  }
  const double most = std::log1p(*std::max_element(columns.begin(), columns.end()));
  std::string svg = Concat("<svg width=\"", kWidth, "\" height=\"", kHeight, "\" viewBox=\"0 0 ",
                           kWidth, " ", kHeight, "\" role=\"img\">");
  if (row.range.known()) {
    const auto at = [&](double value) {
      return std::clamp((value - low) / (high - low), 0.0, 1.0) * kWidth;
    };
    svg += Concat("<rect class=\"range\" x=\"", FixedText(at(row.range.low), 1),
                  "\" y=\"0\" width=\"", FixedText(at(row.range.high) - at(row.range.low), 1),
                  "\" height=\"", kHeight, "\"/>");
  }
  svg += "<path d=\"";
  for (int c = 0; c < kColumns; ++c) {
    const double height = std::log1p(columns[c]) / most * kHeight;
    if (height > 0) {
      svg +=
          Concat("M", c * kWidth / kColumns + 1, " ", kHeight, "V", FixedText(kHeight - height, 1));
    }
  }
  return svg + Concat("\"/></svg><br><small>", GeneralText(low, 3), " to ", GeneralText(high, 3),
                      ", ", histogram.total(), " values</small>");
}

std::string OptionalNumber(const std::optional<double>& value) {
  return value ? JsonNumber(*value) : "null";
}

std::string Measured(double value) { return value > 0 ? JsonNumber(value) : "null"; }

}  // namespace

std::string ReportText(const QuantizeReport& report) {
  std::vector<std::vector<std::string>> rows{{std::begin(kHeads), std::end(kHeads)}};
  for (const LayerReport& row : report.layers) rows.push_back(Cells(row));
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += i < kTextColumns ? row[i] + gap : gap + row[i];
      line += "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& line : Summary(report)) text += line + "\n";
  return text;
}

std::string ReportJson(const QuantizeReport& report) {
  std::string text = Concat(
      "{\"net\": ", JsonString(report.net), ", \"type\": ", JsonString(report.type),
      ", \"method\": ", report.method.empty() ? "null" : JsonString(report.method),
      ", \"device\": ", JsonString(report.device), ", \"given_weights\": ",
      report.given_weights.empty() ? "null" : JsonString(report.given_weights),
      ",\n \"calibration_items\": ", report.calibration_items,
      ", \"held_out_items\": ", report.held_out_items,
      ", \"scores\": ", report.scores.empty() ? "null" : JsonString(report.scores),
      ", \"positions\": ", report.positions, ", \"labels\": ", report.labels,
      ", \"resolution\": ", report.resolution() > 0 ? JsonNumber(report.resolution()) : "null",
      ", \"no_top1\": ", report.no_top1.empty() ? "null" : JsonString(report.no_top1),
      ",\n \"float_top1\": ", OptionalNumber(report.float_top1),
      ", \"quantized_top1\": ", OptionalNumber(report.quantized_top1),
      ", \"agreement\": ", OptionalNumber(report.agreement),
      ",\n \"max_drop\": ", OptionalNumber(report.max_drop),
      ", \"within_max_drop\": ", report.within_max_drop ? "true" : "false",
      ", \"corrected_biases\": ", report.corrected_biases,
      ", \"equalized_layers\": ", report.equalized_layers,
      ", \"tuned_ranges\": ", report.tuned_ranges,
      ", \"scales\": ", report.power_of_two ? "\"power_of_two\"" : "\"any\"",
      ",\n \"float_ms\": ", Measured(report.float_ms),
      ", \"dynamic_ms\": ", Measured(report.dynamic_ms),
      ", \"known_ranges_ms\": ", Measured(report.known_ranges_ms),
      ",\n \"float_bytes\": ", report.float_bytes, ", \"bytes\": ", report.bytes,
      ",\n \"wider\": {");
  std::string separator;
  for (const auto& [layer, type] : report.wider) {
    text += Concat(separator, JsonString(layer), ": ", JsonString(type));
    separator = ", ";
  }
  text += "},\n \"layers\": [";
  separator = "\n  ";
  for (const LayerReport& row : report.layers) {
    const auto& [low, high, method] = row.range;
    const bool range = row.range.known();
    text += Concat(
        separator, "{\"layer\": ", JsonString(row.layer),
        ", \"layer_type\": ", JsonString(row.layer_type), ", \"blob\": ", JsonString(row.blob),
        ", \"type\": ", JsonString(row.type),
        ", \"range\": ", range ? Concat("[", JsonNumber(low), ", ", JsonNumber(high), "]") : "null",
        ", \"method\": ", range && !method.empty() ? JsonString(method) : "null",
        ", \"rounding\": ", row.rounding.empty() ? "null" : JsonString(row.rounding),
        ", \"rounding_gain\": ", JsonNumber(row.rounding_gain),
        ", \"clipped_percent\": ", range ? JsonNumber(row.clipped_percent) : "null",
        ", \"own_snr\": ", JsonNumber(row.own_snr), ", \"snr\": ", JsonNumber(row.snr),
        ", \"cosine\": ", JsonNumber(row.cosine), ", \"values\": ", row.values,
        ", \"not_finite\": ", row.not_finite, "}");
    separator = ",\n  ";
  }
  return text + "\n]}\n";
}

std::string ReportHtml(const QuantizeReport& report) {
  std::string text = Concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
      HtmlText(report.net), " in ", report.type,
      "</title>\n<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
      "td,th{padding:2px 8px;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
      "td.n{text-align:right}path{stroke:#234;stroke-width:1.6}.range{fill:#cde}"
      "small{color:#666}</style></head>\n<body><h1>",
      HtmlText(report.net), " in ", report.type, "</h1>\n<ul>\n");
  for (const std::string& line : Summary(report)) text += "<li>" + HtmlText(line) + "</li>\n";
  text +=
      "</ul>\n<p>The layers with the smallest signal to noise of their own quantization come "
      "first. dB: signal to noise of all layers up to this one, against the float net. The "
      "histograms are logarithmic; the area behind them is the range.</p>\n<table>\n<tr>";
  for (const char* head : kHeads) text += Concat("<th>", head, "</th>");
  text += "<th>observed values</th></tr>\n";
  for (const LayerReport& row : report.layers) {
    const std::vector<std::string> cells = Cells(row);
    text += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      text += Concat(i < kTextColumns ? "<td>" : "<td class=\"n\">", HtmlText(cells[i]), "</td>");
    }
    text += "<td>" + Drawing(row) + "</td></tr>\n";
  }
  return text + "</table></body></html>\n";
}

}  // namespace caffe
