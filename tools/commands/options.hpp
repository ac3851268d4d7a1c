#pragma once

#include <string>
#include <vector>

namespace caffe {

// What stands on the command line of `caffe`; every command takes every flag, as BVLC's does.
struct Options {
  std::string command;                 // empty: none was given
  std::vector<std::string> arguments;  // behind the command
  std::string gpu, solver, model, phase, snapshot, weights;
  std::vector<std::string> stages;
  int level = 0;
  int iterations = 50;
  std::string sigint_effect = "stop", sighup_effect = "snapshot";
  bool lt = true;  // caffe time: a line for each layer
  bool json = false;
  bool self_test = false;  // device_query
  bool progress = true;
  bool help = false, version = false;
};

// Throws for what is wrong with it.
Options ParseOptions(const std::vector<std::string>& arguments);

// The flags with their explanations, as --help prints them.
std::string FlagHelp();

}  // namespace caffe
