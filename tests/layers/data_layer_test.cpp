#include <gtest/gtest.h>
#include <omp.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "data/test_database.hpp"
#include "data/test_images.hpp"
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

// The values that a device reads, not those that the host still holds.
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

// Images as files in the records, or as pixels if there is no format.
std::string MakeImages(const std::string& path, const std::vector<Image>& images,
                       ImageFormat format) {
  const auto writer = CreateDatabase("lmdb", path);
  for (size_t n = 0; n < images.size(); ++n) {
    Datum datum;
    if (format == ImageFormat::kNone) {
      SetPixels(images[n], &datum);
      datum.set_label(static_cast<int>(n));
    } else {
      datum = EncodedDatum(EncodeImage(images[n], format), static_cast<int>(n));
    }
    writer->Put(TestKey(static_cast<int64_t>(n)), datum);
  }
  writer->Finish();
  return path;
}

std::vector<Image> TestImages(int count, int height, int width, int channels) {
  std::vector<Image> images;
  for (int n = 0; n < count; ++n) images.push_back(TestImage(height, width, channels, 31 * n));
  return images;
}

// Pixels and labels of `count` batches.
std::vector<std::vector<double>> Batches(LayerTester* data, int count) {
  std::vector<std::vector<double>> all;
  for (int i = 0; i < count; ++i) {
    data->Forward();
    all.push_back(data->Top(0));
    all.push_back(data->Top(1));
  }
  return all;
}

TEST(EncodedRecordsTest, GiveWhatTheirPixelsGiveOnAnyNumberOfThreads) {
  const int before = omp_get_max_threads();
  const TemporaryFolder folder;
  const auto batches = [&](const std::string& path, int threads, int prefetch) {
    omp_set_num_threads(threads);
    LayerTester data =
        MakeData(Prototxt(path, 4, Concat("rand_skip: 9 prefetch: ", prefetch),
                          "transform_param { crop_size: 5 mirror: true mean_value: 9 }"));
    EXPECT_EQ(data.top(0).shape()[1], path.find("gray") == std::string::npos ? 3 : 1);
    return Batches(&data, 8);
  };
  for (const int channels : {1, 3}) {
    const std::string name = folder / (channels == 1 ? "gray_" : "color_");
    for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg}) {
      const std::string kind = format == ImageFormat::kPng ? "png" : "jpeg";
      const std::vector<Image> images = TestImages(11, 9, 8, channels);
      std::vector<Image> seen;
      for (const Image& image : images) {
        seen.push_back(DecodeImage(EncodeImage(image, format), "image", channels == 3));
      }
      const std::string encoded = MakeImages(name + kind, images, format);
      const auto expected =
          batches(MakeImages(name + kind + "_pixels", seen, ImageFormat::kNone), 1, 1);
      EXPECT_NE(expected[0], expected[2]);
      EXPECT_EQ(batches(encoded, 1, 1), expected) << name << kind;
      EXPECT_EQ(batches(encoded, 2, 4), expected) << name << kind;
      EXPECT_EQ(batches(encoded, 7, 3), expected) << name << kind;
    }
  }
  omp_set_num_threads(before);
}

TEST(EncodedRecordsTest, ForceColorAndForceGray) {
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  const Image color = TestImage(3, 4, 3), gray = TestImage(3, 4, 1);
  writer->Put("a", EncodedDatum(PngOf(color), 1));
  writer->Put("b", EncodedDatum(PngOf(gray), 2));
  writer->Finish();
  for (const bool force_color : {true, false}) {
    LayerTester data = MakeData(
        Prototxt(folder / "db", 2, "",
                 Concat("transform_param { force_", force_color ? "color" : "gray", ": true }")));
    data.Forward();
    EXPECT_EQ(data.top(0).shape(), Shape({2, force_color ? 3 : 1, 3, 4}));
    std::vector<double> expected;
    for (const Image* image : {&color, &gray}) {
      Datum datum;
      SetPixels(DecodeImage(PngOf(*image), "image", force_color), &datum);
      for (const unsigned char byte : datum.data()) expected.push_back(byte);
    }
    EXPECT_EQ(data.Top(0), expected);
    EXPECT_EQ(data.Top(1), std::vector<double>({1, 2}));
  }
  EXPECT_TRUE(Holds(MakeError(Prototxt(folder / "db", 2, "",
                                       "transform_param { force_color: true force_gray: true }")),
                    "tested (Data): give either force_color or force_gray, not both"));
}

TEST(EncodedRecordsTest, OfMixedSizesWithACrop) {
  const TemporaryFolder folder;
  const std::vector<Image> images = {TestImage(6, 5, 3), TestImage(4, 9, 3), TestImage(7, 7, 3)};
  const std::string crop = "transform_param { crop_size: 4 mirror: true }";
  LayerTester encoded =
      MakeData(Prototxt(MakeImages(folder / "files", images, ImageFormat::kPng), 3, "", crop));
  LayerTester pixels =
      MakeData(Prototxt(MakeImages(folder / "pixels", images, ImageFormat::kNone), 3, "", crop));
  EXPECT_EQ(encoded.top(0).shape(), Shape({3, 3, 4, 4}));
  EXPECT_EQ(Batches(&encoded, 5), Batches(&pixels, 5));
}

