#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

struct GroupedCase {
  std::string type, parameter;
  Shape item;  // of bottom 0, without its rows
};

const std::vector<GroupedCase>& Cases() {
  static const std::vector<GroupedCase> cases{
      {"Convolution",
       "convolution_param { num_output: 4 kernel_size: 3 pad: 1 group: 2 }",
       {4, 5, 6}},
      {"Convolution",
       "convolution_param { num_output: 3 kernel_size: 1 bias_term: false }",
       {2, 3, 3}},
      {"InnerProduct", "inner_product_param { num_output: 5 }", {2, 3, 2}},
      {"InnerProduct",
       "inner_product_param { num_output: 5 transpose: true bias_term: false }",
       {7}},
      {"Convolution",
       "convolution_param { num_output: 12 kernel_size: 3 stride: 2 group: 2 }",
       {16, 7, 6}},
      {"InnerProduct", "inner_product_param { num_output: 5 }", {16, 2}}};
  return cases;
}

// In phase TEST one operator may compute the rows of all experts.
std::vector<std::pair<GroupedCase, std::string>> CasesAndPhases() {
  std::vector<std::pair<GroupedCase, std::string>> all;
  for (const GroupedCase& c : Cases()) {
    for (const char* phase : {"phase: TRAIN ", "phase: TEST "}) all.emplace_back(c, phase);
  }
  return all;
}

// The rows of each expert; the last two belong to no item.
const std::vector<int64_t> kCounts{7, 0, 1, 22};

Shape Rows(int64_t rows, const Shape& item) {
  Shape shape{rows};
  shape.insert(shape.end(), item.begin(), item.end());
  return shape;
}

std::vector<double> Offsets() {
  std::vector<double> offsets{0};
  for (const int64_t count : kCounts)
    offsets.push_back(offsets.back() + static_cast<double>(count));
  return offsets;
}

LayerTester Grouped(const GroupedCase& c, Device* device, DataType type,
                    const std::string& more = "") {
  const std::string types = Concat(more, "type: 'Grouped", c.type, "' ", c.parameter);
  const auto rows = static_cast<int64_t>(Offsets().back()) + 2;
  LayerTester layer(types + " moe_param { experts: 4 }", device, TypeTriple::Equal(type),
                    {Rows(rows, c.item), {5}});
  layer.SetBottom(1, Offsets());
  uint64_t seed = 3;
  for (auto& blob : layer.layer().blobs()) {
    std::vector<double> values = TestNumbers(blob->count(), ++seed);
    blob->SetData(values);
  }
  return layer;
}

// The ordinary layer with the weights of one expert.
LayerTester One(const GroupedCase& c, Device* device, DataType type, LayerBase& grouped, int expert,
                int64_t rows) {
  LayerTester layer(Concat("type: '", c.type, "' ", c.parameter), device, TypeTriple::Equal(type),
                    {Rows(rows, c.item)});
  const size_t blobs = layer.layer().blobs().size();
  for (size_t b = 0; b < blobs; ++b) {
    layer.layer().blobs()[b]->SetData(grouped.blobs()[expert * blobs + b]->DataAsDouble());
  }
  return layer;
}

template <class T>
std::vector<T> Cut(const std::vector<T>& all, int64_t begin, int64_t end, int64_t rows) {
  const auto columns = static_cast<int64_t>(all.size()) / rows;
  return {all.begin() + begin * columns, all.begin() + end * columns};
}

class GroupedLayersTest : public testing::TestWithParam<DeviceType> {};

TEST_P(GroupedLayersTest, EqualOrdinaryLayersOfEachExpert) {
  const auto [device, type] = GetParam();
  for (const auto& [c, phase] : CasesAndPhases()) {
    LayerTester all = Grouped(c, device, type, phase);
    all.Forward();
    const int64_t rows = all.bottom().shape(0);
    std::vector<double> diff = TestNumbers(all.top().count(), 5);
    const int64_t columns = all.top().count(1);
    std::fill(diff.end() - 2 * columns, diff.end(), 0);  // no item has a gradient for unused rows
    all.SetTopDiff(0, diff);
    all.Backward();
    diff = all.top().DiffAsDouble();
    for (int e = 0; e < 4; ++e) {
      const auto begin = static_cast<int64_t>(Offsets()[e]), end = begin + kCounts[e];
      const size_t blobs = all.layer().blobs().size() / 4;
      if (begin == end) {
        for (size_t b = 0; b < blobs; ++b) {
          const std::vector<double> none = all.layer().blobs()[e * blobs + b]->DiffAsDouble();
          EXPECT_EQ(none, std::vector<double>(none.size(), 0));
        }
        continue;
      }
      LayerTester one = One(c, device, type, all.layer(), e, end - begin);
      one.SetBottom(0, Cut(all.Bottom(0), begin, end, rows));
      one.Forward();
      one.SetTopDiff(0, Cut(diff, begin, end, rows));
      one.Backward();
      const std::string what = Concat(phase, c.type, " of expert ", e);
      const double tolerance = 8 * Tolerance(type);
      ExpectNear(Cut(all.Top(), begin, end, rows), one.Top(), tolerance, what);
      ExpectNear(Cut(all.BottomDiff(0), begin, end, rows), one.BottomDiff(0), tolerance,
                 "dE/dx, " + what);
      for (size_t b = 0; b < blobs; ++b) {
        ExpectNear(all.layer().blobs()[e * blobs + b]->DiffAsDouble(),
                   one.layer().blobs()[b]->DiffAsDouble(), tolerance, "dE/dw, " + what);
      }
    }
  }
}

