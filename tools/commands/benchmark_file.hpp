#pragma once

#include <string>
#include <vector>

#include "commands/benchmark_cell.hpp"

namespace caffe {

// The results that `caffe benchmark` measured, and those from files of other runs.
struct BenchmarkRun {
  std::string date, version, host;
  bool interrupted = false;
  std::vector<BenchmarkCell> cells;
  std::vector<BenchmarkAccuracy> accuracies;
};

std::string BenchmarkJson(const BenchmarkRun& run);

// Appends the cells and accuracies of a file that BenchmarkJson wrote, or that has the same fields.
void ReadBenchmarkJson(const std::string& path, BenchmarkRun* run);
// Appends the accuracies of the float and the quantized net of a report of `caffe quantize`.
void ReadAccuracyJson(const std::string& path, BenchmarkRun* run);

}  // namespace caffe
