#pragma once

#include <string>
#include <vector>

namespace caffe {

// A drawing with a panel for each of several charts of groups of bars, on logarithmic scales.
struct BarChart {
  struct Bar {
    std::string series;  // gives the colour
    double value;
  };
  struct Group {
    std::string name;
    std::vector<Bar> bars;
  };
  std::string title;
  std::vector<Group> groups;
};

// One SVG image without scripts, fonts or links.
std::string BarChartsSvg(const std::vector<BarChart>& charts);

}  // namespace caffe