// Rows of [channels, positions] with channels last; `back`: from [positions, channels].
std::vector<double> ChannelsLast(const std::vector<double>& values, const Shape& shape,
                                 bool back = false) {
  const int64_t channels = shape[1], positions = ShapeCount(shape, 2);
  std::vector<double> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / (channels * positions),
                  c = static_cast<int64_t>(i) / positions % channels,
                  p = static_cast<int64_t>(i) % positions;
    const size_t last = (row * positions + p) * channels + c;
    back ? out[i] = values[last] : out[last] = values[i];
  }
  return out;
}

TEST_P(GroupedLayersTest, StepsComputeLaterLayers) {
  const auto [device, type] = GetParam();
  for (const GroupedCase& c : Cases()) {
    LayerTester layer = Grouped(c, device, type, "phase: TEST ");
    layer.Forward();
    const Shape shape = layer.top().shape();
    const auto residual = MakeBlob(type, device, shape, "residual");
    residual->SetData(TestNumbers(residual->count(), 9));
    std::vector<double> expected = layer.Top();
    const std::vector<double> added = residual->DataAsDouble();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(expected[i] + added[i], 0.);
    WorkRequest request;
    request.stages = {ResidualSum{1}, kPlainReLU};
    request.residual = residual.get();
    layer.ForwardWith(request);
    const double tolerance = 2 * Tolerance(type);
    ExpectNear(layer.Top(), expected, tolerance, c.type);
    if (!layer.layer().Facts().layouts.nhwc) continue;
    layer.SetBottom(0, ChannelsLast(layer.Bottom(0), layer.bottom().shape()));
    residual->SetData(ChannelsLast(added, shape));
    request.layouts = {Layout::kNHWC, Layout::kNHWC};
    layer.ForwardWith(request);
    ExpectNear(ChannelsLast(layer.Top(), shape, true), expected, tolerance, c.type + " in NHWC");
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupedLayersTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// On devices one operator computes codes in phase TEST: the host does not wait, and the work can be
// replayed. Of 8 bits, its vectors of bytes do not divide 2 channels of a group, and rows of 7.
TEST(JointGroupedLayersTest, DoNotWaitOnDevices) {
  for (Device* device : TestDevices()) {
    const bool host = device->host_accessible();
    for (const auto& [c, phase] : CasesAndPhases()) {
      LayerTester layer = Grouped(c, device, kQuant8, phase);
      const LayerFacts facts = layer.layer().Facts();
      const bool divides = c.item != Shape{4, 5, 6} && c.item != Shape{7};
      const bool joint = !host && divides && phase == "phase: TEST ";
      const std::string what = Concat(device->info().id, ", ", phase, c.type);
      EXPECT_EQ(facts.replayable, joint) << what;
      EXPECT_EQ(facts.host, !host && !joint) << what;
    }
  }
}

class QuantizedGroupedLayersTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedGroupedLayersTest, EqualOrdinaryLayersCodeByCode) {
  const auto [device, type] = GetParam();
  const QuantRange in{0.02, 99, true}, out{0.05, 120, true};
  for (const auto& [c, phase] : CasesAndPhases()) {
    LayerTester all = Grouped(c, device, type, phase);
    const std::vector<int64_t> codes = TestCodes(all.bottom().count(), type);
    SetCodesOf(&all.bottom(), codes);
    all.bottom().set_range(in);
    all.top().set_range(out);
    all.Forward();
    const int64_t rows = all.bottom().shape(0);
    for (int e = 0; e < 4; ++e) {
      const auto begin = static_cast<int64_t>(Offsets()[e]), end = begin + kCounts[e];
      if (begin == end) continue;
      LayerTester one = One(c, device, type, all.layer(), e, end - begin);
      SetCodesOf(&one.bottom(), Cut(codes, begin, end, rows));
      one.bottom().set_range(in);
      one.top().set_range(out);
      one.Forward();
      EXPECT_EQ(Cut(CodesOf(all.top()), begin, end, rows), CodesOf(one.top()))
          << phase << c.type << " of expert " << e;
    }
    std::vector<int64_t> positive = CodesOf(all.top());
    for (int64_t& code : positive) code = std::max<int64_t>(code, out.zero);
    all.ForwardWith({{}, {kPlainReLU}});
    EXPECT_EQ(CodesOf(all.top()), positive) << c.type << " and ReLU";
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedGroupedLayersTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(GroupedLayersPseudoTest, EachExpertHasTheValuesOfItsCodes) {
  for (const GroupedCase& c : Cases()) {
    Device* const cpu = Runtime::Get().cpu();
    LayerTester all = Grouped(c, cpu, kFloat);
    all.Forward();
    const std::vector<double> exact = all.Top();
    dynamic_cast<WeightedLayer&>(all.layer()).set_pseudo_weights(kQuant8);
    all.Forward();
    EXPECT_NE(all.Top(), exact);
    const int64_t rows = all.bottom().shape(0);
    for (int e = 0; e < 4; ++e) {
      const auto begin = static_cast<int64_t>(Offsets()[e]), end = begin + kCounts[e];
      if (begin == end) continue;
      LayerTester one = One(c, cpu, kFloat, all.layer(), e, end - begin);
      dynamic_cast<WeightedLayer&>(one.layer()).set_pseudo_weights(kQuant8);
      one.SetBottom(0, Cut(all.Bottom(0), begin, end, rows));
      one.Forward();
      ExpectNear(Cut(all.Top(), begin, end, rows), one.Top(), 8 * Tolerance(kFloat),
                 Concat(c.type, " of expert ", e));
    }
  }
}

// A single expert has all rows, which no offsets divide.
TEST(GroupedLayersOneTest, OneExpertIsTheOrdinaryLayer) {
  const std::string text = "inner_product_param { num_output: 2 } ";
  for (const std::string phase : {"phase: TRAIN ", "phase: TEST "}) {
    LayerTester all(phase + "type: 'GroupedInnerProduct' moe_param { experts: 1 } " + text,
                    Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{5, 3}, {2}});
    LayerTester one(phase + "type: 'InnerProduct' " + text, Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {{5, 3}});
    for (LayerTester* layer : {&all, &one}) {
      layer->layer().blobs()[0]->SetData(TestNumbers(6, 3));
      layer->layer().blobs()[1]->SetData(TestNumbers(2, 4));
      layer->SetBottom(0, TestNumbers(15, 5));
      layer->Forward();
      layer->SetTopDiff(0, TestNumbers(10, 6));
      layer->Backward();
    }
    EXPECT_EQ(all.Top(), one.Top());
    EXPECT_EQ(all.BottomDiff(0), one.BottomDiff(0));
    EXPECT_EQ(all.layer().blobs()[0]->DiffAsDouble(), one.layer().blobs()[0]->DiffAsDouble());
    EXPECT_EQ(all.layer().Facts().layouts.bottoms, 1);
  }
}

TEST(GroupedLayersGradientTest, AgreesWithDifferences) {
  for (const GroupedCase& c : Cases()) {
    LayerTester layer = Grouped(c, Runtime::Get().cpu(), kDouble);
    layer.CheckGradient();
  }
}

TEST(GroupedLayersErrorTest, OffsetsThatAreNotInOrder) {
  LayerTester layer(
      "type: 'GroupedInnerProduct' inner_product_param { num_output: 2 } "
      "moe_param { experts: 2 }",
      Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4, 3}, {3}});
  for (const std::vector<double>& offsets : {std::vector<double>{0, 5, 5}, {3, 2, 4}, {-1, 2, 4}}) {
    layer.SetBottom(1, offsets);
    EXPECT_THROW(layer.Forward(), Error);
  }
  layer.SetBottom(1, {0, 2, 4});
  EXPECT_NO_THROW(layer.Forward());
}

TEST(GroupedLayersErrorTest, OffsetsOfAnotherNumberOfExperts) {
  const auto make = [](const std::string& more) {
    LayerTester("type: 'GroupedInnerProduct' inner_product_param { num_output: 2 } " + more,
                Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4, 3}, {3}});
  };
  EXPECT_NO_THROW(make("moe_param { experts: 2 }"));
  EXPECT_THROW(make("moe_param { experts: 3 }"), Error);
  EXPECT_THROW(make(""), Error);
}

}  // namespace
}  // namespace caffe
