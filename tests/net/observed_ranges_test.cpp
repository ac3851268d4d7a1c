// The observed range of a blob, in every float kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/quant/histogram.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int kCount = 300;  // several chunks

class ObservedRangesTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make() {
    const DataType type = GetParam().type;
    const std::string name = DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto));
    auto net = MakeNet("data_type: " + name + " " + InputText("data", {kCount}) +
                           "layer { name: 'twice' type: 'Power' bottom: 'data' top: 'twice' "
                           "power_param { scale: 2 } } ",
                       GetParam().device);
    net->set_observe(true);
    return net;
  }
  static NetParameter Saved(const Net& net) {
    NetParameter saved;
    net.ToProto(&saved);
    return saved;
  }
};

TEST_P(ObservedRangesTest, InfinitiesAndNanAreLeftOut) {
  const auto net = Make();
  std::vector<double> values(kCount, 0.5);
  std::fill(values.begin(), values.begin() + 64, NAN);  // all of a chunk
  std::fill(values.begin() + 64, values.begin() + 128, INFINITY);
  values[128] = -INFINITY;
  values[150] = -2;
  values[kCount - 1] = 1;
  net->BlobByName("data")->SetData(values);
  net->Forward();
  const auto ranges = net->Ranges();
  EXPECT_EQ(ranges.at("data").low, -2);
  EXPECT_EQ(ranges.at("data").high, 1);
  EXPECT_EQ(ranges.at("twice").low, -4);
  EXPECT_EQ(ranges.at("twice").high, 2);
  // A later forward widens the range, and numbers do not become infinities on the way.
  values[1] = 3;
  net->BlobByName("data")->SetData(values);
  net->Forward();
  EXPECT_EQ(net->Ranges().at("data").low, -2);
  EXPECT_EQ(net->Ranges().at("data").high, 3);
  // Ranges that were observed can be loaded.
  const auto other = Make();
  testing::internal::CaptureStderr();
  other->CopyTrainedLayersFrom(Saved(*net));
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("ignoring the stored range"),
            std::string::npos);
  EXPECT_EQ(other->Ranges().at("data").high, 3);
}

// The counts of all values, over forwards of different sizes and limits, as the host counts them.
TEST_P(ObservedRangesTest, HistogramsAreExact) {
  const auto net = Make();
  Histogram expected, expected_twice;
  int64_t seed = 1;
  for (const int64_t count : {300, 20000, 5}) {
    for (const double scale : {1e-3, 40.0}) {
      std::vector<double> values = TestNumbers(count, seed++);
      for (double& value : values) value *= scale;
      values[0] = 0;
      values[1] = seed == 3 ? NAN : -INFINITY;
      BlobBase& data = *net->BlobByName("data");
      data.Reshape({count});
      data.SetData(values);
      net->Forward();
      for (const double value : data.DataAsDouble()) expected.Add(value);
      for (const double value : Values(*net, "twice")) expected_twice.Add(value);
    }
  }
  const std::map<std::string, Histogram> histograms = net->Histograms();
  for (const auto& [name, wanted] :
       {std::pair{"data", expected}, std::pair{"twice", expected_twice}}) {
    const Histogram& histogram = histograms.at(name);
    EXPECT_EQ(histogram.counts, wanted.counts) << name;
    EXPECT_EQ(histogram.limit, wanted.limit) << name;
    EXPECT_EQ(histogram.zeros, wanted.zeros) << name;
    EXPECT_EQ(histogram.zeros, 6);
    EXPECT_EQ(histogram.total(), 2 * 20305 - 6);
  }
}

