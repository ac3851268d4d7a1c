// The forecast of an iteration leaves room for the solver's history.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/available_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

TEST(HistoryMemoryTest, IsReservedUntilTheFirstUpdate) {
  SolverParameter parameter;
  ParseTextProto(
      "type: 'Adam' base_lr: 0.01 lr_policy: 'fixed' net_param { "
      "layer { name: 'in' type: 'Input' top: 'x' top: 't' input_param { "
      "shape { dim: 1 dim: 1000 } shape { dim: 1 dim: 1000 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
      "inner_product_param { num_output: 1000 bias_term: false } } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } }",
      "a test", &parameter);
  Solver solver(parameter, Runtime::Get().cpu());
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "proc");
  const auto have = [&](int64_t mebibytes) {
    std::ofstream(folder / "proc/meminfo") << "MemAvailable: " << (mebibytes << 10) << " kB\n";
    SetHostMemoryRoot(folder.path());
  };
  have(6);  // enough for the net, whose gradients have 4 MB, and not for twice that
  std::string message;
  try {
    solver.Step(1);
  } catch (const OutOfMemory& error) {
    message = error.what();
  }
  EXPECT_TRUE(Holds(message,
                    "0 are available (MemAvailable of /proc/meminfo, less 8000000 bytes "
                    "for the solver's history)"));
  have(20);
  solver.Step(1);
  have(6);
  solver.Step(1);
  SetHostMemoryRoot("/");
}

}  // namespace
}  // namespace caffe
