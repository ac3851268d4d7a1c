#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// Files 0.png, 1.png, … of one size and a list of them, image i with label i.
std::string MakeList(const TemporaryFolder& folder, int count, int height, int width,
                     int channels = 3) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i) + ".png";
    folder.Put(name, PngOf(TestImage(height, width, channels, i)));
    list += name + " " + std::to_string(i) + "\n";
  }
  return folder.Put("list.txt", list);
}

std::string Prototxt(const TemporaryFolder& folder, int batch, const std::string& more = "",
                     const std::string& other = "") {
  return Concat("type: 'ImageData' phase: TRAIN image_data_param { source: '", folder / "list.txt",
                "' root_folder: '", folder.path().string(), "/' batch_size: ", batch, " ", more,
                " } ", other);
}

LayerTester MakeLayer(const std::string& prototxt, Device* device = Runtime::Get().cpu(),
                      DataType type = kFloat, uint64_t seed = 1) {
  return LayerTester(prototxt, device, TypeTriple::Equal(type), {}, 2, seed);
}

std::string MakeError(const std::string& prototxt) {
  return ErrorOf([&] { MakeLayer(prototxt); });
}

std::vector<double> Planes(const Image& image) {
  std::vector<double> planes;
  for (int c = 0; c < image.channels; ++c) {
    for (size_t i = c; i < image.pixels.size(); i += image.channels) {
      planes.push_back(image.pixels[i]);
    }
  }
  return planes;
}

// The labels of `count` batches, one after another.
std::vector<double> Labels(LayerTester* layer, int count) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    layer->Forward();
    const std::vector<double> labels = layer->Top(1);
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

class ImageDataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ImageDataLayerTest, BatchesReachTheDevice) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  MakeList(folder, 3, 4, 5);
  LayerTester layer = MakeLayer(Prototxt(folder, 2), device, type);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 3, 4, 5}));
  EXPECT_EQ(layer.top(1).shape(), Shape({2}));
  EXPECT_EQ(layer.top(1).type(), kFloat);
  for (int batch = 0, n = 0; batch < 4; ++batch) {
    layer.Forward();
    std::vector<double> pixels, labels;
    for (int i = 0; i < 2; ++i, n = (n + 1) % 3) {
      const std::vector<double> planes = Planes(TestImage(4, 5, 3, n));
      pixels.insert(pixels.end(), planes.begin(), planes.end());
      labels.push_back(n);
    }
    std::vector<char> bytes(layer.top(0).bytes());
    device->Download(bytes.data(), layer.top(0).device_data(), layer.top(0).bytes());
    std::vector<double> values(pixels.size());
    ConvertElements(type, bytes.data(), kDouble, values.data(), values.size());
    // Numbers up to 256 are exact in every type.
    ASSERT_EQ(values, pixels) << "batch " << batch;
    ASSERT_EQ(layer.Top(1), labels);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ImageDataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ImageDataLayerOptionsTest, ResizesCropsAndTransforms) {
  const TemporaryFolder folder;
  MakeList(folder, 2, 9, 11);
  BlobProto mean;
  mean.set_channels(3);
  mean.set_height(6);
  mean.set_width(8);
  mean.set_num(1);
  for (int i = 0; i < 3 * 6 * 8; ++i) mean.add_data(static_cast<float>(i % 7));
  WriteBinaryProto(folder / "mean", mean);
  std::string prototxt = Prototxt(
      folder, 2, "new_height: 6 new_width: 8",
      "transform_param { crop_size: 4 scale: 0.5 mean_file: '" + (folder / "mean") + "' }");
  prototxt.replace(prototxt.find("TRAIN"), 5, "TEST");
  LayerTester layer = MakeLayer(prototxt);
  layer.Forward();
  ASSERT_EQ(layer.top(0).shape(), Shape({2, 3, 4, 4}));
  std::vector<double> expected;
  for (int n = 0; n < 2; ++n) {
    const std::vector<double> planes = Planes(ResizeBilinear(TestImage(9, 11, 3, n), 6, 8));
    for (int c = 0; c < 3; ++c) {
      for (int h = 1; h < 5; ++h) {
        for (int w = 2; w < 6; ++w) {
          const int at = (c * 6 + h) * 8 + w;
          expected.push_back((planes[at] - at % 7) * 0.5);
        }
      }
    }
  }
  EXPECT_EQ(layer.Top(), expected);
}

