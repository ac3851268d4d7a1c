#pragma once

#include <string>

#include "commands/benchmark_file.hpp"

namespace caffe {

// The tables 4.2 to 4.5 of F. Tschopp, "Tuning of Mixture-of-Experts Mixed-Precision Neural
// Networks" (2018, arXiv:2209.15427), in Markdown, with the cells of the nets caffenet ("ImageNet"
// there) and caffenet_moe ("ImageNet-MOE"). Empty without such cells.
std::string ThesisTables(const BenchmarkRun& run);

}  // namespace caffe
