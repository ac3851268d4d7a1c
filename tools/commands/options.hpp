#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace caffe {

// The command line of `caffe`; every command accepts every flag, as in BVLC Caffe.
struct Options {
  std::string program = "caffe";       // as it was typed
  std::string command;                 // empty: none was given
  std::vector<std::string> arguments;  // after the command
  std::string gpu, solver, model, phase, snapshot, weights;
  std::vector<std::string> stages;
  int level = 0;
  int iterations = 50;
  bool iterations_given = false;
  std::string sigint_effect = "stop", sighup_effect = "snapshot", sigterm_effect = "stop";
  bool lt = true;      // caffe time: print a line for each layer
  bool plan = false;   // caffe time: print a table of the steps
  bool train = false;  // caffe tune: phase TRAIN, too
  bool map_weights = false, strict = false;
  // caffe transform, quantize and classify
  std::string type, out;
  // caffe transform
  std::string passes = "all", shape, outputs;
  int64_t seed = 1;
  int levels = 0;         // 0: not given
  std::string libraries;  // libraries that add passes
  // caffe moe-init
  double noise = 0.01;
  // caffe quantize
  std::string method = "auto", rounding = "nearest", scales = "any", images, root, mean, crop,
              scores;
  double scale = 1, percentile = 99.99, max_drop = -1;  // max_drop < 0: not given
  int held_out = -1;                                    // < 0: not given
  bool bgr = false, rgb = false, bias_correction = false, equalize = false;
  bool tune_ranges = false;
  // caffe classify, which also reads those of images above
  std::string labels, sheet;
  int top = 5;
  // caffe benchmark
  std::string models, devices, types = "float,half,bfloat16,int16,int8", batches = "1";
  std::string accuracy, merge;
  double seconds = 2;
  bool plain = false;
  bool json = false;
  bool self_test = false;  // device_query
  std::string report;      // likewise: a file
  std::string families;    // likewise: names, separated by semicolons
  bool progress = true;
  bool help = false, version = false;
  std::vector<std::string> flags;  // all given flags, as --name=value
  std::vector<std::pair<std::string, std::string>> log_settings;  // names and values
};

// Parses the command line; throws for a wrong one.
Options ParseOptions(const std::vector<std::string>& arguments);
// Sets the log (log_settings.hpp) as the options say; throws for a wrong value.
void SetLog(const Options& options);

// A line for each flag of the command.
std::string FlagHelp(const std::string& command);
// A line for each flag of the log.
std::string LogFlagHelp();

}  // namespace caffe
