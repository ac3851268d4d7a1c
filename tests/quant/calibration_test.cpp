// Histograms, and the ranges chosen from them, against loops over the values themselves.
#include "caffe/quant/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "caffe/core/error.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {
namespace {

struct Sample {
  std::vector<double> values;
  Histogram histogram;
  double low = INFINITY, high = -INFINITY;

  explicit Sample(std::vector<double> given) : values(std::move(given)) {
    for (const double value : values) {
      histogram.Add(value);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  Range Choose(CalibrationMethod method, DataType type = kQuant8, double percentile = 99.99) const {
    return Calibrate(histogram, {low, high}, type, {method, percentile});
  }
  // The mean squared error of quantizing and dequantizing each value.
  double Error(const Range& real, DataType type = kQuant8) const {
    const QuantRange range = AffineRange(real, type);
    double sum = 0;
    for (const double value : values) {
      const double code = std::clamp<double>(std::round(value / range.scale) + range.zero,
                                             type.info().code_min, type.info().code_max);
      const double difference = value - range.scale * (code - range.zero);
      sum += difference * difference;
    }
    return sum / static_cast<double>(values.size());
  }
};

template <class Distribution> Sample Draw(Distribution distribution, bool positive = false) {
  std::mt19937_64 engine(7);
  std::vector<double> values(100000);
  for (double& value : values) {
    value = distribution(engine);
    if (positive) value = std::max(value, 0.0);
  }
  return Sample(std::move(values));
}

Sample Laplace(bool positive = false) {
  std::mt19937_64 engine(11);
  std::exponential_distribution<double> size(1);
  std::bernoulli_distribution sign(0.5);
  std::vector<double> values(100000);
  for (double& value : values) {
    value = (sign(engine) ? 1 : -1) * size(engine);
    if (positive) value = std::max(value, 0.0);
  }
  return Sample(std::move(values));
}

TEST(HistogramTest, CountsEachValueInItsBin) {
  const Sample sample(std::vector<double>{0, 0, 0.7, -0.7, -1e-3, 0.999, 1.0, NAN, INFINITY});
  const Histogram& histogram = sample.histogram;
  EXPECT_EQ(histogram.limit, 2);
  EXPECT_EQ(histogram.total(), 7);
  EXPECT_EQ(histogram.zeros, 2);
  for (const double value : {0.0, 0.7, -0.7, -1e-3, 0.999, 1.0}) {
    int bin = 0;
    while (histogram.Edge(bin + 1) <= value) ++bin;
    EXPECT_GT(histogram.counts[bin], 0) << value;
  }
  EXPECT_EQ(histogram.counts[Histogram::kBins / 2 - 1], 1);  // -1e-3, bins have 2 / 1024
}

TEST(HistogramTest, TheLargestValuesAreInTheLastBins) {
  Histogram histogram;
  for (const double value : {1.0, 1.7e308, -1.7e308, double{INFINITY}, double{NAN}, 5e-324}) {
    histogram.Add(value);
  }
  EXPECT_EQ(histogram.limit, 0x1p1023);
  EXPECT_EQ(histogram.counts.front(), 1);
  EXPECT_EQ(histogram.counts.back(), 1);
  EXPECT_EQ(histogram.total(), 4);
}

TEST(HistogramTest, TheOrderOfValuesDoesNotMatter) {
  Sample sample = Draw(std::normal_distribution<double>(0.3, 20));
  std::vector<double> values = sample.values;
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  const Sample rising(values);
  std::reverse(values.begin(), values.end());
  const Sample falling(values);
  EXPECT_EQ(rising.histogram.counts, sample.histogram.counts);
  EXPECT_EQ(falling.histogram.counts, sample.histogram.counts);
  // Nor does it matter whether parts were united later.
  Histogram united;
  united.Add(Sample({values.begin() + 50000, values.end()}).histogram);
  united.Add(Sample({values.begin(), values.begin() + 50000}).histogram);
  EXPECT_EQ(united.counts, sample.histogram.counts);
  EXPECT_EQ(united.limit, sample.histogram.limit);
}

TEST(CalibrationTest, ErrorsAreThoseOfTheValues) {
  for (const Sample& sample : {Laplace(), Laplace(true), Draw(std::normal_distribution<double>()),
                               Draw(std::uniform_real_distribution<double>(-2, 5))}) {
    for (const double part : {1.0, 0.6, 0.3}) {
      for (const DataType type : {kQuant8, kQuant16}) {
        const Range range{part * sample.low, part * sample.high};
        const double exact = sample.Error(range, type);
        const double expected =
            QuantizationError(sample.histogram, {sample.low, sample.high}, range, type);
        EXPECT_NEAR(expected, exact, 0.04 * exact) << part << " " << type.name();
      }
    }
  }
}

TEST(CalibrationTest, MinMaxIsTheObservedRange) {
  const Sample sample = Draw(std::normal_distribution<double>());
  const Range range = sample.Choose(CalibrationMethod::kMinMax);
  EXPECT_EQ(range.low, sample.low);
  EXPECT_EQ(range.high, sample.high);
}

TEST(CalibrationTest, PercentileLeavesOutTheEnds) {
  Sample sample = Draw(std::normal_distribution<double>());
  std::vector<double> values = sample.values;
  std::sort(values.begin(), values.end());
  const double width = 2 * sample.histogram.limit / Histogram::kBins;
  for (const double percentile : {99.99, 99.0, 90.0}) {
    const Range range = sample.Choose(CalibrationMethod::kPercentile, kQuant8, percentile);
    const auto out = static_cast<size_t>(values.size() * (1 - percentile / 100) / 2);
    EXPECT_NEAR(range.low, values[out], width) << percentile;
    EXPECT_NEAR(range.high, values[values.size() - 1 - out], width) << percentile;
  }
  const Sample positive = Laplace(true);
  values = positive.values;
  std::sort(values.begin(), values.end());
  const Range range = positive.Choose(CalibrationMethod::kPercentile, kQuant8, 99);
  EXPECT_EQ(range.low, 0);
  EXPECT_NEAR(range.high, values[values.size() - 1 - values.size() / 100],
              2 * positive.histogram.limit / Histogram::kBins);
  EXPECT_EQ(positive.Choose(CalibrationMethod::kPercentile, kQuant8, 100).high, positive.high);
}

// A grid over both ends, on the values.
TEST(CalibrationTest, MseFindsTheLeastError) {
  for (const Sample& sample : {Laplace(), Laplace(true), Draw(std::normal_distribution<double>()),
                               Draw(std::gamma_distribution<double>(0.5, 3)),
                               Draw(std::lognormal_distribution<double>(0, 1.5))}) {
    double least = INFINITY;
    constexpr int kGrid = 24;
    for (int i = 1; i <= kGrid; ++i) {
      for (int j = 1; j <= (sample.low < 0 ? kGrid : 1); ++j) {
        least = std::min(
            least, sample.Error({std::min(sample.low, 0.0) * j / kGrid, sample.high * i / kGrid}));
      }
    }
    const double error = sample.Error(sample.Choose(CalibrationMethod::kMse));
    EXPECT_LT(error, 1.03 * least);
    EXPECT_LE(error, 1.001 * sample.Error({sample.low, sample.high}));
  }
}

// A few outliers: clipping them pays in 8 bits, not in 16.
TEST(CalibrationTest, MseClipsOutliersForEightBits) {
  std::vector<double> values = Draw(std::uniform_real_distribution<double>(-1, 1)).values;
  values.push_back(5);
  const Sample sample(std::move(values));
  EXPECT_LT(sample.Choose(CalibrationMethod::kMse).high, 4.5);
  EXPECT_EQ(sample.Choose(CalibrationMethod::kMse, kQuant16).high, 5);
}

// The divergence of each threshold by a second implementation, on the counts.
double DivergenceAt(const std::vector<double>& counts, int reach, int levels) {
  std::vector<double> p(counts.begin(), counts.begin() + reach), q(reach, 0);
  for (size_t i = reach; i < counts.size(); ++i) p[reach - 1] += counts[i];
  for (int level = 0; level < levels; ++level) {
    double sum = 0, filled = 0;
    const int from = level * reach / levels, to = (level + 1) * reach / levels;
    for (int i = from; i < to; ++i) sum += counts[i], filled += p[i] > 0 ? 1 : 0;
    for (int i = from; i < to; ++i) q[i] = p[i] > 0 ? sum / filled : 0;
  }
  double all_p = 0, all_q = 0, divergence = 0;
  for (int i = 0; i < reach; ++i) all_p += p[i], all_q += q[i];
  for (int i = 0; i < reach; ++i) {
    if (p[i] > 0) {
      divergence += p[i] / all_p * std::log(p[i] / all_p / std::max(q[i] / all_q, 1e-12));
    }
  }
  return divergence;
}

TEST(CalibrationTest, KlFindsTheLeastDivergence) {
  const Sample sample = Laplace(true);
  std::vector<double> counts(sample.histogram.counts.begin() + Histogram::kBins / 2,
                             sample.histogram.counts.end());
  counts[0] -= static_cast<double>(sample.histogram.zeros);
  const double width = 2 * sample.histogram.limit / Histogram::kBins;
  const int most = static_cast<int>(std::ceil(sample.high / width));
  int best = most;
  for (int reach = most; reach >= 255; --reach) {
    if (DivergenceAt(counts, reach, 255) <= DivergenceAt(counts, best, 255)) best = reach;
  }
  const Range range = sample.Choose(CalibrationMethod::kKl);
  EXPECT_EQ(range.low, 0);
  EXPECT_NEAR(range.high, std::min(sample.high, best * width), 1e-9);
  EXPECT_LT(range.high, sample.high);
  EXPECT_EQ(range.origin, "kl");
}

TEST(CalibrationTest, KlIsSymmetricForSignedValues) {
  std::vector<double> values = Laplace().values;
  for (int i = 0; i < 20; ++i) values.push_back(i % 2 ? 30 : -30);
  const Sample sample(std::move(values));
  const Range range = sample.Choose(CalibrationMethod::kKl);
  EXPECT_EQ(range.low, -range.high);
  EXPECT_LT(range.high, 20);
  EXPECT_GT(range.high, 3);
  const Range wide = sample.Choose(CalibrationMethod::kKl, kQuant16);
  EXPECT_EQ(wide.high, sample.high);
  EXPECT_EQ(wide.origin, "min_max");
}

TEST(CalibrationTest, AutoIsTheBestOfAll) {
  for (const Sample& sample : {Laplace(), Laplace(true), Draw(std::normal_distribution<double>()),
                               Draw(std::uniform_real_distribution<double>(-2, 5))}) {
    const Range chosen = sample.Choose(CalibrationMethod::kAuto);
    for (const auto method : {CalibrationMethod::kMinMax, CalibrationMethod::kPercentile,
                              CalibrationMethod::kMse, CalibrationMethod::kKl}) {
      EXPECT_LE(sample.Error(chosen), 1.02 * sample.Error(sample.Choose(method)))
          << MethodName(method);
    }
    EXPECT_NE(chosen.origin, "auto");
  }
  // No clipping helps values that are spread equally: the choice is min_max.
  std::vector<double> grid;
  for (int code = -100; code <= 155; ++code) grid.push_back(code);
  EXPECT_EQ(Sample(grid).Choose(CalibrationMethod::kAuto).origin, "min_max");
}

// Data that were not observed have values beyond the range. In 16 bits they cost more than steps.
TEST(CalibrationTest, SixteenBitsHaveAMargin) {
  const Sample sample = Draw(std::normal_distribution<double>());
  const Sample few({sample.values.begin(), sample.values.begin() + 1000});
  const Range chosen = few.Choose(CalibrationMethod::kAuto, kQuant16),
              whole = few.Choose(CalibrationMethod::kMinMax, kQuant16);
  EXPECT_EQ(chosen.origin, "margin");
  EXPECT_EQ(chosen.high, 1.5 * few.high);
  EXPECT_EQ(chosen.low, 1.5 * few.low);
  EXPECT_LT(sample.Error(chosen, kQuant16), 0.01 * sample.Error(whole, kQuant16));
}

// Devices count the largest floats in the outermost bins of a limit of 2^126.
TEST(CalibrationTest, ValuesBeyondTheLimitHaveARangeInOrder) {
  Histogram histogram;
  histogram.limit = 0x1p126;
  histogram.counts.assign(Histogram::kBins, 0);
  histogram.counts.front() = 8;
  const Range observed{-3.4e38, -3.3e38};
  for (const char* method : {"auto", "min_max", "percentile", "mse", "kl", "margin"}) {
    const Range range = Calibrate(histogram, observed, kQuant8, {MethodByName(method)});
    EXPECT_LE(range.low, range.high) << method;
    EXPECT_NO_THROW(AffineRange(range, kQuant8)) << method;
  }
}

TEST(CalibrationTest, NothingObservedAndOnlyZeros) {
  const Histogram none;
  const Range range = Calibrate(none, {0, 0}, kQuant8, {});
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 0);
  const Sample zeros(std::vector<double>(100, 0));
  EXPECT_EQ(zeros.Choose(CalibrationMethod::kAuto).high, 0);
  const Sample one(std::vector<double>(100, -3));
  for (const auto method : {CalibrationMethod::kMinMax, CalibrationMethod::kPercentile,
                            CalibrationMethod::kMse, CalibrationMethod::kKl}) {
    const Range single = one.Choose(method);
    EXPECT_NEAR(single.low, -3, 0.01) << MethodName(method);
  }
}

TEST(CalibrationTest, NamesOfMethods) {
  for (const char* name : {"auto", "min_max", "percentile", "mse", "kl", "margin"}) {
    EXPECT_STREQ(MethodName(MethodByName(name)), name);
  }
  EXPECT_THROW(MethodByName("best"), Error);
  EXPECT_THROW(MethodByName("given"), Error);
  EXPECT_THROW(
      Calibrate(Sample({1.0}).histogram, {1, 1}, kQuant8, {CalibrationMethod::kPercentile, 40}),
      Error);
}

}  // namespace
}  // namespace caffe
