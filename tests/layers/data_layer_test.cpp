#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Prototxt(const std::string& source, int batch, const std::string& more = "",
                     const std::string& other = "") {
  return Concat("type: 'Data' phase: TRAIN data_param { source: '", source, "' batch_size: ", batch,
                " backend: LMDB ", more, " } ", other);
}

LayerTester MakeData(const std::string& prototxt, int tops = 2,
                     Device* device = Runtime::Get().cpu(), DataType type = kFloat,
                     uint64_t seed = 1) {
  return LayerTester(prototxt, device, TypeTriple::Equal(type), {}, tops, seed);
}

std::string MakeError(const std::string& prototxt) {
  return ErrorOf([&] { MakeData(prototxt); });
}

// The labels of `count` batches, one after another.
std::vector<double> Labels(LayerTester* data, int count) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    data->Forward();
    const std::vector<double> labels = data->Top(1);
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

// What a device reads, not what the host still holds.
std::vector<double> OnDevice(const BlobBase& blob) {
  std::vector<char> bytes(blob.bytes());
  blob.device()->Download(bytes.data(), blob.device_data(), blob.bytes());
  std::vector<double> values(blob.count());
  ConvertElements(blob.type(), bytes.data(), kDouble, values.data(), values.size());
  return values;
}

class DataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DataLayerTest, BatchesReachTheDevice) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 10, 2, 3, 4);
  LayerTester data = MakeData(Prototxt(path, 4, "prefetch: 2"), 2, device, type);
  EXPECT_EQ(data.top(0).shape(), Shape({4, 2, 3, 4}));
  EXPECT_EQ(data.top(1).shape(), Shape({4}));
  EXPECT_EQ(data.top(1).type(), kFloat);
  for (int64_t n = 0, batch = 0; batch < 7; ++batch) {
    data.Forward();
    std::vector<double> pixels, labels;
    for (int i = 0; i < 4; ++i, n = (n + 1) % 10) {
      const Datum datum = TestDatum(n, 2, 3, 4);
      for (unsigned char byte : datum.data()) pixels.push_back(byte);
      labels.push_back(static_cast<double>(n));
    }
    // Numbers up to 256 are exact in every type.
    ASSERT_EQ(OnDevice(data.top(0)), pixels) << "batch " << batch;
    ASSERT_EQ(OnDevice(data.top(1)), labels) << "batch " << batch;
  }
}

TEST_P(DataLayerTest, KeepsItsPlaceOnTheWayToAnotherDevice) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  LayerTester data =
      MakeData(Prototxt(MakeDatabase(folder / "db", 9, 1, 1, 1), 3), 2, Runtime::Get().cpu(), type);
  EXPECT_EQ(Labels(&data, 1), std::vector<double>({0, 1, 2}));
  data.top(0).SetDevice(device);
  data.top(1).SetDevice(device);
  data.layer().MoveToDevice(device, {}, {&data.top(0), &data.top(1)});
  data.Forward();
  EXPECT_EQ(OnDevice(data.top(1)), std::vector<double>({3, 4, 5}));
}

INSTANTIATE_TEST_SUITE_P(All, DataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(DataLayerOptionsTest, WithoutLabels) {
  const TemporaryFolder folder;
  LayerTester data = MakeData(Prototxt(MakeDatabase(folder / "db", 2, 1, 1, 2), 1), 1);
  data.Forward();
  EXPECT_EQ(data.Top(), std::vector<double>({0, 1}));
}

TEST(DataLayerOptionsTest, LogLinesOfBvlc) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 3, 1, 5, 6);
  testing::internal::CaptureStderr();
  {
    LayerTester data =
        MakeData(Prototxt(path, 2, "prefetch: 1", "transform_param { crop_size: 4 }"));
    EXPECT_EQ(Labels(&data, 4), std::vector<double>({0, 1, 2, 0, 1, 2, 0, 1}));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "] Opened lmdb " + path));
  EXPECT_TRUE(Holds(log, "data_layer.cpp"));
  EXPECT_TRUE(Holds(log, "] output data size: 2,1,4,4"));
  EXPECT_TRUE(Holds(log, "] Restarting data prefetching from start."));
}

