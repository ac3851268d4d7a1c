#include "caffe/layer/filler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/random.hpp"
#include "caffe/device/host_level.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/random_steps.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const RandomSteps random_steps_v2, random_steps_v3, random_steps_v4;
#else
extern const RandomSteps random_steps_neon;
#endif

namespace {

// The steps of the levels that this processor has.
std::vector<const RandomSteps*> LevelsOfRandomSteps() {
#if defined(__x86_64__)
  std::vector<const RandomSteps*> all;
  for (const std::string& level : HostLevels()) {
    if (level == "v2") all.push_back(&random_steps_v2);
    if (level == "v3") all.push_back(&random_steps_v3);
    if (level == "v4") all.push_back(&random_steps_v4);
  }
  return all;
#else
  return {&random_steps_neon};
#endif
}

FillerParameter Filler(const std::string& type) {
  FillerParameter parameter;
  parameter.set_type(type);
  return parameter;
}

std::vector<double> Filled(const FillerParameter& parameter, const Shape& shape, uint64_t seed = 7,
                           DataType type = kDouble) {
  const auto blob = MakeBlob(type, Runtime::Get().cpu(), shape, "w");
  Fill(parameter, seed, blob.get());
  return blob->DataAsDouble();
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / values.size();
}

double Variance(const std::vector<double>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return sum / values.size();
}

TEST(FillerTest, Constant) {
  FillerParameter parameter = Filler("constant");
  parameter.set_value(-1.5f);
  EXPECT_EQ(Filled(parameter, {2, 2}), std::vector<double>(4, -1.5));
  EXPECT_EQ(Filled(FillerParameter(), {3}), std::vector<double>(3, 0.0));
}

TEST(FillerTest, Uniform) {
  FillerParameter parameter = Filler("uniform");
  parameter.set_min(-2);
  parameter.set_max(4);
  const std::vector<double> values = Filled(parameter, {100, 1000});
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -2);
  EXPECT_LT(*low, -1.99);
  EXPECT_LT(*high, 4);
  EXPECT_GT(*high, 3.99);
  EXPECT_NEAR(Mean(values), 1, 0.03);
  EXPECT_NEAR(Variance(values), 3, 0.05);
}

TEST(FillerTest, Gaussian) {
  FillerParameter parameter = Filler("gaussian");
  parameter.set_mean(3);
  parameter.set_std(0.5f);
  const std::vector<double> values = Filled(parameter, {100, 1000});
  EXPECT_NEAR(Mean(values), 3, 0.01);
  EXPECT_NEAR(std::sqrt(Variance(values)), 0.5, 0.01);
  double within = 0;
  for (double value : values) within += std::abs(value - 3) < 0.5;
  EXPECT_NEAR(within / values.size(), 0.6827, 0.01);
}

TEST(FillerTest, SparseKeepsAShare) {
  FillerParameter parameter = Filler("gaussian");
  parameter.set_sparse(20);
  const std::vector<double> values = Filled(parameter, {100, 1000});
  const double zeros = std::count(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(zeros / values.size(), 0.8, 0.01);
  FillerParameter other = Filler("xavier");
  other.set_sparse(1);
  EXPECT_THROW(Filled(other, {10}), Error);
}

TEST(FillerTest, UnitBallRowsSumToOne) {
  const std::vector<double> values = Filled(Filler("positive_unitball"), {5, 3, 4});
  for (int row = 0; row < 5; ++row) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      EXPECT_GE(values[row * 12 + i], 0);
      sum += values[row * 12 + i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(FillerTest, XavierAndMsraFollowTheFan) {
  // Shape {40, 10, 5, 5}: fan in 250, fan out 1000, average 625.
  const std::pair<FillerParameter::VarianceNorm, double> fans[] = {{FillerParameter::FAN_IN, 250},
                                                                   {FillerParameter::FAN_OUT, 1000},
                                                                   {FillerParameter::AVERAGE, 625}};
  for (const auto& [norm, fan] : fans) {
    FillerParameter xavier = Filler("xavier");
    xavier.set_variance_norm(norm);
    const std::vector<double> values = Filled(xavier, {40, 10, 5, 5});
    const double bound = std::sqrt(3 / fan);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*low, -bound);
    EXPECT_LT(*low, -0.99 * bound);
    EXPECT_LE(*high, bound);
    EXPECT_GT(*high, 0.99 * bound);
    FillerParameter msra = Filler("msra");
    msra.set_variance_norm(norm);
    const std::vector<double> normal = Filled(msra, {40, 10, 5, 5});
    EXPECT_NEAR(Variance(normal), 2 / fan, 0.06 * 2 / fan);
    EXPECT_NEAR(Mean(normal), 0, 0.05 * std::sqrt(2 / fan));
  }
}

TEST(FillerTest, Bilinear) {
  // A kernel of 4 upsamples by 2: weights 1/4, 3/4, 3/4, 1/4 along each axis.
  const std::vector<double> values = Filled(Filler("bilinear"), {2, 1, 4, 4});
  const double line[] = {0.25, 0.75, 0.75, 0.25};
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(values[i], line[i % 4] * line[i / 4 % 4], 1e-12) << i;
  }
  EXPECT_THROW(Filled(Filler("bilinear"), {1, 1, 3, 4}), Error);
  EXPECT_THROW(Filled(Filler("bilinear"), {4, 4}), Error);
}

// From these numbers all training runs with a seed begin.
TEST(FillerTest, NumbersOfASeed) {
  FillerParameter parameter = Filler("uniform");
  parameter.set_max(1);
  const auto words = [](uint64_t i) { return Philox(i, 7); };
  const auto unit = [](uint32_t high, uint32_t low) {
    return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
  };
  const std::vector<double> uniform = Filled(parameter, {70, 1001});
  parameter = Filler("gaussian");
  const std::vector<double> normal = Filled(parameter, {70, 1001});
  for (size_t i = 0; i < uniform.size(); ++i) {
    const auto word = words(i);
    const double u = unit(word[0], word[1]), v = unit(word[2], word[3]);
    ASSERT_EQ(uniform[i], u) << i;
    const double expected = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi * v);
    ASSERT_NEAR(normal[i], expected, 1e-14) << i;
  }
}

