#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "io/temporary_folder.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakePermute(const std::vector<int>& order, const Shape& shape,
                        Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  std::string text = "type: 'Permute' permute_param {";
  for (const int axis : order) text += " order: " + std::to_string(axis);
  return LayerTester(text + " }", device, TypeTriple::Equal(type), {shape});
}

// Where element i of the top is in a bottom of this shape; `order` is complete.
int64_t SourceOf(int64_t i, const std::vector<int>& order, const Shape& shape) {
  Shape index(shape.size());
  for (size_t a = order.size(); a-- > 0;) {
    index[order[a]] = i % shape[order[a]];
    i /= shape[order[a]];
  }
  int64_t source = 0;
  for (size_t a = 0; a < shape.size(); ++a) source = source * shape[a] + index[a];
  return source;
}

struct Case {
  std::vector<int> given, complete;
  Shape shape;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {{0, 2, 3, 1}, {0, 2, 3, 1}, {2, 3, 4, 5}},  // SSD: channels last
      {{0, 3, 1, 2}, {0, 3, 1, 2}, {2, 4, 5, 3}},  // channels first
      {{1}, {1, 0, 2}, {3, 4, 5}},                 // the rest follows
      {{3, 2, 1, 0}, {3, 2, 1, 0}, {2, 3, 4, 5}},  // all turned around
      {{4, 1, 3, 0, 2}, {4, 1, 3, 0, 2}, {2, 3, 2, 4, 3}},
      {{}, {0, 1, 2}, {2, 3, 4}},                  // nothing moves
      {{0, 2, 3, 1}, {0, 2, 3, 1}, {2, 7, 1, 1}},  // only axes of one element move
      {{1, 0}, {1, 0}, {37, 61}},
      {{0}, {0}, {5}},
      {{1, 0, 2}, {1, 0, 2}, {0, 3, 4}},
  };
  return *cases;
}

class PermuteLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PermuteLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer = MakePermute(c.given, c.shape, device, type);
    layer.Forward();
    Shape permuted;
    for (const int axis : c.complete) permuted.push_back(c.shape[axis]);
    ASSERT_EQ(layer.top().shape(), permuted);
    const std::vector<double> x = layer.Bottom(0);
    std::vector<double> y(x.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = x[SourceOf(i, c.complete, c.shape)];
    EXPECT_EQ(layer.Top(), y) << ShapeString(permuted);
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> y_diff = layer.top().DiffAsDouble();
    std::vector<double> x_diff(x.size());
    for (size_t i = 0; i < y.size(); ++i) x_diff[SourceOf(i, c.complete, c.shape)] = y_diff[i];
    EXPECT_EQ(layer.BottomDiff(0), x_diff) << ShapeString(permuted);
  }
}

// By hand: the rows of [[0 1 2] [3 4 5]] become columns.
TEST_P(PermuteLayerTest, TransposesAMatrix) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakePermute({1, 0}, {2, 3}, device, type);
  layer.SetBottom(0, {0, 1, 2, 3, 4, 5});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  layer.SetTopDiff(0, {0, 10, 20, 30, 40, 50});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{0, 20, 40, 10, 30, 50}));
}

TEST_P(PermuteLayerTest, ShapesMayChange) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakePermute({1, 0}, {2, 3}, device, type);
  for (const Shape& shape : {Shape{3, 2}, Shape{5, 4}, Shape{1, 4}}) {
    layer.bottom().Reshape(shape);
    layer.bottom().SetData(TestNumbers(layer.bottom().count(), 5));
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0), y = layer.Top();
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], x[SourceOf(static_cast<int64_t>(i), {1, 0}, shape)]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PermuteLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(PermuteLayerGradientTest, AgreesWithDifferences) {
  MakePermute({2, 0}, {2, 3, 4}, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(PermuteLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::vector<int>& order) {
    return ErrorOf([&] { MakePermute(order, {2, 3}); });
  };
  EXPECT_TRUE(Holds(error({0, 2}),
                    "tested (Permute): order holds 2, which is not an axis of a bottom of shape"));
  EXPECT_TRUE(Holds(error({1, 1}), "order holds 1 more than once"));
  LayerTester layer = MakePermute({1, 0}, {2, 2});
  const BlobVec blob{&layer.bottom()};
  EXPECT_TRUE(
      Holds(ErrorOf([&] { layer.layer().LayerSetUp(blob, blob); }), "cannot work in place"));
}

class QuantizedPermuteLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedPermuteLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer = MakePermute(c.given, c.shape, device, type);
    const std::vector<int64_t> codes = TestCodes(layer.bottom().count(), type);
    SetCodesOf(&layer.bottom(), codes);
    layer.bottom().set_range({0.3, 99, true});
    layer.Forward();
    EXPECT_EQ(layer.top().range().scale, 0.3);
    EXPECT_EQ(layer.top().range().zero, 99);
    const std::vector<int64_t> top = CodesOf(layer.top());
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(top[i], codes[SourceOf(static_cast<int64_t>(i), c.complete, c.shape)]);
    }
    EXPECT_EQ(layer.layer().Facts().range, LayerFacts::Range::kCarried);
    EXPECT_THROW(layer.Backward(), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedPermuteLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
