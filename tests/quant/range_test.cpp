// Entries without a range are ignored; a warning names the entry and its fault.
#include "caffe/quant/range.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"

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

}  // namespace
}  // namespace caffe