// Values beyond the largest limit of a histogram are in its first and last bin; none is lost, and
// none changes a neighbour's count.
TEST_P(ObservedRangesTest, ExtremeValuesAreCounted) {
  const auto net = Make();
  const DataType type = GetParam().type;
  const double largest = type == kDouble     ? std::numeric_limits<double>::max()
                         : type == kFloat    ? std::numeric_limits<float>::max()
                         : type == kBfloat16 ? 0x1.fep127
                                             : 65504;
  constexpr int64_t kLong = 20000;  // several parts
  std::vector<double> values(kLong, 0.25 * largest);
  values[0] = -INFINITY;
  values[1] = NAN;
  values[2] = INFINITY;
  for (const int i : {3, 4097, 8195, 19999}) values[i] = -largest;
  for (const int i : {4, 9000}) values[i] = largest;
  values[5] = type == kHalf ? 0x1p-24 : 0x1p-133;
  values[6] = 0;
  BlobBase& data = *net->BlobByName("data");
  data.Reshape({kLong});
  data.SetData(values);
  net->Forward();
  const Histogram histogram = net->Histograms().at("data");
  EXPECT_EQ(histogram.total(), kLong - 3);
  EXPECT_EQ(histogram.counts.front(), 4);
  EXPECT_EQ(histogram.counts[Histogram::kBins / 2], 2);
  const int64_t above = std::accumulate(histogram.counts.begin() + Histogram::kBins / 2 + 1,
                                        histogram.counts.end(), int64_t{0});
  EXPECT_EQ(above, kLong - 3 - 4 - 2);
  EXPECT_EQ(net->Ranges().at("data").low, -largest);
  EXPECT_EQ(net->Ranges().at("data").high, largest);
}

TEST_P(ObservedRangesTest, WithoutANumberThereIsNoRange) {
  const auto net = Make();
  std::vector<double> values(kCount, NAN);
  values[7] = INFINITY;
  net->BlobByName("data")->SetData(values);
  net->Forward();
  EXPECT_TRUE(net->Ranges().empty());
  EXPECT_EQ(Saved(*net).quantizer_size(), 0);
  values[8] = 3;
  net->BlobByName("data")->SetData(values);
  net->Forward();
  EXPECT_EQ(net->Ranges().at("data").low, 3);
  EXPECT_EQ(net->Ranges().at("data").high, 3);
}

TEST_P(ObservedRangesTest, LoadedRangesKeepTheirDigits) {
  const auto net = Make();
  NetParameter file;
  for (const char* name : {"data", "twice"}) {
    QuantizerParameter* entry = file.add_quantizer();
    entry->set_name(name);
    entry->set_observed_min(-0.3);
    entry->set_observed_max(0.7);
  }
  net->CopyTrainedLayersFrom(file);
  net->BlobByName("data")->SetData(std::vector<double>(kCount, 0.5));
  net->Forward();
  EXPECT_EQ(net->Ranges().at("data").low, -0.3);
  EXPECT_EQ(net->Ranges().at("data").high, 0.7);
  EXPECT_EQ(net->Ranges().at("twice").low, -0.3);
  EXPECT_EQ(net->Ranges().at("twice").high, 1);
  // The same if only the file has the range.
  net->BlobByName("data")->SetData(std::vector<double>(kCount, NAN));
  net->CopyTrainedLayersFrom(file);
  net->Forward();
  EXPECT_EQ(net->Ranges().at("data").low, -0.3);
  EXPECT_EQ(net->Ranges().at("data").high, 0.7);
}

TEST_P(ObservedRangesTest, WaitsForNothing) {
  const auto net = Make();
  FillInputs(net.get());
  net->Forward();
  Device* device = GetParam().device;
  device->ResetCounters();
  net->Forward();
  const DeviceCounters counters = device->counters();
  EXPECT_EQ(counters.uploads, 0);
  EXPECT_EQ(counters.downloads, 0);
  EXPECT_EQ(counters.syncs, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ObservedRangesTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ObservedRangesLogTest, OneWarningForABlobThatHeldInfinities) {
  const auto net = MakeNet("name: 'overflowing' " + InputText("data", {3}), TestDevices()[0]);
  net->set_observe(true);
  net->BlobByName("data")->SetData({1, INFINITY, 2});
  testing::internal::CaptureStderr();
  net->Forward();
  EXPECT_TRUE(testing::internal::GetCapturedStderr().empty());  // nothing is read in between
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) net->Ranges();
  const std::string log = testing::internal::GetCapturedStderr(),
                    part = "net overflowing: blob data had infinities or NaN";
  EXPECT_TRUE(Holds(log, part));
  EXPECT_EQ(log.find(part), log.rfind(part));
}

}  // namespace
}  // namespace caffe
