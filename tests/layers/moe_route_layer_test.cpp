#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/usage_report.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/routing.hpp"

namespace caffe {
namespace {

std::string RouteText(const std::string& parameter) {
  return "type: 'MOERoute' moe_param { " + parameter + " }";
}

// Positive numbers with two binary digits, so that there are many ties.
std::vector<double> Probabilities(int64_t count, uint64_t seed) {
  std::vector<double> p = TestNumbers(count, seed);
  for (double& value : p) value = std::floor(std::abs(value) * 4) / 4 + 0.125;
  return p;
}

void ExpectRouting(LayerTester& layer, const Routing& expected, DataType type) {
  ExpectNear(layer.Top(0), expected.observed, Tolerance(type), "observed");
  ExpectNear(layer.Top(1), expected.expected, Tolerance(type), "expected");
  ExpectNear(layer.Top(2), expected.weights, Tolerance(type), "weights");
  EXPECT_EQ(layer.Top(3), expected.slots);
  EXPECT_EQ(layer.Top(4), expected.rows);
  EXPECT_EQ(layer.Top(5), expected.offsets);
}

class MOERouteLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MOERouteLayerTest, AgreesWithLoops) {
  const auto [device, type] = GetParam();
  for (const auto& [items, experts, select] :
       {std::tuple(1, 3, 1), std::tuple(37, 5, 2), std::tuple(130, 16, 4), std::tuple(9, 4, 4)}) {
    for (const bool all : {false, true}) {
      for (const char* phase : {"phase: TRAIN ", "phase: TEST "}) {
        const bool normalize = items != 37;
        const std::string parameter = Concat("select_experts: ", select, " full_forward: ", all,
                                             " normalize_weights: ", normalize);
        LayerTester layer(phase + RouteText(parameter), device, TypeTriple::Equal(type),
                          {{items, experts}}, 6);
        const std::vector<double> p = Probabilities(items * experts, 7);
        layer.SetBottom(0, p);
        layer.Forward();
        RoutingSettings settings{items, experts, select, all};
        settings.normalize = normalize;
        ExpectRouting(layer, Route(settings, p), type);
      }
    }
  }
}

TEST_P(MOERouteLayerTest, CapacityKeepsTheFirstItems) {
  const auto [device, type] = GetParam();
  for (const bool all : {false, true}) {
    LayerTester layer(
        RouteText(Concat("select_experts: 2 capacity_factor: 0.75 full_forward: ", all)), device,
        TypeTriple::Equal(type), {{24, 4}}, 6);
    std::vector<double> p = Probabilities(96, 3);
    for (size_t i = 0; i < p.size(); i += 4) p[i] += 1;  // everybody selects expert 0
    layer.SetBottom(0, p);
    layer.Forward();
    const RoutingSettings settings{24, 4, 2, all, 9};
    const Routing expected = Route(settings, p);
    EXPECT_EQ(expected.slots[47], -1) << "the last items find expert 0 full";
    ExpectRouting(layer, expected, type);
  }
}

// The factor is the decimal number that was written, not the float, which is often a little larger.
TEST(MOERouteCapacityTest, IsThatOfTheWrittenFactor) {
  struct Case {
    const char* factor;
    int64_t capacity;  // of 20 items and 2 experts, of which each item selects 1
  };
  for (const Case& c :
       {Case{"0.1", 1}, Case{"0.3", 3}, Case{"0.31", 4}, Case{"0.7", 7}, Case{"1", 10},
        Case{"1.1", 11}, Case{"1.2", 12}, Case{"1.25", 13}, Case{"1.3", 13}, Case{"1.6", 16},
        Case{"1.7", 17}, Case{"1.9", 19}, Case{"1.90001", 20}, Case{"1e-9", 1}, Case{"1e-40", 1},
        Case{"2", 20}, Case{"7", 20}, Case{"1e30", 20}, Case{"inf", 20}}) {
    LayerTester layer(
        Concat("phase: TRAIN ", RouteText(Concat("select_experts: 1 capacity_factor: ", c.factor))),
        Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{20, 2}}, 6);
    std::vector<double> p(40, 0.25);
    for (size_t i = 0; i < p.size(); i += 2) p[i] = 0.75;  // each item selects expert 0
    layer.SetBottom(0, p);
    layer.Forward();
    EXPECT_EQ(layer.Top(5)[1], static_cast<double>(c.capacity)) << c.factor;
  }
}

