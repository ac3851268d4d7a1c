// Entries without a range are ignored; a warning names the entry and its fault.
#include "caffe/quant/range.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/quant/layer_ranges.hpp"

namespace caffe {
namespace {

QuantizerParameter Entry(double low, double high) {
  QuantizerParameter entry;
  entry.set_observed_min(low);
  entry.set_observed_max(high);
  return entry;
}

// The warning for an entry that is refused; empty if it is read.
std::string WarningFor(const QuantizerParameter& entry) {
  testing::internal::CaptureStderr();
  const bool read = ReadRange("conv", entry).has_value();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(read, log.empty()) << log;
  return log;
}

void ExpectIgnored(const QuantizerParameter& entry, const std::string& fault) {
  const std::string log = WarningFor(entry);
  EXPECT_NE(log.find("ignoring the stored range of 'conv': " + fault), std::string::npos) << log;
}

TEST(ReadRangeTest, InvalidEntriesAreIgnoredWithTheirFault) {
  ExpectIgnored(Entry(2, 1), "[2, 1] is not a valid interval");
  ExpectIgnored(Entry(0, INFINITY), "[0, inf] is not a valid interval");
  ExpectIgnored(Entry(NAN, 1), "[nan, 1] is not a valid interval");
  QuantizerParameter entry = Entry(-1, 1);
  entry.add_channel_min(-1);
  ExpectIgnored(entry, "it has 1 values of channel_min, but 0 of channel_max");
  entry.add_channel_max(-2);
  ExpectIgnored(entry, "[-1, -2] of channel 0 is not a valid interval");
  for (const double scale : {0.0, -1.0}) {
    entry = Entry(-1, 1);
    entry.add_channel_scale(0.5);
    entry.add_channel_scale(scale);
    ExpectIgnored(entry, "the scale");
  }
}

TEST(ReadRangeTest, WhatWriteRangeWritesIsReadAgain) {
  QuantizerParameter entry;
  ChannelRanges ranges{{-3, 2, "percentile"}, {-3, -1}, {2, 0.5}, {}};
  WriteRange(ranges, &entry);
  EXPECT_EQ(WarningFor(entry), "");
  const auto read = ReadRange("conv", entry);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->whole.low, -3);
  EXPECT_EQ(read->whole.high, 2);
  EXPECT_EQ(read->low, ranges.low);
  EXPECT_EQ(read->high, ranges.high);
  EXPECT_EQ(read->Of(1).high, 0.5);
}

TEST(RangeTest, AUnionHasNoOriginAndOneRangeKeepsIts) {
  Range range;
  EXPECT_FALSE(range.known());
  range.Unite({-1, 2, "kl"});
  EXPECT_EQ(range.origin, "kl");
  range.Unite({-3, 1, "kl"});
  EXPECT_EQ(range.low, -3);
  EXPECT_EQ(range.high, 2);
  EXPECT_EQ(range.origin, "");
}

bool IsPowerOfTwo(double value) {
  int exponent;
  return value > 0 && std::frexp(value, &exponent) == 0.5;
}

TEST(PowerOfTwoTest, RangesAreWidenedToTheLeastScaleThatFits) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(-1, 1), magnitude(-12, 12);
  for (const DataType type : {kQuant8, kQuant16}) {
    const double codes = type.info().code_max;
    for (int i = 0; i < 2000; ++i) {
      const double factor = std::exp2(magnitude(random)), a = factor * any(random),
                   b = factor * any(random);
      const Range given{std::min(a, b), std::max(a, b), "kl"};
      const Range range = PowerOfTwoRange(given, type);
      const QuantRange affine = AffineRange(range, type);
      ASSERT_TRUE(IsPowerOfTwo(affine.scale)) << affine.scale;
      EXPECT_EQ(range.origin, "kl");
      // The ends are those of the codes, and no given value is beyond them.
      EXPECT_EQ(range.low, -affine.zero * affine.scale);
      EXPECT_EQ(range.high, (codes - affine.zero) * affine.scale);
      EXPECT_LE(range.low, given.low);
      EXPECT_GE(range.high, given.high);
      // With half the scale, the codes do not reach both ends.
      const double half = affine.scale / 2, low = std::min(given.low, 0.0),
                   high = std::max(given.high, 0.0);
      EXPECT_GT(std::ceil(-low / half) + std::ceil(high / half), codes);
    }
  }
  EXPECT_EQ(PowerOfTwoRange({0, 0}, kQuant8).high, 0);
  EXPECT_EQ(PowerOfTwoRange({0, 255}, kQuant8).high, 255);
  EXPECT_EQ(PowerOfTwoRange({-128, 127}, kQuant8).low, -128);
}