// Pixels of an image as the layer gives them.
std::vector<double> Planes(const Image& image) {
  Datum datum;
  SetPixels(image, &datum);
  std::vector<double> planes;
  for (const unsigned char byte : datum.data()) planes.push_back(byte);
  return planes;
}

TEST_P(DataLayerTest, EachBatchHasTheShapeOfItsFirstRecord) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  const std::vector<Image> images = {TestImage(4, 6, 3), TestImage(4, 6, 3, 1), TestImage(5, 3, 3),
                                     TestImage(5, 3, 3, 1)};
  for (const ImageFormat format : {ImageFormat::kNone, ImageFormat::kPng}) {
    const std::string path =
        MakeImages(folder / std::to_string(static_cast<int>(format)), images, format);
    for (int batch : {1, 2}) {
      LayerTester data = MakeData(Prototxt(path, batch, "prefetch: 3"), 2, device, type);
      EXPECT_TRUE(data.layer().Facts().shapes_from_data);
      for (int first = 0, round = 0; round < 9; ++round, first = (first + batch) % 4) {
        data.Forward();
        const Image& image = images[first];
        ASSERT_EQ(data.top(0).shape(), Shape({batch, 3, image.height, image.width}));
        std::vector<double> pixels, labels;
        for (int n = first; n < first + batch; ++n) {
          const std::vector<double> planes = Planes(images[n]);
          pixels.insert(pixels.end(), planes.begin(), planes.end());
          labels.push_back(n);
        }
        ASSERT_EQ(OnDevice(data.top(0)), pixels) << "batch " << round;
        ASSERT_EQ(data.Top(1), labels) << "batch " << round;
      }
    }
  }
}

TEST(DataLayerOptionsTest, EqualShapesAllocateNothing) {
  const TemporaryFolder folder;
  for (Device* device : TestDevices()) {
    LayerTester data =
        MakeData(Prototxt(MakeDatabase(folder / device->info().id, 6, 2, 3, 4), 2), 2, device);
    data.Forward();
    data.top(0).device_data();
    data.top(1).device_data();
    const void* host = data.top(0).host_data();
    device->ResetCounters();
    for (int i = 0; i < 5; ++i) {
      data.Forward();
      data.top(0).device_data();
      data.top(1).device_data();
      EXPECT_EQ(data.top(0).host_data(), host);
    }
    EXPECT_EQ(device->counters().allocations, 0) << device->info().id;
  }
}

TEST(EncodedRecordsTest, OfOtherSizesGoOnWhereTheyWere) {
  const TemporaryFolder folder;
  const std::vector<Image> images = {TestImage(4, 6, 3), TestImage(5, 3, 3), TestImage(7, 7, 3)};
  const std::string prototxt =
      Prototxt(MakeImages(folder / "db", images, ImageFormat::kPng), 1, "rand_skip: 5");
  LayerTester first = MakeData(prototxt, 2, Runtime::Get().cpu(), kFloat, 1);
  LayerTester second = MakeData(prototxt, 2, Runtime::Get().cpu(), kFloat, 2);
  Batches(&first, 4);
  Batches(&second, 1);
  second.layer().SetRunState(1, first.layer().RunState());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Batches(&first, 1), Batches(&second, 1));
    EXPECT_EQ(first.top(0).shape(), second.top(0).shape());
  }
}

TEST(EncodedRecordsTest, GoOnWhereTheyWere) {
  const TemporaryFolder folder;
  const std::string prototxt =
      Prototxt(MakeImages(folder / "db", TestImages(7, 6, 6, 3), ImageFormat::kJpeg), 3,
               "rand_skip: 5", "transform_param { crop_size: 4 mirror: true }");
  LayerTester first = MakeData(prototxt, 2, Runtime::Get().cpu(), kFloat, 1);
  LayerTester second = MakeData(prototxt, 2, Runtime::Get().cpu(), kFloat, 2);
  Batches(&first, 4);
  Batches(&second, 1);
  second.layer().SetRunState(1, first.layer().RunState());
  EXPECT_EQ(Batches(&first, 5), Batches(&second, 5));
  EXPECT_EQ(first.layer().RunState(), second.layer().RunState());
}

