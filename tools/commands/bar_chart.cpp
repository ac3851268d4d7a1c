#include "commands/bar_chart.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {
namespace {

constexpr int kLeft = 60, kTitle = 24, kHeight = 180, kNames = 40, kBar = 28, kGap = 26;
constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                    "#66ccee", "#aa3377", "#bbbbbb", "#332288"};

std::string Number(double value) {
  if (value >= 10000) return FixedText(value / 1000, 0) + "k";
  return value < 10 ? GeneralText(value, 2) : FixedText(value, 0);
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return Concat("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\">", Escaped(text),
                "</text>\n");
}

std::string Rectangle(double x, double y, double width, double height, const char* colour) {
  return Concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
                "\" fill=\"", colour, "\"/>\n");
}

int WidthOf(const BarChart& chart) {
  int width = kLeft + kGap;
  for (const BarChart::Group& group : chart.groups) {
    width += static_cast<int>(group.bars.size()) * kBar + kGap;
  }
  return width;
}

// A panel that begins at `top`: powers of ten as lines, then the bars.
std::string Panel(const BarChart& chart, int top, int width,
                  const std::vector<std::string>& series) {
  double least = INFINITY, most = 0;
  for (const BarChart::Group& group : chart.groups) {
    for (const BarChart::Bar& bar : group.bars) {
      least = std::min(least, bar.value);
      most = std::max(most, bar.value);
    }
  }
  const double low = std::floor(std::log10(least / 1.5)), high = std::ceil(std::log10(most * 1.3));
  const int base = top + kTitle + kHeight;
  const auto height = [&](double value) {
    return std::round((std::log10(value) - low) / (high - low) * kHeight);
  };
  std::string svg = Text(kLeft, top + 15, "start", chart.title);
  for (double power = low; power <= high; ++power) {
    const double y = base - height(std::pow(10, power));
    svg += Concat("<path d=\"M", kLeft, " ", y, "H", width, "\" stroke=\"#ddd\"/>\n");
    svg += Text(kLeft - 4, y + 4, "end", Number(std::pow(10, power)));
  }
  int x = kLeft + kGap;
  for (const BarChart::Group& group : chart.groups) {
    const int begin = x;
    for (const BarChart::Bar& bar : group.bars) {
      const size_t index = std::find(series.begin(), series.end(), bar.series) - series.begin();
      const double tall = height(bar.value);
      svg += Rectangle(x, base - tall, kBar - 3, tall, kColours[index % std::size(kColours)]);
      svg += Text(x + (kBar - 3) / 2.0, base - tall - 3, "middle", Number(bar.value));
      x += kBar;
    }
    svg += Text((begin + x) / 2.0, base + 16, "middle", group.name);
    x += kGap;
  }
  return svg;
}

}  // namespace

std::string BarChartsSvg(const std::vector<BarChart>& charts) {
  std::vector<std::string> series;
  int width = 320;
  for (const BarChart& chart : charts) {
    width = std::max(width, WidthOf(chart));
    for (const BarChart::Group& group : chart.groups) {
      for (const BarChart::Bar& bar : group.bars) {
        if (std::find(series.begin(), series.end(), bar.series) == series.end()) {
          series.push_back(bar.series);
        }
      }
    }
  }
  const int panel = kTitle + kHeight + kNames;
  const int legend = 20 * static_cast<int>(series.size()) + 10;
  const int height = static_cast<int>(charts.size()) * panel + legend;
  std::string svg = Concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width,
                           "\" height=\"", height, "\" viewBox=\"0 0 ", width, " ", height,
                           "\" font-family=\"sans-serif\" font-size=\"10\">\n",
                           Rectangle(0, 0, width, height, "white"));
  for (size_t i = 0; i < charts.size(); ++i) {
    svg += Panel(charts[i], static_cast<int>(i) * panel, width, series);
  }
  for (size_t i = 0; i < series.size(); ++i) {
    const double y = height - legend + 20 * static_cast<double>(i);
    svg += Rectangle(kLeft, y, 12, 12, kColours[i % std::size(kColours)]);
    svg += Text(kLeft + 18, y + 10, "start", series[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace caffe