// Codes of a table: -8 to 7.
DataType ScaledType() {
  return RegisterType(
      "range_scaled4", 4,
      [](uint32_t code) { return static_cast<float>(static_cast<int>(code ^ 8) - 8); },
      [](float v) {
        const float whole = std::round(v == v ? std::clamp(v, -8.0f, 7.0f) : 0.0f);
        return static_cast<uint32_t>(static_cast<int>(whole) + 8) ^ 8;
      },
      {.scaled = true});
}

TEST(ScaledRangeTest, TheScaleIsTheLeastPowerOfTwoThatFits) {
  const DataType type = ScaledType();
  std::mt19937 random(4);
  std::uniform_real_distribution<double> any(-1, 1), magnitude(-12, 12);
  for (int i = 0; i < 2000; ++i) {
    const double factor = std::exp2(magnitude(random)), a = factor * any(random),
                 b = factor * any(random);
    const QuantRange range = ScaledRange({std::min(a, b), std::max(a, b)}, type);
    ASSERT_TRUE(IsPowerOfTwo(range.scale)) << range.scale;
    EXPECT_TRUE(range.observed);
    EXPECT_EQ(range.zero, 0);
    const double largest = std::max(std::abs(a), std::abs(b));
    EXPECT_GE(8 * range.scale, largest);
    EXPECT_LT(8 * range.scale / 2, largest);
  }
  EXPECT_EQ(ScaledRange({0, 0}, type).scale, 1);
  EXPECT_EQ(ScaledRange({-8, 3}, type).scale, 1);
  EXPECT_EQ(ScaledRange({-1e-300, 0}, type).scale, 0x1p-100);
  EXPECT_THROW(ScaledRange({0, 1}, kQuant8), Error);
  EXPECT_THROW(ScaledRange({1, 0}, type), Error);
}

// The table of a scale gives the codes of the divided float.
TEST(ScaledRangeTest, TablesOfScales) {
  const ValueTable& table = TableOf(ScaledType());
  for (const int exponent : {-100, -3, 0, 5, 100}) {
    const ValueTable& scaled = table.Scaled(exponent);
    EXPECT_EQ(&scaled, &table.Scaled(exponent));
    for (uint32_t code = 0; code < 16; ++code) {
      EXPECT_EQ(scaled.Value(code), std::ldexp(table.Value(code), exponent));
    }
    for (int i = -400; i <= 400; ++i) {
      const float v = static_cast<float>(i) / 32;
      EXPECT_EQ(scaled.Code(std::ldexp(v, exponent)), table.Code(v)) << v;
    }
  }
}

// The fork's formulas: scale = (max - min) / (most - least), zero = round(least - min / scale).
TEST(LimitedRangeTest, TheLimitsAreTheCodesOfTheEnds) {
  const QuantRange limited = AffineRange(LimitedRange({-1, 3}, 16, 127, kQuant8), kQuant8);
  EXPECT_NEAR(limited.scale, 4.0 / 111, 1e-12);
  EXPECT_EQ(limited.zero, 44);
  const QuantRange whole = AffineRange({-1, 3}, kQuant8);
  const QuantRange same = AffineRange(LimitedRange({-1, 3}, 0, 255, kQuant8), kQuant8);
  EXPECT_NEAR(same.scale, whole.scale, 1e-12);
  EXPECT_EQ(same.zero, whole.zero);
  for (const auto& [least, most] : {std::pair{0.0, 256.0}, {-1.0, 4.0}, {3.0, 3.0}, {0.5, 9.0}}) {
    EXPECT_THROW(LimitedRange({-1, 3}, least, most, kQuant8), Error);
  }
}

