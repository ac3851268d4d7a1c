#pragma once

#include <string>

#include "commands/benchmark_file.hpp"

namespace caffe {

// A report in Markdown. `image` is the path of the drawing from the report; empty: none.
std::string BenchmarkMarkdown(const BenchmarkRun& run, const std::string& image);
// Images per second as bars: a panel for each device and batch size. Empty without a measured cell.
std::string BenchmarkSvg(const BenchmarkRun& run);
// A cell as a line of the log.
std::string BenchmarkLine(const BenchmarkCell& cell);

}  // namespace caffe
