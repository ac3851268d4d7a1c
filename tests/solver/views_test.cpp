// A view of a parameter that a solver trains: it stays live and costs its own bytes.
#include <gtest/gtest.h>

#include <cstring>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

constexpr char kNet[] = R"(
  layer { name: 'in' type: 'Input' top: 'x' top: 'target'
          input_param { shape { dim: 4 dim: 30 } shape { dim: 4 dim: 5 } } }
  layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'hidden'
          param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
          inner_product_param { num_output: 70 weight_filler { type: 'xavier' } } }
  layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' }
  layer { name: 'ip2' type: 'InnerProduct' bottom: 'hidden' top: 'y'
          param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
          inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'target' top: 'loss' }
)";

constexpr int kBiases = 70;
constexpr int64_t kBytes = kBiases * sizeof(float);

class SolverViewsTest : public testing::TestWithParam<Device*> {
 protected:
  std::unique_ptr<Solver> Make() {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 random_seed: 7 "
        "clip_gradients: 1",
        "test", &parameter);
    ParseTextProto(kNet, "net", parameter.mutable_net_param());
    auto solver = std::make_unique<Solver>(parameter, GetParam());
    solver->net()->BlobByName("x")->SetData(TestNumbers(120, 1));
    solver->net()->BlobByName("target")->SetData(TestNumbers(20, 2));
    return solver;
  }
  static BlobBase& Bias(Solver& solver) { return *solver.net()->LayerByName("ip1")->blobs()[1]; }
  static std::vector<std::vector<double>> Parameters(Solver& solver) {
    std::vector<std::vector<double>> all;
    for (const auto& blob : solver.net()->params()) all.push_back(blob->DataAsDouble());
    return all;
  }
  DeviceCounters CountSteps(Solver& solver, int steps) {
    GetParam()->ResetCounters();
    solver.Step(steps);
    return GetParam()->counters();
  }
};

TEST_P(SolverViewsTest, AViewMovesItsOwnBytesOnly) {
  const GraphsOff launched;  // what is replayed has no view
  auto solver = Make();
  solver->Step(2);
  const DeviceCounters without = CountSteps(*solver, 5);
  EXPECT_EQ(without.download_bytes, 0);
  const auto view = Bias(*solver).data_memory()->View();
  solver->Step(1);
  const DeviceCounters with = CountSteps(*solver, 5);
  // Before a forward and before an update it counts as written; after an update it is read back.
  EXPECT_EQ(with.upload_bytes - without.upload_bytes, 5 * 2 * kBytes);
  EXPECT_EQ(with.download_bytes, 5 * kBytes);
  EXPECT_EQ(with.syncs, 5);
  EXPECT_EQ(with.launches, without.launches);
  EXPECT_EQ(with.allocations, 0);
}

TEST_P(SolverViewsTest, AViewOfADiffMovesItsOwnBytesOnly) {
  const GraphsOff launched;  // what is replayed has no view
  auto solver = Make();
  solver->Step(2);
  const DeviceCounters without = CountSteps(*solver, 5);
  const auto view = Bias(*solver).diff_memory()->View();
  solver->Step(1);
  const DeviceCounters with = CountSteps(*solver, 5);
  EXPECT_LE(with.upload_bytes - without.upload_bytes, 5 * 3 * kBytes);
  EXPECT_LE(with.download_bytes, 5 * 3 * kBytes);
  EXPECT_EQ(with.launches, without.launches);
}

TEST_P(SolverViewsTest, AViewThatIsGoneCostsNothing) {
  auto solver = Make();
  solver->Step(2);
  const DeviceCounters before = CountSteps(*solver, 3);
  Bias(*solver).data_memory()->View().reset();
  Bias(*solver).diff_memory()->View().reset();
  solver->Step(1);
  const DeviceCounters after = CountSteps(*solver, 3);
  EXPECT_EQ(after.upload_bytes, before.upload_bytes);
  EXPECT_EQ(after.download_bytes, before.download_bytes);
  EXPECT_EQ(after.syncs, before.syncs);
}

TEST_P(SolverViewsTest, ViewsChangeNoResult) {
  auto plain = Make(), viewed = Make();
  plain->Step(1);
  viewed->Step(1);
  std::vector<std::shared_ptr<void>> views;
  for (const auto& blob : viewed->net()->params()) {
    views.push_back(blob->data_memory()->View());
    views.push_back(blob->diff_memory()->View());
  }
  plain->Step(4);
  viewed->Step(4);
  EXPECT_EQ(Parameters(*plain), Parameters(*viewed));
}

// Values that are written through a view train on, and the view shows what training made of it.
TEST_P(SolverViewsTest, AViewStaysLive) {
  auto plain = Make(), viewed = Make();
  const auto view = Bias(*viewed).data_memory()->View();
  float* const values = static_cast<float*>(view.get());
  for (int step = 0; step < 3; ++step) {
    std::vector<double> written;
    for (int i = 0; i < kBiases; ++i) {
      values[i] = 0.01f * static_cast<float>(i - step);
      written.push_back(values[i]);
    }
    Bias(*plain).SetData(written);
    plain->Step(1);
    viewed->Step(1);
    viewed->net()->SyncViews();
    const std::vector<double> expected = Bias(*plain).DataAsDouble();
    EXPECT_EQ(std::vector<double>(values, values + kBiases), expected) << "step " << step;
    EXPECT_NE(expected, written);
  }
  EXPECT_EQ(Parameters(*plain), Parameters(*viewed));
}

TEST_P(SolverViewsTest, AViewOutlivesTheSolverAndHoldsItsOwnBytes) {
  Device* device = GetParam();
  const int64_t before = device->bytes_in_use();
  auto solver = Make();
  solver->Step(1);
  const std::vector<double> expected = Bias(*solver).DataAsDouble();
  const auto view = Bias(*solver).data_memory()->View();
  solver.reset();
  EXPECT_EQ(device->bytes_in_use(), before);
  const float* const values = static_cast<const float*>(view.get());
  EXPECT_EQ(std::vector<double>(values, values + kBiases), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, SolverViewsTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace caffe