TEST(FillerTest, AllInstructionLevelsGiveTheSameBits) {
  std::vector<double> units, turns;
  for (int i = 0; i < 54; ++i) {
    for (const double near : {0x1p-53, 0.1, 0.125, 0.25, 0.5, 0.707106781186547, 0.75, 0.9, 1.0}) {
      units.push_back(near * std::ldexp(1, -i));
      for (const double v : {near, near - std::ldexp(1, -i), std::ldexp(near, -i)}) {
        if (v >= 0 && v < 1) turns.push_back(v);
      }
    }
  }
  for (int i = 0; i < 100000; ++i) units.push_back((i + 1) / 1e5), turns.push_back(i / 1e5);
  std::vector<std::vector<double>> all;
  for (const RandomSteps* steps : LevelsOfRandomSteps()) {
    std::vector<double> uniform(3001), normal(3001), logs(units.size()), cosines(turns.size());
    steps->uniform(11, uint64_t{1} << 33, 3001, uniform.data());
    steps->normal(11, uint64_t{1} << 33, 3001, normal.data());
    steps->log(units.data(), static_cast<long>(units.size()), logs.data());
    steps->cos_of_turns(turns.data(), static_cast<long>(turns.size()), cosines.data());
    for (size_t i = 0; i < units.size(); ++i) {
      const double expected = std::log(units[i]);
      ASSERT_NEAR(logs[i], expected, 4e-16 * std::abs(expected)) << units[i];
    }
    for (size_t i = 0; i < turns.size(); ++i) {
      const long double turn = 2 * std::numbers::pi_v<long double> * turns[i];
      ASSERT_NEAR(cosines[i], static_cast<double>(std::cos(turn)), 3e-16) << turns[i];
    }
    std::vector<double> numbers = uniform;
    for (const auto* more : {&normal, &logs, &cosines}) {
      numbers.insert(numbers.end(), more->begin(), more->end());
    }
    all.push_back(numbers);
  }
  for (const auto& one : all) EXPECT_EQ(one, all[0]);
}

TEST(FillerTest, SeedDecides) {
  for (const char* type : {"uniform", "gaussian", "positive_unitball", "xavier", "msra"}) {
    const FillerParameter parameter = Filler(type);
    EXPECT_EQ(Filled(parameter, {20, 1000}, 1), Filled(parameter, {20, 1000}, 1)) << type;
    EXPECT_NE(Filled(parameter, {20, 1000}, 1), Filled(parameter, {20, 1000}, 2)) << type;
  }
}

TEST(FillerTest, NarrowTypesHoldTheRoundedValues) {
  const std::vector<double> exact = Filled(Filler("gaussian"), {300});
  const std::vector<double> narrow = Filled(Filler("gaussian"), {300}, 7, kHalf);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(narrow[i], exact[i], 1e-3 * std::max(1.0, std::abs(exact[i])));
  }
}

TEST(FillerTest, AtAccessTheSameValues) {
  for (const char* type :
       {"constant", "uniform", "gaussian", "positive_unitball", "xavier", "msra", "bilinear"}) {
    FillerParameter parameter = Filler(type);
    if (type == std::string("gaussian")) parameter.set_sparse(2);
    for (const DataType kind : {kDouble, kHalf}) {
      auto blob = MakeBlob(kind, Runtime::Get().cpu(), {8, 3, 4, 4}, "w");
      FillAtAccess(parameter, 7, blob.get());
      EXPECT_FALSE(blob->data_memory()->stored()) << type;
      EXPECT_EQ(blob->DataAsDouble(), Filled(parameter, {8, 3, 4, 4}, 7, kind)) << type;
    }
  }
  auto blob = MakeBlob(kFloat, Runtime::Get().cpu(), {2}, "w");
  EXPECT_THROW(FillAtAccess(Filler("constnat"), 7, blob.get()), Error);
  EXPECT_THROW(FillAtAccess(Filler("bilinear"), 7, blob.get()), Error);
  EXPECT_EQ(blob->DataAsDouble(), std::vector<double>(2, 0.0));
}

TEST(FillerTest, UnknownTypeAndBadValues) {
  EXPECT_THROW(Filled(Filler("constnat"), {2}), Error);
  FillerParameter uniform = Filler("uniform");
  uniform.set_min(2);
  EXPECT_THROW(Filled(uniform, {2}), Error);
  FillerParameter gaussian = Filler("gaussian");
  gaussian.set_std(-1);
  EXPECT_THROW(Filled(gaussian, {2}), Error);
}

}  // namespace
}  // namespace caffe