TEST(DataLayerOptionsTest, EpochsAreTransformedAnewAndSeedsRepeat) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 16, 1, 6, 6);
  const auto epochs = [&](uint64_t seed, int prefetch) {
    LayerTester data =
        MakeData(Prototxt(path, 16, Concat("prefetch: ", prefetch),
                          "transform_param { crop_size: 3 mirror: true scale: 0.5 }"),
                 2, Runtime::Get().cpu(), kFloat, seed);
    std::vector<std::vector<double>> all;
    for (int i = 0; i < 3; ++i) {
      data.Forward();
      all.push_back(data.Top());
    }
    return all;
  };
  const auto first = epochs(5, 1);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(epochs(5, 7), first);
  EXPECT_NE(epochs(6, 1), first);
}

TEST(DataLayerOptionsTest, RandSkipStartsSomewhere) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 7, 1, 1, 1);
  std::vector<int> starts(7, 0);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    LayerTester data =
        MakeData(Prototxt(path, 7, "rand_skip: 4"), 2, Runtime::Get().cpu(), kFloat, seed);
    const std::vector<double> labels = Labels(&data, 1);
    ++starts[static_cast<int>(labels[0])];
    for (int i = 1; i < 7; ++i) ASSERT_EQ(labels[i], static_cast<int>(labels[0] + i) % 7);
  }
  for (int start = 0; start < 7; ++start) EXPECT_EQ(starts[start] > 0, start < 4) << start;
  // Further than the database is long.
  LayerTester data = MakeData(Prototxt(path, 1, "rand_skip: 1000"));
  EXPECT_LT(Labels(&data, 1)[0], 7);
}

TEST(DataLayerOptionsTest, TwoLayersReadOneDatabase) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 6, 1, 1, 1);
  LayerTester one = MakeData(Prototxt(path, 4)), other = MakeData(Prototxt(path, 3));
  EXPECT_EQ(Labels(&one, 2), std::vector<double>({0, 1, 2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(Labels(&other, 2), std::vector<double>({0, 1, 2, 3, 4, 5}));
}

TEST(DataLayerErrorsTest, NameTheLayerAndTheReason) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 2, 1, 2, 3);
  const std::string error = MakeError(Prototxt(folder / "none", 1));
  EXPECT_TRUE(Holds(error, "tested (Data): "));
  EXPECT_TRUE(Holds(error, "no such folder"));
  EXPECT_TRUE(Holds(MakeError(Prototxt("", 1)), "no source"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 0)), "batch_size is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 1, "prefetch: 0")), "prefetch is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 1, "", "transform_param { crop_size: 3 }")),
                    "crop_size 3 is larger than the image of 2 x 3"));
  EXPECT_TRUE(Holds(MakeError("type: 'Data' data_param { source: 'there' batch_size: 1 }"),
                    "LevelDB is not supported"));
  EXPECT_TRUE(Holds(MakeError("type: 'Data' data_param { batch_size: 1 source: '" + path + "' }"),
                    "no backend, which means LEVELDB; say `backend: LMDB`"));
  EXPECT_THROW(MakeData(Prototxt(path, 1), 3), Error);
  EXPECT_THROW(MakeData(Prototxt(path, 1), 1, Runtime::Get().cpu(), kQuant8), Error);
}

TEST(DataLayerErrorsTest, RecordsThatAreBadComeOutOfForward) {
  const TemporaryFolder folder;
  const auto forward_error = [&](const std::string& name, std::string_view second) {
    const auto writer = CreateDatabase("lmdb", folder / name);
    writer->Put("a", TestDatum(0, 1, 2, 2));
    writer->Put("b", second);
    writer->Finish();
    LayerTester data = MakeData(Prototxt(folder / name, 1));
    data.Forward();  // the first record is good
    EXPECT_EQ(data.Top(), std::vector<double>({0, 1, 2, 3}));
    return ErrorOf([&] { data.Forward(); });
  };
  const std::string shape = forward_error("shape", TestDatum(1, 1, 2, 3).SerializeAsString());
  EXPECT_TRUE(Holds(shape, "tested (Data): "));
  EXPECT_TRUE(Holds(shape, "record 1 (key b)"));
  EXPECT_TRUE(Holds(shape, "1 2 3 (6), that of the first record 1 2 2 (4)"));
  const std::string garbage = forward_error("garbage", "\xff\xff");
  EXPECT_TRUE(Holds(garbage, "tested (Data): "));
  EXPECT_TRUE(Holds(garbage, "record 1 (key b) is no Datum"));
  Datum encoded = TestDatum(1, 1, 2, 2);
  encoded.set_encoded(true);
  EXPECT_TRUE(Holds(forward_error("encoded", encoded.SerializeAsString()), "encoded image"));
}

}  // namespace
}  // namespace caffe
