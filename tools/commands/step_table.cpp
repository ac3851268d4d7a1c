#include "commands/step_table.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {
namespace {

using Row = std::vector<std::string>;
constexpr size_t kTextColumns = 4;  // step, library, types, layout; the others hold numbers

// In units of 10^9 per second.
std::string Rate(double amount, double milliseconds) {
  return milliseconds > 0 ? FixedText(amount / (1e6 * milliseconds), 1) : "-";
}

Row MakeRow(const StepInfo& step, const std::string& types, const std::string& layout,
            double milliseconds) {
  const auto& operations = step.operations;
  return {step.name(),
          step.library.empty() ? "-" : step.library,
          types,
          layout,
          FixedText(static_cast<double>(step.workspace_bytes) / 1024, 1),
          FixedText(static_cast<double>(step.bytes) / (1 << 20), 3),
          operations ? FixedText(1e-6 * static_cast<double>(*operations), 3) : "-",
          FixedText(milliseconds, 4),
          Rate(static_cast<double>(step.bytes), milliseconds),
          operations ? Rate(static_cast<double>(*operations), milliseconds) : "-"};
}

// The largest workspace, because the steps use it in turn, and the sums of the other numbers. Steps
// without a number of operations do not count in theirs.
Row TotalRow(const std::vector<StepInfo>& steps, const std::vector<double>& milliseconds) {
  StepInfo total;
  total.layers = {"total"};
  total.operations = 0;
  double time = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    total.workspace_bytes = std::max(total.workspace_bytes, steps[i].workspace_bytes);
    total.bytes += steps[i].bytes;
    total.conversions += steps[i].conversions;
    *total.operations += steps[i].operations.value_or(0);
    time += milliseconds[i];
  }
  return MakeRow(total, "-", total.conversions ? Concat("+", total.conversions) : "-", time);
}

}  // namespace

std::vector<std::string> StepTable(const std::vector<StepInfo>& steps,
                                   const std::vector<double>& milliseconds) {
  std::vector<Row> rows{{"step", "library", "types", "layout", "workspace KiB", "MiB moved", "Mop",
                         "ms", "GB/s", "Gop/s"}};
  for (size_t i = 0; i < steps.size(); ++i) {
    rows.push_back(MakeRow(steps[i], steps[i].types.name(), steps[i].layout(), milliseconds[i]));
  }
  rows.push_back(TotalRow(steps, milliseconds));
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string fill(widths[c] - row[c].size(), ' ');
      line += (c ? "  " : "") + (c < kTextColumns ? row[c] + fill : fill + row[c]);
    }
    lines.push_back(line);
  }
  return lines;
}

std::string StepsJson(const std::vector<StepInfo>& steps, const std::vector<double>& milliseconds) {
  std::string text = "[";
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepInfo& step = steps[i];
    std::string layers;
    for (const std::string& layer : step.layers) {
      layers += (layers.empty() ? "" : ", ") + JsonString(layer);
    }
    text += Concat(i ? ",\n  " : "\n  ", "{\"layers\": [", layers,
                   "], \"library\": ", step.library.empty() ? "null" : JsonString(step.library),
                   ", \"types\": ", JsonString(step.types.name()),
                   ", \"layout\": ", JsonString(step.layout()), ", \"copies\": ", step.copies,
                   ", \"workspace_bytes\": ", step.workspace_bytes, ", \"bytes\": ", step.bytes,
                   ", \"operations\": ", step.operations ? Concat(*step.operations) : "null",
                   ", \"median_ms\": ", JsonNumber(milliseconds[i]), "}");
  }
  return text + "\n]";
}

}  // namespace caffe