TEST(DataLayerErrorsTest, NameTheLayerAndTheReason) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 2, 1, 2, 3);
  const std::string error = MakeError(Prototxt(folder / "none", 1));
  EXPECT_TRUE(Holds(error, "tested (Data): "));
  EXPECT_TRUE(Holds(error, "the folder does not exist"));
  EXPECT_TRUE(Holds(MakeError(Prototxt("", 1)), "no source"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 0)), "batch_size is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 1, "prefetch: 0")), "prefetch is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(path, 1, "", "transform_param { crop_size: 3 }")),
                    "crop_size 3 is larger than the image of 2 x 3"));
  EXPECT_TRUE(Holds(MakeError("type: 'Data' data_param { source: 'there' batch_size: 1 }"),
                    "LevelDB is not supported"));
  EXPECT_TRUE(Holds(MakeError("type: 'Data' data_param { batch_size: 1 source: '" + path + "' }"),
                    "no backend, which means LEVELDB; set `backend: LMDB`"));
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
  const std::string garbage = forward_error("garbage", "\xff\xff");
  EXPECT_TRUE(Holds(garbage, "tested (Data): "));
  EXPECT_TRUE(Holds(garbage, "record 1 (key b) is not a Datum"));
}

TEST(DataLayerErrorsTest, EncodedRecordsThatAreBad) {
  const TemporaryFolder folder;
  int count = 0;
  const auto database = [&](const std::vector<std::string>& files) {
    const std::string path = folder / std::to_string(count++);
    const auto writer = CreateDatabase("lmdb", path);
    for (size_t n = 0; n < files.size(); ++n) {
      writer->Put("key" + std::to_string(n), EncodedDatum(files[n]));
    }
    writer->Finish();
    return path;
  };
  const std::string good = PngOf(TestImage(3, 3, 3));
  // One of a batch that is not the first: from Forward.
  const auto forward_error = [&](const std::string& bad) {
    const std::string path = database({good, good, bad, good});
    LayerTester data = MakeData(Prototxt(path, 2));
    data.Forward();
    const std::string error = ErrorOf([&] { data.Forward(); });
    EXPECT_TRUE(Holds(error, "tested (Data): " + path + ", record 2 (key key2): "));
    return error;
  };
  EXPECT_TRUE(Holds(forward_error(""), "the encoded image is empty; convert the images again"));
  EXPECT_TRUE(Holds(forward_error("text"), "is neither a JPEG nor a PNG file; convert the images"));
  EXPECT_TRUE(
      Holds(forward_error(good.substr(0, good.size() - 30)), "is not a complete PNG file: "));
  const std::string wide =
      "\x89PNG\r\n\x1a\n" +
      PngChunk("IHDR", BigEndian(1 << 20) + BigEndian(1 << 20) + std::string("\x08\x02\0\0\0", 5)) +
      PngChunk("IDAT", "");
  EXPECT_TRUE(Holds(forward_error(wide), "has 1048576 x 1048576 pixels; the limit is 268435456 "));
  // The first: when the layer is made.
  const std::string path = database({"", good});
  EXPECT_TRUE(
      Holds(MakeError(Prototxt(path, 1)),
            "tested (Data): " + path + ", record 0 (key key0): the encoded image is empty; "));
}

TEST(DataLayerErrorsTest, ABatchOfMixedShapes) {
  const TemporaryFolder folder;
  int count = 0;
  // The error of the second batch.
  const auto forward_error = [&](const std::vector<Image>& second, ImageFormat format) {
    std::vector<Image> images = {TestImage(3, 3, 3), TestImage(3, 3, 3), second[0], second[1]};
    const std::string path = MakeImages(folder / std::to_string(count++), images, format);
    LayerTester data = MakeData(Prototxt(path, 2));
    data.Forward();
    const std::string error = ErrorOf([&] { data.Forward(); });
    EXPECT_TRUE(Holds(error, "tested (Data): " + path + ", record 3 (key 00000003): "));
    return error;
  };
  for (const ImageFormat format : {ImageFormat::kNone, ImageFormat::kPng}) {
    EXPECT_TRUE(Holds(
        forward_error({TestImage(3, 5, 3), TestImage(3, 4, 3)}, format),
        "the record's shape is 3 3 4 (36), but that of the batch's first record is 3 3 5 (45); all "
        "records of a batch must have one shape (crop_size or batch_size: 1 helps)"));
  }
  EXPECT_TRUE(
      Holds(forward_error({TestImage(3, 3, 3), TestImage(3, 3, 1)}, ImageFormat::kPng),
            "the record's shape is 1 3 3 (9), but that of the batch's first record is 3 3 3 (27); "
            "all records of a batch must have one shape (force_color or force_gray or batch_size: "
            "1 helps)"));
}

TEST(DataLayerErrorsTest, TheFirstBadRecordOfABatchIsNamed) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(4);
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  for (int n = 0; n < 12; ++n) {
    writer->Put(TestKey(n), EncodedDatum(n < 5 ? PngOf(TestImage(30, 30, 3)) : "bad"));
  }
  writer->Finish();
  for (int i = 0; i < 20; ++i) {
    LayerTester data = MakeData(Prototxt(folder / "db", 12));
    EXPECT_TRUE(Holds(ErrorOf([&] { data.Forward(); }), "record 5 (key 00000005): "));
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace caffe
