#include "caffe/solver/learning_rate.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"

namespace caffe {
namespace {

SolverParameter Solver(const std::string& text) {
  SolverParameter parameter;
  ParseTextProto(text, "test", &parameter);
  return parameter;
}

double Rate(const std::string& text, int64_t iteration) {
  return LearningRate(Solver(text), iteration);
}

TEST(LearningRateTest, Fixed) { EXPECT_FLOAT_EQ(0.5, Rate("base_lr: 0.5 lr_policy: 'fixed'", 99)); }

TEST(LearningRateTest, Step) {
  const std::string text = "base_lr: 2 lr_policy: 'step' gamma: 0.5 stepsize: 10";
  EXPECT_DOUBLE_EQ(2, Rate(text, 9));
  EXPECT_DOUBLE_EQ(1, Rate(text, 10));
  EXPECT_DOUBLE_EQ(0.25, Rate(text, 39));
}

TEST(LearningRateTest, Exp) {
  EXPECT_DOUBLE_EQ(0.125, Rate("base_lr: 1 lr_policy: 'exp' gamma: 0.5", 3));
}

TEST(LearningRateTest, Inv) {
  // LeNet's settings: 0.01 (1 + 0.0001 * 10000)^-0.75 = 0.01 * 2^-0.75.
  const std::string text = "base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75";
  EXPECT_NEAR(0.01, Rate(text, 0), 1e-9);
  EXPECT_NEAR(0.00594604, Rate(text, 10000), 1e-8);
}

TEST(LearningRateTest, MultiStep) {
  const std::string text =
      "base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 stepvalue: 5 stepvalue: 5";
  EXPECT_DOUBLE_EQ(1, Rate(text, 1));
  EXPECT_DOUBLE_EQ(0.5, Rate(text, 2));
  EXPECT_DOUBLE_EQ(0.5, Rate(text, 4));
  EXPECT_DOUBLE_EQ(0.125, Rate(text, 5));
  EXPECT_EQ(3, LearningRateStep(Solver(text), RatePolicy::kMultistep, 100));
}

TEST(LearningRateTest, Poly) {
  const std::string text = "base_lr: 4 lr_policy: 'poly' power: 2 max_iter: 100";
  EXPECT_DOUBLE_EQ(4, Rate(text, 0));
  EXPECT_DOUBLE_EQ(1, Rate(text, 50));
  EXPECT_DOUBLE_EQ(0, Rate(text, 100));
}

TEST(LearningRateTest, Sigmoid) {
  const std::string text = "base_lr: 1 lr_policy: 'sigmoid' gamma: -0.5 stepsize: 10";
  EXPECT_DOUBLE_EQ(0.5, Rate(text, 10));
  EXPECT_NEAR(0.880797, Rate(text, 6), 1e-6);   // 1 / (1 + e^-2)
  EXPECT_NEAR(0.119203, Rate(text, 14), 1e-6);  // 1 / (1 + e^2)
}

TEST(LearningRateTest, RefusesWhatItCannotCompute) {
  EXPECT_THROW(Rate("base_lr: 1 lr_policy: 'cosine'", 0), Error);
  EXPECT_THROW(Rate("base_lr: 1", 0), Error);
  EXPECT_THROW(Rate("base_lr: 1 lr_policy: 'step' gamma: 0.1", 0), Error);
  EXPECT_THROW(Rate("base_lr: 1 lr_policy: 'poly' power: 1", 0), Error);
}

}  // namespace
}  // namespace caffe
