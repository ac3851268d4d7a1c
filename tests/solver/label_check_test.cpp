#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

// When a training hears of a label that names no class.
namespace caffe {
namespace {

constexpr char kNet[] = R"(
  name: 'classifier'
  layer { name: 'in' type: 'Input' top: 'x' top: 'label'
          input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
          inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' }
  layer { name: 'accuracy' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'accuracy' }
)";

const std::vector<double> kRight{0, 1, 2, 0}, kWrong{0, 1, 5, 0};
constexpr char kMessage[] =
    "loss (SoftmaxWithLoss): label 5 of item 2 is not one of 3 classes (0 to 2); set num_output of "
    "the layer that makes the scores to at least 6, or ignore such items with loss_param { "
    "ignore_label: 5 }";

std::unique_ptr<Solver> Make(const DeviceType& target, const std::string& more = "") {
  SolverParameter parameter;
  ParseTextProto("base_lr: 0.1 lr_policy: 'fixed' random_seed: 7 " + more, "test", &parameter);
  parameter.set_data_type(static_cast<DataTypeProto>(target.type.info().proto));
  ParseTextProto(kNet, "net", parameter.mutable_net_param());
  auto solver = std::make_unique<Solver>(parameter, target.device);
  std::vector<Net*> nets{solver->net()};
  for (const auto& net : solver->test_nets()) nets.push_back(net.get());
  for (Net* net : nets) {
    net->BlobByName("x")->SetData(TestNumbers(24, 1));
    net->BlobByName("label")->SetData(kRight);
  }
  return solver;
}

void SetLabels(Net* net, const std::vector<double>& labels) {
  net->BlobByName("label")->SetData(labels);
}

class LabelCheckTest : public testing::TestWithParam<DeviceType> {
 protected:
  bool on_cpu() const { return GetParam().device->host_accessible(); }
};

TEST_P(LabelCheckTest, TheNextReadOfALossSaysIt) {
  auto solver = Make(GetParam(), "average_loss: 2 max_iter: 100");
  Net& net = *solver->net();
  solver->Step(1);
  SetLabels(&net, kWrong);
  if (on_cpu()) {
    EXPECT_EQ(kMessage, ErrorOf([&] { solver->Step(1); }));
  } else {
    solver->Step(1);
    // The device continues to compute and keeps the error.
    SetLabels(&net, kRight);
    solver->Step(3);
    EXPECT_EQ(kMessage, ErrorOf([&] { solver->SmoothedLoss(); }));
  }
  SetLabels(&net, kRight);
  solver->Step(2);
  EXPECT_TRUE(std::isfinite(solver->SmoothedLoss()));
  EXPECT_TRUE(std::isfinite(net.Loss()));
  SetLabels(&net, kWrong);
  EXPECT_EQ(kMessage, ErrorOf([&] {
              net.Forward();
              net.Loss();
            }));
}

// Until then, items with wrong labels are ignored: the weights are those of training without them.
TEST_P(LabelCheckTest, WeightsStayWhatTheOtherItemsMakeOfThem) {
  if (on_cpu()) GTEST_SKIP() << "the CPU's Forward throws at once";
  std::vector<double> expected;
  for (const bool wrong : {false, true}) {
    auto solver = Make(GetParam());
    SetLabels(solver->net(), kWrong);
    if (!wrong) {
      SolverParameter parameter = solver->param();
      for (int i = 2; i < 4; ++i) {
        LayerParameter* layer = parameter.mutable_net_param()->mutable_layer(i);
        (i == 2 ? layer->mutable_loss_param()->set_ignore_label(5)
                : layer->mutable_accuracy_param()->set_ignore_label(5));
      }
      solver = std::make_unique<Solver>(parameter, GetParam().device);
      solver->net()->BlobByName("x")->SetData(TestNumbers(24, 1));
      SetLabels(solver->net(), kWrong);
    }
    solver->Step(5);
    const std::vector<double> weights = solver->net()->learnable_params()[0]->DataAsDouble();
    if (!wrong) expected = weights;
    EXPECT_EQ(weights, expected);
  }
}

TEST_P(LabelCheckTest, AnIterationDoesNotWait) {
  auto solver = Make(GetParam());
  solver->Step(2);
  GetParam().device->ResetCounters();
  solver->Step(5);
  const DeviceCounters counters = GetParam().device->counters();
  EXPECT_EQ(0, counters.downloads);
  EXPECT_EQ(0, counters.syncs);
  EXPECT_EQ(0, counters.uploads);
  EXPECT_EQ(0, counters.allocations);
  // A finite loss means that all labels were valid: nothing more is read.
  solver->net()->Loss();
  EXPECT_EQ(on_cpu() ? 0 : 1, GetParam().device->counters().downloads);
}

TEST_P(LabelCheckTest, DisplayTestSnapshotAndEndSayIt) {
  const TemporaryFolder folder;
  const std::string prefix = Concat("snapshot_prefix: '", folder / "s", "' ");
  const std::string quiet = "snapshot_after_train: false max_iter: 3 ";
  for (const std::string& more :
       {quiet, quiet + "display: 3", prefix + "snapshot: 2 max_iter: 4", prefix + "max_iter: 3"}) {
    auto solver = Make(GetParam(), more);
    SetLabels(solver->net(), kWrong);
    EXPECT_EQ(kMessage, ErrorOf([&] { solver->Solve(); })) << more;
  }
  // Work of many hours is kept.
  EXPECT_EQ(!on_cpu(), std::filesystem::exists(folder / "s_iter_2.caffemodel"));
  EXPECT_EQ(!on_cpu(), std::filesystem::exists(folder / "s_iter_3.caffemodel"));
  auto solver = Make(GetParam(), quiet + "test_iter: 2 test_interval: 2");
  SetLabels(solver->test_nets()[0].get(), kWrong);
  EXPECT_EQ(kMessage, ErrorOf([&] { solver->Solve(); }));
  EXPECT_EQ(0, solver->iter());
}

TEST_P(LabelCheckTest, AMoveToAnotherDeviceKeepsIt) {
  if (on_cpu()) GTEST_SKIP() << "the CPU's Forward throws at once";
  auto solver = Make(GetParam());
  Net& net = *solver->net();
  SetLabels(&net, kWrong);
  net.Forward();
  net.SetDevice(TestDevices()[0]);
  EXPECT_EQ(kMessage, ErrorOf([&] { net.CheckData(); }));
  SetLabels(&net, kRight);
  net.Forward();
  EXPECT_TRUE(std::isfinite(net.Loss()));
}

INSTANTIATE_TEST_SUITE_P(All, LabelCheckTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
