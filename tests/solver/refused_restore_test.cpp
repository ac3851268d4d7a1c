// A solver state is data: one that is refused leaves the solver as it was, bit for bit.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/foreign_hdf5.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

class RefusedRestoreTest : public testing::Test {
 protected:
  RefusedRestoreTest() {
    SolverParameter parameter;
    ParseTextProto(R"(
        type: 'Adam' base_lr: 0.05 lr_policy: 'fixed' random_seed: 7 loss_scale: 0
        net_param {
          layer { name: 'data' type: 'DummyData' top: 'x' top: 't'
                  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
                                     data_filler { type: 'gaussian' }
                                     data_filler { type: 'constant' value: 2 } } }
          layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
                  inner_product_param { num_output: 2 weight_filler { type: 'gaussian' } } }
          layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } })",
                   "test", &parameter);
    parameter.set_snapshot_prefix(folder_ / "s");
    solver_ = std::make_unique<Solver>(parameter, TestDevices()[0]);
    solver_->Step(2);
    solver_->Snapshot();
    ReadBinaryProto(folder_ / "s_iter_2.solverstate", &state_);
    ReadBinaryProto(folder_ / "s_iter_2.caffemodel", &weights_);
    solver_->Step(1);
  }

  // The error of Restore, in each format, which changes nothing.
  std::string Error(const SolverState& state) {
    const std::string binary = folder_ / "bad.solverstate", hdf5 = folder_ / "bad.solverstate.h5";
    WriteBinaryProto(binary, state);
    const std::string error = ErrorOfRestore(binary);
    WriteSolverStateHdf5(hdf5, state);
    EXPECT_NE(ErrorOfRestore(hdf5), "");
    return error;
  }
  std::string ErrorOfRestore(const std::string& path) {
    const TrainingState before = StateOf(*solver_, {});
    const int64_t iter = solver_->iter();
    const std::string error = ErrorOf([&] { solver_->Restore(path); });
    EXPECT_EQ(solver_->iter(), iter);
    EXPECT_EQ(FirstDifference(before, StateOf(*solver_, {})), "");
    return error;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Solver> solver_;
  SolverState state_;
  NetParameter weights_;
};

TEST_F(RefusedRestoreTest, NumbersOutOfRange) {
  SolverState state = state_;
  state.set_iter(-1);
  EXPECT_TRUE(Holds(Error(state), "bad.solverstate: the iteration is -1"));
  for (const double scale : {0.0, -1.0, 1e300, 1e-300, std::nan("")}) {
    state = state_;
    state.set_loss_scale(scale);
    EXPECT_TRUE(Holds(Error(state), "bad.solverstate: the loss scale is ")) << scale;
  }
  state = state_;
  state.set_loss_scale_good_steps(-5);
  EXPECT_TRUE(Holds(Error(state), "loss_scale_good_steps is -5"));
}

TEST_F(RefusedRestoreTest, HistoryOfAnotherShapeOrCount) {
  SolverState state = state_;
  state.mutable_history(3)->mutable_shape()->set_dim(0, 1 << 30);
  WriteBinaryProto(folder_ / "bad.solverstate", state);
  EXPECT_TRUE(Holds(ErrorOfRestore(folder_ / "bad.solverstate"),
                    "bad.solverstate: the shape of history blob 3 is not"));
  for (const bool doubles : {false, true}) {
    state = state_;
    if (doubles) {
      state.mutable_history(3)->add_double_data(1);  // beside the floats
    } else {
      state.mutable_history(3)->clear_data();
    }
    WriteBinaryProto(folder_ / "bad.solverstate", state);
    EXPECT_TRUE(Holds(ErrorOfRestore(folder_ / "bad.solverstate"), "history blob 3: "));
  }
  state = state_;
  state.mutable_history()->RemoveLast();
  EXPECT_TRUE(Holds(Error(state), "Incorrect length of history blobs"));
}

// The gradients of a snapshot are copied, too.
TEST_F(RefusedRestoreTest, WeightsWithGradientsOfAnotherSize) {
  NetParameter weights = weights_;
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.name() == "ip") layer.mutable_blobs(1)->add_diff(1);
    if (layer.name() == "ip") layer.mutable_blobs(0)->set_data(0, 77);
  }
  WriteBinaryProto(folder_ / "s_iter_2.caffemodel", weights);
  EXPECT_TRUE(
      Holds(ErrorOfRestore(folder_ / "s_iter_2.solverstate"), "its diff in the file has 1"));
}

TEST_F(RefusedRestoreTest, StatesOfStrangers) {
  const std::string path = folder_ / "bad.h5", secret = folder_.Put("secret", "0123456789012345");
  {
    ForeignHdf5 file(path);
    file.Values("/iter", {1}, {2});
    file.ExternalStorage("/history/0", {2, 3}, secret);
  }
  EXPECT_TRUE(Holds(ErrorOfRestore(path), "dataset '/history/0' has external storage"));
  {
    ForeignHdf5 file(path);
    file.Values("/iter", {1}, {2});
    file.Claim("/history/0", {1, INT32_MAX});
  }
  EXPECT_TRUE(Holds(ErrorOfRestore(path), path + ": dataset '/history/0' of shape "));
  EXPECT_TRUE(Holds(ErrorOfRestore("/dev/zero"), "/dev/zero is a device, not a file"));
  SolverState state = state_;
  state.set_learned_net("/dev/zero");
  EXPECT_TRUE(Holds(Error(state), "/dev/zero"));
}

}  // namespace
}  // namespace caffe
