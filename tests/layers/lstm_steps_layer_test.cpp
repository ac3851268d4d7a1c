// LSTMSteps, the steps of LSTM as one layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/has_pseudo_weights.hpp"
#include "layers/recurrence.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kSteps = 4, kItems = 3, kHidden = 5;

LayerTester MakeSteps(Device* device, DataType type) {
  LayerTester layer(
      "type: 'LSTMSteps' recurrent_param { num_output: 5 weight_filler { type: 'xavier' } }",
      device, TypeTriple::Equal(type),
      {{kSteps, kItems, 4 * kHidden}, {kSteps, kItems}, {1, kItems, kHidden}, {1, kItems, kHidden}},
      3);
  layer.SetBottom(1, {1, 0, 1, 1, 1, 0.5, 1, 1, 1, 0, 1, 1});
  return layer;
}

TEST(LstmStepsTest, Gradients) { MakeSteps(Runtime::Get().cpu(), kDouble).CheckGradient(); }

class LstmStepsDeviceTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LstmStepsDeviceTest, Backward) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeSteps(device, type), exact = MakeSteps(Runtime::Get().cpu(), kDouble);
  for (LayerTester* one : {&layer, &exact}) {
    one->layer().blobs()[0]->SetData(TestNumbers(4 * kHidden * kHidden, 7));
    one->Forward();
    for (const int t : {0, 1, 2}) one->RandomTopDiff(t);
    one->Backward();
  }
  for (const int t : {0, 1, 2}) {
    ExpectNear(layer.Top(t), exact.Top(t), 4 * Tolerance(type), "top " + std::to_string(t));
  }
  for (const int b : {0, 2, 3}) {
    ExpectNear(layer.BottomDiff(b), exact.BottomDiff(b), 8 * Tolerance(type),
               "bottom " + std::to_string(b));
  }
  ExpectNear(layer.layer().blobs()[0]->DiffAsDouble(), exact.layer().blobs()[0]->DiffAsDouble(),
             8 * Tolerance(type), "weights");
}

INSTANTIATE_TEST_SUITE_P(Devices, LstmStepsDeviceTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(LstmStepsTest, WritesOnlyWantedDiffs) {
  for (Device* device : TestDevices()) {
    for (const char* library : {"lstm=products", "lstm=generated"}) {
      const ScopedVariable choice("CAFFE_LIBRARY", library);
      for (const int wanted : {0, 2, 3}) {
        LayerTester layer = MakeSteps(device, kFloat), all = MakeSteps(device, kFloat);
        BlobVec bottom, top;
        for (LayerTester* one : {&layer, &all}) {
          one->Forward();
          for (const int t : {0, 1, 2}) one->SetTopDiff(t, TestNumbers(one->top(t).count(), 9 + t));
        }
        all.Backward();
        for (int b = 0; b < 4; ++b) {
          bottom.push_back(&layer.bottom(b));
          bottom[b]->SetDiff(Numbers(bottom[b]->count(), 77));
        }
        for (int t = 0; t < 3; ++t) top.push_back(&layer.top(t));
        std::vector<bool> propagate(4, false);
        propagate[wanted] = true;
        layer.layer().Backward(top, propagate, bottom);
        for (const int b : {0, 2, 3}) {
          const Numbers expected =
              b == wanted ? all.BottomDiff(b) : Numbers(bottom[b]->count(), 77);
          EXPECT_EQ(layer.BottomDiff(b), expected) << device->info().id << library << wanted << b;
        }
      }
    }
  }
}

// With the values of codes: each of the 4H rows has a scale of its own.
TEST(LstmStepsTest, PseudoWeights) {
  for (Device* device : TestDevices()) {
    LayerTester pseudo = MakeSteps(device, kFloat), rounded = MakeSteps(device, kFloat);
    const Numbers weights = TestNumbers(4 * kHidden * kHidden, 7);
    Numbers codes;
    for (int64_t row = 0; row < 4 * kHidden; ++row) {
      double greatest = 0;
      for (int64_t i = 0; i < kHidden; ++i) {
        greatest = std::max(greatest, std::abs(weights[row * kHidden + i]));
      }
      const double scale = greatest / 127;
      for (int64_t i = 0; i < kHidden; ++i) {
        codes.push_back(std::round(weights[row * kHidden + i] / scale) * scale);
      }
    }
    pseudo.layer().blobs()[0]->SetData(weights);
    rounded.layer().blobs()[0]->SetData(codes);
    dynamic_cast<HasPseudoWeights&>(pseudo.layer()).set_pseudo_weights(kQuant8);
    pseudo.Forward();
    rounded.Forward();
    ExpectNear(pseudo.Top(), rounded.Top(), 1e-6, "h");
    dynamic_cast<HasPseudoWeights&>(pseudo.layer()).set_pseudo_weights({});
    const Numbers before = pseudo.Top();
    pseudo.Forward();
    EXPECT_NE(pseudo.Top(), before);
  }
}

TEST(LstmStepsTest, ErrorsNameTheShapes) {
  const auto message = [](const std::vector<Shape>& shapes) {
    return MessageOf([&] {
      LayerTester("name: 'l' type: 'LSTMSteps' recurrent_param { num_output: 5 }",
                  Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes, 3);
    });
  };
  EXPECT_TRUE(Holds(message({{4, 3, 15}, {4, 3}, {1, 3, 5}, {1, 3, 5}}),
                    "gates must have the shape T N 20; bottom 0 has shape 4 3 15"));
  EXPECT_TRUE(Holds(message({{4, 3, 20}, {3, 3}, {1, 3, 5}, {1, 3, 5}}),
                    "cont must have the shape 4 3; it has shape 3 3"));
  EXPECT_TRUE(Holds(message({{4, 3, 20}, {4, 3}, {1, 3, 5}, {1, 3, 6}}),
                    "bottom 3 must have the shape 1 3 5 (15); it has shape 1 3 6"));
}

}  // namespace
}  // namespace caffe