LayerParameter WithParam(const std::function<void(QuantizationParameter*)>& set) {
  LayerParameter layer;
  layer.set_name("conv");
  layer.set_type("Convolution");
  set(layer.mutable_quantization_param());
  return layer;
}

TEST(LayerRangesTest, FixedPointAndScalesBecomeRanges) {
  LayerRanges fixed = ReadLayerRanges(WithParam([](QuantizationParameter* p) {
    p->set_bw_layer_in(8);
    p->add_fl_layer_in(4);
    p->set_bw_layer_out(8);
    p->add_fl_layer_out(-2);
    p->set_bw_params(6);
    p->add_fl_params(7);
  }));
  EXPECT_EQ(fixed.bottom->low, -8);
  EXPECT_EQ(fixed.bottom->high, 127 / 16.0);
  EXPECT_EQ(AffineRange(*fixed.bottom, kQuant8).scale, 1 / 16.0);
  EXPECT_EQ(AffineRange(*fixed.bottom, kQuant8).zero, 128);
  EXPECT_EQ(fixed.top->low, -512);
  EXPECT_EQ(fixed.top->high, 508);
  EXPECT_EQ(fixed.weights->whole.low, -0.25);
  EXPECT_EQ(fixed.weights->whole.high, 31 / 128.0);
  LayerRanges scaled = ReadLayerRanges(WithParam([](QuantizationParameter* p) {
    p->add_scale_in(10);
    p->add_scale_out(4);
    p->add_scale_params(8);
    p->add_scale_params(16);
  }));
  EXPECT_EQ(scaled.bottom->low, 0);
  EXPECT_DOUBLE_EQ(scaled.bottom->high, 25.5);
  EXPECT_EQ(scaled.top->low, -32);
  EXPECT_EQ(scaled.weights->low, (std::vector<double>{-16, -8}));
  EXPECT_EQ(scaled.weights->high, (std::vector<double>{127 / 8.0, 127 / 16.0}));
  scaled = ReadLayerRanges(WithParam([](QuantizationParameter* p) {
    p->add_scale_in(10);
    p->set_is_negative_input(true);
  }));
  EXPECT_DOUBLE_EQ(scaled.bottom->low, -12.8);
  EXPECT_FALSE(scaled.top || scaled.weights);
  const LayerRanges none = ReadLayerRanges(LayerParameter());
  EXPECT_FALSE(none.bottom || none.top || none.weights);
}

TEST(LayerRangesTest, FaultsNameTheFieldAndTheCure) {
  const auto expect = [](const std::function<void(QuantizationParameter*)>& set,
                         const std::string& fault) {
    try {
      ReadLayerRanges(WithParam(set));
      ADD_FAILURE() << fault;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("conv (Convolution): quantization_param: " + fault), std::string::npos)
          << text;
    }
  };
  expect([](QuantizationParameter* p) { p->set_bw_layer_in(8); },
         "bw_layer_in is 8, but fl_layer_in is not given");
  expect(
      [](QuantizationParameter* p) {
        p->set_bw_params(8);
        p->add_fl_params(3);
        p->add_scale_params(3);
      },
      "fl_params and scale_params are both given; remove one");
  expect([](QuantizationParameter* p) { p->add_scale_out(-1); },
         "scale_out is -1; it must be a positive number");
  expect([](QuantizationParameter* p) { p->add_fl_layer_out(3); },
         "bw_layer_out is 32; fl_layer_out needs a width of 2 to 16 bits");
  expect(
      [](QuantizationParameter* p) {
        p->add_scale_in(1);
        p->add_scale_in(2);
      },
      "2 values of scale_in are given; a blob has one range");
}

}  // namespace
}  // namespace caffe
