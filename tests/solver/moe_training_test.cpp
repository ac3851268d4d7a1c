// Training of nets with MOE layers: it repeats and resumes bit for bit, and dead experts recover.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string Product(const std::string& name, const std::string& bottom, int outputs) {
  return Concat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name, "' inner_product_param { num_output: ", outputs,
                " weight_filler { type: 'xavier' } } } ");
}

std::string Input(const std::string& name) {
  return "layer { name: '" + name + "' type: 'Input' top: '" + name +
         "' input_param { shape { dim: 1 dim: 6 } } } ";
}

// A gate with noise and four experts with dropout, on random data.
std::string MoeText(const std::string& more) {
  return "layer { name: 'data' type: 'DummyData' top: 'data' top: 'target' dummy_data_param {"
         " shape { dim: 24 dim: 6 } shape { dim: 24 dim: 3 } data_filler { type: 'gaussian' }"
         " data_filler { type: 'gaussian' } } } "
         "layer { name: 'moe' type: 'MOE' bottom: 'data' top: 'moe' top: 'observed' top: 'expected'"
         " moe_param { select_experts: 1 expert_instances: 4 " +
         more + " gating_net { " + Input("g") + Product("ip", "g", 4) + Product("spread", "g", 4) +
         "layer { name: 'noise' type: 'Noise' bottom: 'spread' top: 'noise' noise_param {"
         " sigma: 0.1 } } "
         "layer { name: 'sum' type: 'Eltwise' bottom: 'ip' bottom: 'noise' top: 'sum' } "
         "layer { name: 'softmax' type: 'Softmax' bottom: 'sum' top: 'softmax' } "
         " } expert_net { " +
         Input("x") + Product("hidden", "x", 8) +
         "layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' } "
         "layer { name: 'drop' type: 'Dropout' bottom: 'hidden' top: 'hidden' } " +
         Product("out", "hidden", 3) + " } } } " +
         "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'moe' bottom: 'target' top: 'loss' } ";
}

SolverParameter Parameter(const std::string& net, int64_t seed, const std::string& rule) {
  SolverParameter parameter;
  ParseTextProto("base_lr: 0.05 lr_policy: 'fixed' max_iter: 1000 " + rule, "test", &parameter);
  ParseTextProto(net, "net", parameter.mutable_net_param());
  parameter.set_random_seed(seed);
  return parameter;
}

class MoeTrainingTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MoeTrainingTest, AResumedRunEqualsAnUninterruptedOne) {
  const TemporaryFolder folder;
  const std::string net = MoeText("balance_rate: 0.0625 usage_loss_weight: 0.25");
  const auto make = [&](int64_t seed, int snapshot = 0) {
    SolverParameter parameter = Parameter(net, seed, "type: 'SGD' momentum: 0.9 ");
    parameter.set_snapshot(snapshot);
    parameter.set_snapshot_prefix(folder / "s");
    parameter.set_snapshot_after_train(false);
    parameter.set_data_type(static_cast<DataTypeProto>(GetParam().type.info().proto));
    return std::make_unique<Solver>(parameter, GetParam().device);
  };
  auto whole = make(7, 6), again = make(7), other = make(8);
  whole->Step(13);
  again->Step(13);
  other->Step(13);
  const TrainingState state = StateOf(*whole, {"loss"});
  EXPECT_EQ("", FirstDifference(state, StateOf(*again, {"loss"})));
  EXPECT_NE("", FirstDifference(state, StateOf(*other, {"loss"})));
  auto resumed = make(99);  // another seed: the state brings its own
  resumed->Restore(folder / "s_iter_6.solverstate");
  resumed->Step(7);
  EXPECT_EQ("", FirstDifference(state, StateOf(*resumed, {"loss"})));
}

// A gate that gives all items to expert 0. Without a regulariser it stays so.
TEST_P(MoeTrainingTest, DeadExpertsRecover) {
  const auto least_used = [&](const std::string& more, int steps) {
    SolverParameter parameter = Parameter(MoeText(more), 5, "type: 'SGD' ");
    Solver solver(parameter, GetParam().device);
    auto& gate = *solver.net()->LayerByName("moe")->blobs()[1];  // the bias of the gate
    gate.SetData({4, 0, 0, 0});
    solver.Step(steps);
    double least = 1, sum = 0;
    std::vector<double> usage(4);
    for (int i = 0; i < 20; ++i) {
      solver.net()->Forward();
      const std::vector<double> observed = solver.net()->BlobByName("observed")->DataAsDouble();
      for (int e = 0; e < 4; ++e) usage[e] += observed[e] / 20;
    }
    for (const double share : usage) {
      least = std::min(least, share);
      sum += share;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    return least;
  };
  if (GetParam().type != kFloat) return;
  EXPECT_LT(least_used("", 200), 0.02);
  EXPECT_GT(least_used("usage_loss_weight: 4", 300), 0.125) << "half of even use";
  EXPECT_GT(least_used("load_balance_loss_weight: 4", 300), 0.125);
  EXPECT_GT(least_used("balance_rate: 0.0625", 200), 0.125);
}

INSTANTIATE_TEST_SUITE_P(All, MoeTrainingTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
