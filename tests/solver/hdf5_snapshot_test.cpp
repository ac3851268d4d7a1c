#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::unique_ptr<Solver> MakeSolver(const std::string& type, const std::string& prefix,
                                   Device* device, const std::string& more = "") {
  SolverParameter parameter;
  ParseTextProto(Concat("type: '", type, "' base_lr: 0.05 lr_policy: 'fixed' random_seed: 7 ",
                        "snapshot_format: HDF5 snapshot_prefix: '", prefix, "' ", more, R"(
      net_param {
        layer { name: 'data' type: 'DummyData' top: 'x' top: 't'
                dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
                                   data_filler { type: 'constant' value: 0.5 }
                                   data_filler { type: 'constant' value: 2 } } }
        layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
                inner_product_param { num_output: 2 weight_filler { type: 'gaussian' } } }
        layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } })"),
                 "test", &parameter);
  return std::make_unique<Solver>(parameter, device);
}

std::vector<double> Weights(Solver& solver) {
  std::vector<double> all;
  for (BlobBase* blob : solver.net()->learnable_params()) {
    const std::vector<double> values = blob->DataAsDouble();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Hdf5SnapshotTest, ResumesInEveryBit) {
  for (Device* device : TestDevices()) {
    for (const std::string type : {"SGD", "Adam"}) {
      const TemporaryFolder folder;
      const std::string more = type == "SGD" ? "momentum: 0.9 snapshot_diff: true" : "";
      auto whole = MakeSolver(type, folder / "s", device, more);
      whole->Step(3);
      whole->Snapshot();
      whole->Step(3);
      auto resumed = MakeSolver(type, folder / "s", device, more);
      resumed->Restore(folder / "s_iter_3.solverstate.h5");
      EXPECT_EQ(resumed->iter(), 3);
      resumed->Step(3);
      EXPECT_EQ(Weights(*resumed), Weights(*whole)) << device->info().id << " " << type;
      const Hdf5Reader weights(folder / "s_iter_3.caffemodel.h5");
      EXPECT_EQ(weights.Has("/diff/ip/0"), type == "SGD");
      EXPECT_EQ(Hdf5Reader(folder / "s_iter_3.solverstate.h5").ReadString("/learned_net"),
                folder / "s_iter_3.caffemodel.h5");
    }
  }
}

TEST(Hdf5SnapshotTest, BadFilesAreErrors) {
  const TemporaryFolder folder;
  Device* cpu = TestDevices()[0];
  auto solver = MakeSolver("SGD", folder / "s", cpu);
  solver->Step(1);
  solver->Snapshot();
  const std::string state = folder / "s_iter_1.solverstate.h5",
                    bytes = folder.Get("s_iter_1.solverstate.h5");
  const auto error = [&] { return ErrorOf([&] { solver->Restore(state); }); };
  EXPECT_EQ(error(), "");
  folder.Put("s_iter_1.solverstate.h5", bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(Holds(error(), "cannot open " + state));
  folder.Put("s_iter_1.solverstate.h5", "garbage");
  EXPECT_TRUE(Holds(error(), state + " is not an HDF5 file"));
  std::filesystem::remove(state);
  EXPECT_TRUE(Holds(error(), "File not found: " + state));
  auto adam = MakeSolver("Adam", folder / "a", cpu);
  adam->Step(1);
  adam->Snapshot();
  EXPECT_TRUE(Holds(ErrorOf([&] { solver->Restore(folder / "a_iter_1.solverstate.h5"); }),
                    "Incorrect length of history blobs"));
  // Found out before the training, not after it.
  EXPECT_TRUE(Holds(ErrorOf([&] { MakeSolver("SGD", "/nowhere/at/all/s", cpu, "snapshot: 10"); }),
                    "snapshots cannot be written to /nowhere/at/all/s"));
}

}  // namespace
}  // namespace caffe
