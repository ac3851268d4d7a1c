#pragma once

#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"

namespace caffe {

// A solver whose data, weights and dropout depend on the seed alone.
inline std::unique_ptr<Solver> SmallTraining(const std::string& prefix, int64_t seed, bool hdf5,
                                             const std::string& more) {
  SolverParameter parameter;
  ParseTextProto(R"(
      type: 'SGD' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9
      net_param {
        layer { name: 'data' type: 'DummyData' top: 'x' top: 't'
                dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 }
                                   data_filler { type: 'uniform' min: -1 max: 1 } } }
        layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'x1' }
        layer { name: 'ip' type: 'InnerProduct' bottom: 'x1' top: 'y'
                inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
        layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } } )" +
                     more,
                 "test", &parameter);
  parameter.set_random_seed(seed);
  parameter.set_snapshot_prefix(prefix);
  parameter.set_snapshot_format(hdf5 ? SolverParameter::HDF5 : SolverParameter::BINARYPROTO);
  return std::make_unique<Solver>(parameter, Runtime::Get().cpu());
}

// The state of a training at each iteration, without a break.
inline std::map<int64_t, TrainingState> Uninterrupted(int64_t seed, int iterations) {
  auto solver = SmallTraining("", seed, false, "");
  std::map<int64_t, TrainingState> states;
  for (int i = 1; i <= iterations; ++i) {
    solver->Step(1);
    states[i] = StateOf(*solver, {});
  }
  return states;
}

inline std::vector<std::string> FilesIn(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

inline std::vector<std::string> TemporaryFilesIn(const TemporaryFolder& folder) {
  static const std::regex pattern(R"(.+\.tmp\.[0-9a-f]{8}\.\d+\.\d+)");
  std::vector<std::string> names = FilesIn(folder);
  std::erase_if(names, [](const std::string& name) { return !std::regex_match(name, pattern); });
  return names;
}

}  // namespace caffe
