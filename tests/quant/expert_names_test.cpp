#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

TEST(SharedExpertNameTest, LeavesOutTheNumber) {
  EXPECT_EQ(SharedExpertName("moe/expert3/conv"), "moe/expert/conv");
  EXPECT_EQ(SharedExpertName("a/expert12/moe/expert0/x@a/expert12/y"),
            "a/expert/moe/expert/x@a/expert/y");
  for (const char* name :
       {"moe/expert/conv", "expert3/conv", "moe/expert3", "moe/expert3x/conv", ""}) {
    EXPECT_EQ(SharedExpertName(name), name);
  }
}

TEST(SharedExpertNameTest, RangesOfGroupedExpertsAreUnions) {
  NetParameter file;
  const auto add = [&](const std::string& name, float low, float high) {
    QuantizerParameter* const entry = file.add_quantizer();
    entry->set_name(name);
    entry->set_observed_min(low);
    entry->set_observed_max(high);
  };
  add("moe/expert0/conv", -1, 2);
  add("moe/expert1/conv", -3, 1);
  add("other/expert0/conv", -1, 1);
  add("other/expert/conv", -5, 5);
  const StoredRanges ranges = ReadRanges(file, NetParameter());
  EXPECT_EQ(ranges.blobs.at("moe/expert/conv").low, -3);
  EXPECT_EQ(ranges.blobs.at("moe/expert/conv").high, 2);
  EXPECT_EQ(ranges.blobs.at("other/expert/conv").high, 5) << "a range of its own";
}

}  // namespace
}  // namespace caffe