TEST(ImageDataLayerOptionsTest, Gray) {
  const TemporaryFolder folder;
  MakeList(folder, 1, 4, 5);
  LayerTester layer = MakeLayer(Prototxt(folder, 1, "is_color: false"));
  layer.Forward();
  ASSERT_EQ(layer.top(0).shape(), Shape({1, 1, 4, 5}));
  EXPECT_EQ(layer.Top(), Planes(DecodeImage(PngOf(TestImage(4, 5, 3, 0)), "0.png", false)));
}

TEST(ImageDataLayerOptionsTest, ResultsDoNotDependOnTheNumberOfThreads) {
  const TemporaryFolder folder;
  MakeList(folder, 20, 9, 11);
  const int before = omp_get_max_threads();
  const auto batches = [&](int threads, int prefetch) {
    omp_set_num_threads(threads);
    LayerTester layer =
        MakeLayer(Prototxt(folder, 8, "shuffle: true new_height: 8 new_width: 7",
                           Concat("transform_param { crop_size: 5 mirror: true } data_param { "
                                  "prefetch: ",
                                  prefetch, " }")));
    std::vector<std::vector<double>> all;
    for (int i = 0; i < 6; ++i) {
      layer.Forward();
      all.push_back(layer.Top(0));
      all.push_back(layer.Top(1));
    }
    return all;
  };
  const auto one = batches(1, 1);
  EXPECT_EQ(batches(2, 4), one);
  EXPECT_EQ(batches(7, 3), one);
  omp_set_num_threads(before);
}

TEST(ImageDataLayerOptionsTest, EachEpochIsShuffledAnew) {
  const TemporaryFolder folder;
  MakeList(folder, 10, 1, 1, 1);
  const auto labels = [&](uint64_t seed) {
    LayerTester layer =
        MakeLayer(Prototxt(folder, 5, "shuffle: true"), Runtime::Get().cpu(), kFloat, seed);
    return Labels(&layer, 6);
  };
  const std::vector<double> all = labels(1);
  std::vector<std::vector<double>> epochs;
  for (int i = 0; i < 3; ++i) {
    std::vector<double> epoch(all.begin() + 10 * i, all.begin() + 10 * (i + 1));
    epochs.push_back(epoch);
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, std::vector<double>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(labels(1), all);
  EXPECT_NE(labels(2), all);
}

TEST(ImageDataLayerOptionsTest, RandSkipStartsSomewhere) {
  const TemporaryFolder folder;
  MakeList(folder, 5, 1, 1, 1);
  std::vector<int> starts(5, 0);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    LayerTester layer =
        MakeLayer(Prototxt(folder, 5, "rand_skip: 3"), Runtime::Get().cpu(), kFloat, seed);
    const std::vector<double> labels = Labels(&layer, 1);
    ++starts[static_cast<int>(labels[0])];
    for (int i = 1; i < 5; ++i) ASSERT_EQ(labels[i], static_cast<int>(labels[0] + i) % 5);
  }
  for (int start = 0; start < 5; ++start) EXPECT_EQ(starts[start] > 0, start < 3) << start;
}

TEST(ImageDataLayerOptionsTest, ImagesOfDifferentSizesOneByOne) {
  const TemporaryFolder folder;
  folder.Put("a b.png", PngOf(TestImage(2, 3, 3)));
  folder.Put("c.png", PngOf(TestImage(5, 4, 3)));
  folder.Put("list.txt", "a b.png 7\r\n\nc.png\t-1\n");
  LayerTester layer = MakeLayer(Prototxt(folder, 1));
  layer.Forward();
  EXPECT_EQ(layer.top(0).shape(), Shape({1, 3, 2, 3}));
  EXPECT_EQ(layer.Top(1), std::vector<double>({7}));
  layer.Forward();
  EXPECT_EQ(layer.top(0).shape(), Shape({1, 3, 5, 4}));
  EXPECT_EQ(layer.Top(0), Planes(TestImage(5, 4, 3)));
  EXPECT_EQ(layer.Top(1), std::vector<double>({-1}));
  LayerTester pair = MakeLayer(Prototxt(folder, 2));
  EXPECT_TRUE(
      Holds(ErrorOf([&] { pair.Forward(); }),
            "line 3: c.png: the record's shape is 3 5 4 (60), but that of the batch's first "
            "record is 3 2 3 (18)"));
}