TEST_P(MOERouteLayerTest, BiasEvensOutTheUsage) {
  const auto [device, type] = GetParam();
  LayerTester layer(RouteText("select_experts: 1 balance_rate: 0.0625"), device,
                    TypeTriple::Equal(type), {{32, 4}}, 6);
  std::vector<double> p(128);
  for (size_t i = 0; i < p.size(); ++i) p[i] = 0.125 + (i % 4 == 0) + 0.25 * ((i / 4) % 4 == i % 4);
  layer.SetBottom(0, p);
  std::vector<double> bias(4, 0);
  for (int step = 0; step < 12; ++step) {
    layer.Forward();
    RoutingSettings settings{32, 4, 1};
    settings.bias = bias;
    const Routing expected = Route(settings, p);
    ExpectRouting(layer, expected, type);
    for (int e = 0; e < 4; ++e) {
      bias[e] += expected.observed[e] < 0.25 ? 0.0625 : expected.observed[e] > 0.25 ? -0.0625 : 0;
    }
    EXPECT_EQ(layer.layer().blobs()[0]->DataAsDouble(), bias);
  }
  EXPECT_EQ(layer.Top(0)[0], 0.25) << "each expert has its quarter";
  EXPECT_EQ(layer.layer().layer_param().param(0).lr_mult(), 0);
}

TEST_P(MOERouteLayerTest, ReportsTheMeanUsage) {
  const auto [device, type] = GetParam();
  LayerTester layer(RouteText("select_experts: 1"), device, TypeTriple::Equal(type), {{4, 2}}, 6);
  auto* const report = dynamic_cast<UsageReport*>(&layer.layer());
  EXPECT_TRUE(report->TakeUsage().empty());
  layer.SetBottom(0, {1, 0, 1, 0, 1, 0, 1, 0});
  layer.Forward();
  layer.SetBottom(0, {1, 0, 1, 0, 0, 1, 0, 1});
  layer.Forward();
  EXPECT_EQ(report->TakeUsage().at(0).shares, (std::vector<double>{0.75, 0.25}));
  EXPECT_TRUE(report->TakeUsage().empty());
  layer.Forward();
  EXPECT_EQ(report->TakeUsage().at(0).shares, (std::vector<double>{0.5, 0.5}));
}

TEST_P(MOERouteLayerTest, NaNIsSelectedLastAndPropagates) {
  const auto [device, type] = GetParam();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LayerTester layer(RouteText("select_experts: 2"), device, TypeTriple::Equal(type), {{2, 3}}, 6);
  layer.SetBottom(0, {nan, 0.25, 0.75, nan, nan, 1});
  layer.Forward();
  const std::vector<double> weights = layer.Top(2);
  EXPECT_NEAR(weights[0], 0.75, 1e-2);
  EXPECT_NEAR(weights[1], 0.25, 1e-2);
  EXPECT_TRUE(std::isnan(weights[2]) && std::isnan(weights[3]));
  EXPECT_EQ(layer.Top(5), (std::vector<double>{0, 1, 2, 4}));
}

// dE/dp of E = <weights, a> + <observed, b>, from the definition.
TEST_P(MOERouteLayerTest, Backward) {
  const auto [device, type] = GetParam();
  const int64_t items = 11, experts = 5, select = 2;
  for (const bool normalize : {true, false}) {
    LayerTester layer(RouteText(Concat("select_experts: 2 normalize_weights: ", normalize)), device,
                      TypeTriple::Equal(type), {{items, experts}}, 6);
    const std::vector<double> p = Probabilities(items * experts, 9);
    layer.SetBottom(0, p);
    layer.Forward();
    for (int t = 0; t < 6; ++t) layer.RandomTopDiff(t);
    layer.Backward();
    const std::vector<double> a = layer.top(2).DiffAsDouble(), b = layer.top(0).DiffAsDouble();
    const std::vector<double> rows = layer.Top(4), offsets = layer.Top(5);
    std::vector<double> expected(items * experts);
    std::vector<int64_t> expert_of(items * select);
    for (int64_t e = 0; e < experts; ++e) {
      for (auto r = static_cast<int64_t>(offsets[e]); r < offsets[e + 1]; ++r) {
        expert_of[static_cast<int64_t>(rows[r])] = e;
      }
      double sum = 0;
      for (int64_t n = 0; n < items; ++n) sum += b[n * experts + e];
      for (int64_t n = 0; n < items; ++n) expected[n * experts + e] = sum * select / items;
    }
    for (int64_t n = 0; n < items; ++n) {
      double sum = 0, dot = 0;
      for (int64_t k = 0; k < select; ++k) {
        const double v = p[n * experts + expert_of[n * select + k]];
        sum += v;
        dot += v * a[n * select + k];
      }
      for (int64_t k = 0; k < select; ++k) {
        const double own = a[n * select + k];
        expected[n * experts + expert_of[n * select + k]] +=
            normalize ? (own - dot / sum) / sum : own;
      }
    }
    ExpectNear(layer.BottomDiff(0), expected, 8 * Tolerance(type), "dE/dp");
  }
}

INSTANTIATE_TEST_SUITE_P(All, MOERouteLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(MOERouteErrorTest, Settings) {
  const auto make = [](const std::string& parameter) {
    LayerTester(RouteText(parameter), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2, 3}}, 6);
  };
  EXPECT_NO_THROW(make(""));
  EXPECT_THROW(make("select_experts: 4"), Error);
  EXPECT_THROW(make("select_experts: 0"), Error);
  EXPECT_THROW(make("capacity_factor: -1"), Error);
}

}  // namespace
}  // namespace caffe
