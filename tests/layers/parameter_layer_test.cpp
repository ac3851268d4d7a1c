#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeParameter(const std::string& parameter, Device* device = Runtime::Get().cpu(),
                          DataType type = kFloat) {
  return LayerTester("type: 'Parameter' " + parameter, device, TypeTriple::Equal(type), {});
}

constexpr char kShape[] = "parameter_param { shape { dim: 2 dim: 3 } }";

class ParameterLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ParameterLayerTest, TheTopIsTheBlob) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeParameter(kShape, device, type);
  ASSERT_EQ(layer.layer().blobs().size(), 1u);
  BlobBase& blob = *layer.layer().blobs()[0];
  EXPECT_EQ(blob.type(), type == kDouble ? kDouble : kFloat);
  layer.Forward();
  ASSERT_EQ(layer.top().shape(), Shape({2, 3}));
  EXPECT_EQ(layer.Top(), std::vector<double>(6, 0));
  const std::vector<double> values = TestNumbers(6, 1);
  blob.SetData(values);
  layer.Forward();
  EXPECT_EQ(layer.Top(), values);
  if (type == blob.type()) {
    EXPECT_EQ(layer.top().data_memory(), blob.data_memory());
  }
}

// A solver moves the blob into an arena; another net may share its memory.
TEST_P(ParameterLayerTest, FollowsABlobThatMoves) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeParameter(kShape, device, type);
  layer.Forward();
  BlobBase& blob = *layer.layer().blobs()[0];
  blob.data_memory()->MoveInto(std::make_shared<DeviceBuffer>(device, 1024, "arena"), 512);
  blob.SetData(TestNumbers(6, 2));
  layer.Forward();
  EXPECT_EQ(layer.Top(), TestNumbers(6, 2));
  const auto other = MakeBlob(blob.type(), device, blob.shape(), "other");
  other->SetData(TestNumbers(6, 3));
  blob.ShareData(*other);
  layer.Forward();
  EXPECT_EQ(layer.Top(), TestNumbers(6, 3));
}

TEST_P(ParameterLayerTest, AddsToTheGradient) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeParameter(kShape, device, type);
  BlobBase& blob = *layer.layer().blobs()[0];
  layer.Forward();
  blob.SetDiff({1, 1, 1, 1, 1, 1});
  layer.SetTopDiff(0, {0.5, -2, 0, 1, 4, 0.25});
  layer.Backward();
  EXPECT_EQ(blob.DiffAsDouble(), (std::vector<double>{1.5, -1, 1, 2, 5, 1.25}));
  layer.Backward();
  EXPECT_EQ(blob.DiffAsDouble(), (std::vector<double>{2, -3, 1, 3, 9, 1.5}));
  layer.layer().set_param_propagate_down(0, false);
  layer.Backward();
  EXPECT_EQ(blob.DiffAsDouble(), (std::vector<double>{2, -3, 1, 3, 9, 1.5}));
}

INSTANTIATE_TEST_SUITE_P(All, ParameterLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ParameterLayerGradientTest, AgreesWithDifferences) {
  MakeParameter(kShape, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(ParameterLayerErrorsTest, NameTheValues) {
  EXPECT_TRUE(Holds(ErrorOf([] { MakeParameter(""); }),
                    "tested (Parameter): parameter_param needs the shape of the blob"));
  EXPECT_EQ(MakeParameter("parameter_param { shape { } }").top().count(), 1);
}

}  // namespace
}  // namespace caffe