TEST(ImageDataLayerOptionsTest, GoesOnWhereItWas) {
  const TemporaryFolder folder;
  MakeList(folder, 7, 5, 6);
  const std::string prototxt = Prototxt(folder, 3, "shuffle: true rand_skip: 5",
                                        "transform_param { crop_size: 4 mirror: true }");
  LayerTester first = MakeLayer(prototxt, Runtime::Get().cpu(), kFloat, 1);
  LayerTester second = MakeLayer(prototxt, Runtime::Get().cpu(), kFloat, 2);
  Labels(&first, 4);
  const std::vector<uint64_t> state = first.layer().RunState();
  Labels(&second, 1);
  second.layer().SetRunState(1, state);
  for (int i = 0; i < 5; ++i) {
    first.Forward();
    second.Forward();
    ASSERT_EQ(first.Top(0), second.Top(0)) << i;
    ASSERT_EQ(first.Top(1), second.Top(1)) << i;
  }
  EXPECT_EQ(first.layer().RunState(), second.layer().RunState());
  EXPECT_THROW(second.layer().SetRunState(1, {1}), Error);
}

TEST(ImageDataLayerOptionsTest, LogLinesOfBvlc) {
  const TemporaryFolder folder;
  const std::string list = MakeList(folder, 3, 2, 2);
  testing::internal::CaptureStderr();
  MakeLayer(Prototxt(folder, 2, "shuffle: true"));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "] Opening file " + list));
  EXPECT_TRUE(Holds(log, "] Shuffling data"));
  EXPECT_TRUE(Holds(log, "] A total of 3 images."));
  EXPECT_TRUE(Holds(log, "] output data size: 2,3,2,2"));
}

TEST(ImageDataLayerErrorsTest, NameTheFileAndTheLine) {
  const TemporaryFolder folder;
  EXPECT_TRUE(Holds(MakeError(Prototxt(folder, 1)), "tested (ImageData): File not found: "));
  MakeList(folder, 2, 3, 3);
  EXPECT_TRUE(Holds(MakeError(Prototxt(folder, 0)), "batch_size is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(folder, 1, "new_height: 3")),
                    "new_height and new_width must be set at the same time"));
  EXPECT_TRUE(
      Holds(MakeError(Prototxt(folder, 1, "new_height: 100000 new_width: 100000")),
            "new_height and new_width has 100000 x 100000 pixels; the limit is 268435456 "));
  EXPECT_TRUE(
      Holds(MakeError(Prototxt(folder, 1, "", "data_param { prefetch: 0 }")), "prefetch is 0"));
  EXPECT_TRUE(Holds(MakeError(Prototxt(folder, 1, "", "transform_param { crop_size: 4 }")),
                    "line 1: 0.png: crop_size 4 is larger than the image of 3 x 3"));
  EXPECT_TRUE(Holds(MakeError("type: 'ImageData'"), "image_data_param has no source"));
  EXPECT_THROW(MakeLayer(Prototxt(folder, 1), Runtime::Get().cpu(), kQuant8), Error);
  const auto list_error = [&](const std::string& text) {
    folder.Put("list.txt", text);
    return MakeError(Prototxt(folder, 1));
  };
  EXPECT_TRUE(Holds(list_error(""), "list.txt: the list has no images"));
  EXPECT_TRUE(
      Holds(list_error("0.png 1\nname\n"), "list.txt, line 2: 'name' is not a path and a label"));
  EXPECT_TRUE(
      Holds(list_error(std::string("0.png\0 1\n", 9)), "list.txt, line 1: it has a zero byte"));
  EXPECT_TRUE(Holds(list_error("\xef\xbb\xbf"
                               "no.png 1\r\n"),
                    "list.txt, line 1: File not found: " + folder / "no.png"));
  folder.Put("wide.png", "\x89PNG\r\n\x1a\n" +
                             PngChunk("IHDR", BigEndian(1 << 20) + BigEndian(1 << 20) +
                                                  std::string("\x08\x02\0\0\0", 5)) +
                             PngChunk("IDAT", ""));
  EXPECT_TRUE(Holds(list_error("wide.png 1\n"), "list.txt, line 1: " + folder / "wide.png" +
                                                    " has 1048576 x 1048576 pixels; "));
  EXPECT_TRUE(Holds(list_error("0.png cat\n"), "line 1: the label 'cat' is not an integer"));
  EXPECT_TRUE(Holds(list_error("none.png 1\n"), "line 1: File not found: "));
  // One that is not the first: from Forward.
  folder.Put("bad.png", "no image");
  folder.Put("list.txt", "0.png 0\n1.png 1\nbad.png 2\n");
  LayerTester layer = MakeLayer(Prototxt(folder, 3));
  const std::string error = ErrorOf([&] { layer.Forward(); });
  EXPECT_TRUE(Holds(error, "tested (ImageData): "));
  EXPECT_TRUE(Holds(error, "line 3: "));
  EXPECT_TRUE(Holds(error, "bad.png is neither a JPEG nor a PNG file"));
}

}  // namespace
}  // namespace caffe
