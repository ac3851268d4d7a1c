#include "caffe/core/near_name.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace caffe {
namespace {

const std::vector<std::string> kLayers{"AbsVal", "Concat",  "Convolution", "Data",
                                       "Exp",    "Pooling", "ReLU",        "SoftmaxWithLoss"};

TEST(NearNameTest, FindsSlips) {
  const struct {
    const char *given, *expected;
  } cases[] = {
      {"Convolutoin", "Convolution"},   // swapped
      {"Covnolution", "Convolution"},   // swapped
      {"Convolutions", "Convolution"},  // added
      {"Convlution", "Convolution"},    // missing
      {"Konvolution", "Convolution"},   // changed
      {"relu", "ReLU"},                 // case
      {"SOFTMAXWITHLOSS", "SoftmaxWithLoss"},
      {"Dta", "Data"},
      {"Data", "Data"},
  };
  for (const auto& [given, expected] : cases)
    EXPECT_EQ(NearName(given, kLayers), expected) << given;
}

TEST(NearNameTest, IsSilentWhereNothingIsNear) {
  for (const char* given : {"LSTM", "Permute", "Crop", "MOE", "Axpy", "BN", "E", "", "PriorBox"}) {
    EXPECT_EQ(NearName(given, kLayers), "") << given;
  }
  EXPECT_EQ(NearName("Data", {}), "");
}

TEST(NearNameTest, TakesTheNearest) {
  const std::vector<std::string> names{"stride_w", "stride_h", "stride"};
  EXPECT_EQ(NearName("strides", names), "stride");
  EXPECT_EQ(NearName("stride_q", names), "stride_w");  // the first of equals
}

}  // namespace
}  // namespace caffe
