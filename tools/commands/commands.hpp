#pragma once

#include <string>
#include <vector>

#include "commands/options.hpp"

namespace caffe {

// The commands of `caffe`. Each returns the exit status and throws on errors.
int TrainCommand(const Options& options);
int TestCommand(const Options& options);
int TimeCommand(const Options& options);
int DeviceQueryCommand(const Options& options);
int LayersCommand(const Options& options);

// The whole program: help without arguments, one line on standard error and status 1 for errors.
// `program` is what was typed before the arguments.
int CaffeMain(const std::vector<std::string>& arguments, const std::string& program = "caffe");

}  // namespace caffe
