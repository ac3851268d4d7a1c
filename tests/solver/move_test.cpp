#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

// A solver whose thread changes its device trains on as one that stays where it is.
namespace caffe {
namespace {

constexpr char kNet[] = R"(
  layer { name: 'data' type: 'DummyData' top: 'x' top: 'label' dummy_data_param {
          shape { dim: 8 dim: 5 } shape { dim: 8 }
          data_filler { type: 'gaussian' } data_filler { value: 1 } } }
  layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'ip1'
          inner_product_param { num_output: 6 bias_term: false
                                weight_filler { type: 'gaussian' std: 0.5 } } }
  layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }
  layer { name: 'prelu' type: 'PReLU' bottom: 'ip1' top: 'ip1' }
  layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' }
  layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'
          inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.5 } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }
)";

class SolverMoveTest : public testing::TestWithParam<DeviceType> {
 protected:
  void TearDown() override { Runtime::Get().SetDefaultDevice(nullptr); }

  // Where the thread goes from the CPU: from the CPU itself to a second one.
  static Device* Away() {
    static CpuDevice second;
    Device* device = GetParam().device;
    return device == Runtime::Get().cpu() ? &second : device;
  }
};

TEST_P(SolverMoveTest, TrainingGoesOn) {
  const DataType type = GetParam().type;
  for (const char* rule : {"type: 'SGD' momentum: 0.9", "type: 'Adam' momentum: 0.9"}) {
    SolverParameter parameter;
    ParseTextProto(
        Concat(rule, " base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 iter_size: 2 ",
               "average_loss: 3 clip_gradients: 1 weight_decay: 0.01 max_iter: 8 ",
               "loss_scale_init: 64 loss_scale_window: 2 test_iter: 1 ",
               "test_interval: 1000 display: 0 net_param { data_type: ",
               DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)), kNet, "}"),
        "test", &parameter);
    Runtime::Get().SetDefaultDevice(Runtime::Get().cpu());
    Solver fixed(parameter, Runtime::Get().cpu()), moved(parameter, nullptr);
    for (int step = 0; step < 6; ++step) {
      fixed.Step(1);
      Runtime::Get().SetDefaultDevice(step % 2 == 0 ? Away() : Runtime::Get().cpu());
      moved.Step(1);
      EXPECT_EQ(moved.net()->device(), Runtime::Get().default_device());
      const TrainingState one = StateOf(moved, {"loss"}), two = StateOf(fixed, {"loss"});
      ASSERT_EQ(one.size(), two.size());
      for (size_t i = 0; i < one.size(); ++i) {
        ExpectNear(one[i].second, two[i].second, 16 * Tolerance(type),
                   Concat(rule, ", step ", step, ": ", one[i].first));
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SolverMoveTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
