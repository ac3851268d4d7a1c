#pragma once

#include <string>
#include <vector>

#include "commands/options.hpp"

namespace caffe {

// The commands of `caffe`. Each returns the exit status and throws on errors.
int TrainCommand(const Options& options);
int TestCommand(const Options& options);
int TimeCommand(const Options& options);
int TuneCommand(const Options& options);
int TransformCommand(const Options& options);
int ClassifyCommand(const Options& options);
int QuantizeCommand(const Options& options);
int BenchmarkCommand(const Options& options);
int MoeInitCommand(const Options& options);
int DeviceQueryCommand(const Options& options);
int LayersCommand(const Options& options);

// The whole program: prints the help without arguments; for errors prints one line on standard
// error and returns 1. `program` is argv[0].
int CaffeMain(const std::vector<std::string>& arguments, const std::string& program = "caffe");

}  // namespace caffe
