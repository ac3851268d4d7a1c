// Training of recurrent layers: it learns, and resumes bit for bit with the states that iterations
// carry.
#include <gtest/gtest.h>

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int kSteps = 6, kItems = 8;

// The parity of the bits since the beginning of a sequence, at each step.
std::string NetText(const std::string& type) {
  return "layer { name: 'in' type: 'Input' top: 'bits' top: 'cont' top: 'label' input_param { "
         "shape { dim: 6 dim: 8 dim: 1 } shape { dim: 6 dim: 8 } shape { dim: 6 dim: 8 } } } "
         "layer { name: 'lstm' type: '" +
         type +
         "' bottom: 'bits' bottom: 'cont' top: 'h' recurrent_param { num_output: 12 "
         "weight_filler { type: 'uniform' min: -0.7 max: 0.7 } } } "
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'h' top: 'ip' inner_product_param { "
         "num_output: 2 axis: 2 weight_filler { type: 'xavier' } } } "
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' "
         "softmax_param { axis: 2 } }";
}

// A sequence goes on for three iterations.
class Bits final : public Solver::Callback {
 public:
  explicit Bits(Solver* solver) : solver_(solver) {}
  void OnStart() override {
    const int64_t iteration = solver_->iter();
    int parity[kItems] = {};
    std::vector<double> bits, cont, labels;
    for (int64_t at = iteration - iteration % 3; at <= iteration; ++at) {
      bits.clear();
      cont.clear();
      labels.clear();
      uint32_t random = static_cast<uint32_t>(at) * 2654435761u + 12345;
      for (int t = 0; t < kSteps; ++t) {
        for (int n = 0; n < kItems; ++n) {
          random = random * 1664525u + 1013904223u;
          const int bit = static_cast<int>(random >> 31);
          parity[n] ^= bit;
          bits.push_back(bit);
          cont.push_back(at % 3 == 0 && t == 0 ? 0 : 1);
          labels.push_back(parity[n]);
        }
      }
    }
    Net& net = *solver_->net();
    net.BlobByName("bits")->SetData(bits);
    net.BlobByName("cont")->SetData(cont);
    net.BlobByName("label")->SetData(labels);
  }

 private:
  Solver* solver_;
};

SolverParameter Parameter(const std::string& type, const std::string& more = "") {
  SolverParameter parameter;
  ParseTextProto(
      "base_lr: 0.02 lr_policy: 'fixed' type: 'Adam' momentum: 0.9 momentum2: 0.999 "
      "random_seed: 7 snapshot_after_train: false " +
          more,
      "test", &parameter);
  ParseTextProto(NetText(type), "net", parameter.mutable_net_param());
  return parameter;
}

// Chance would give a loss of log 2 = 0.69.
TEST(RecurrentTrainingTest, LearnsParity) {
  for (const char* type : {"LSTM", "GRU"}) {
    Solver solver(Parameter(type), TestDevices()[0]);
    solver.set_frees_memory(true);
    Bits bits(&solver);
    solver.AddCallback(&bits);
    solver.Step(450);
    float worst = 0;
    for (int i = 0; i < 9; ++i) {
      solver.Step(1);
      worst = std::max(worst, solver.net()->Loss());
    }
    EXPECT_LT(worst, 0.2) << type;
  }
}

TEST(RecurrentTrainingTest, ResumesInTheMiddleOfASequence) {
  for (Device* device : TestDevices()) {
    for (const char* type : {"LSTM", "RNN", "GRU"}) {
      const TemporaryFolder folder;
      const std::string more = "snapshot_prefix: '" + (folder / "s") + "'";
      Solver whole(Parameter(type, more), device), resumed(Parameter(type, more), device);
      Bits bits(&whole), others(&resumed);
      whole.AddCallback(&bits);
      resumed.AddCallback(&others);
      // After three iterations sequences begin, which would hide a lost state.
      whole.Step(4);
      whole.Snapshot();
      whole.Step(3);
      resumed.Restore(whole.last_snapshot());
      resumed.Step(3);
      EXPECT_EQ(FirstDifference(StateOf(whole, {"loss"}), StateOf(resumed, {"loss"})), "") << type;
    }
  }
}

}  // namespace
}  // namespace caffe
