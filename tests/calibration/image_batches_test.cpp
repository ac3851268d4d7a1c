// Lists of images as inputs of a net.
#include "caffe/calibration/image_batches.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "caffe/data/image.hpp"
#include "caffe/io/file.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

class ImageBatchesTest : public testing::Test {
 protected:
  ImageBatchesTest() : folder_(testing::TempDir() + "/image_batches") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ImageBatchesTest() override { std::filesystem::remove_all(folder_); }

  // Blue, green and red of the pixel at (y, x) are base + y, base + x and base + 50.
  void WriteImage(const std::string& name, int base, int height = 4, int width = 6) {
    Image image{height, width, 3, {}};
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (const int value : {base + y, base + x, base + 50}) {
          image.pixels.push_back(static_cast<uint8_t>(value));
        }
      }
    }
    WriteFileAtomically(folder_ + "/" + name, EncodeImage(image, ImageFormat::kPng));
  }
  ImageBatchOptions Options(const std::string& list) {
    WriteFileAtomically(folder_ + "/list.txt", list);
    ImageBatchOptions options;
    options.list = folder_ + "/list.txt";
    options.root = folder_;
    options.mean = {1, 2, 3};
    options.crop_centre = true;
    return options;
  }

  std::string folder_;
};

TEST_F(ImageBatchesTest, CropsTheCentreAndSubtractsTheMean) {
  WriteImage("a.png", 10);
  ImageBatchOptions options = Options("a.png 7\n");
  options.scale = 0.5;
  for (const bool rgb : {false, true}) {
    options.rgb = rgb;
    ImageBatches batches(options, "data", {1, 3, 2, 2});
    Batch batch;
    ASSERT_TRUE(batches.Read(0, &batch));
    EXPECT_EQ(batch.labels, std::vector<float>{7});
    // The crop begins at row 1, column 2.
    const std::vector<float> blue{11, 11, 12, 12}, green{12, 13, 12, 13}, red{60, 60, 60, 60};
    std::vector<float> expected;
    int channel = 0;
    for (const auto* plane : {rgb ? &red : &blue, &green, rgb ? &blue : &red}) {
      ++channel;
      for (const float value : *plane) {
        expected.push_back((value - static_cast<float>(channel)) * 0.5f);
      }
    }
    EXPECT_EQ(batch.values.at("data"), expected);
    EXPECT_FALSE(batches.Read(1, &batch));
  }
}

TEST_F(ImageBatchesTest, ResizesWithoutCropAndEnlargesSmallImages) {
  WriteImage("a.png", 100, 8, 8);
  ImageBatchOptions options = Options("a.png\n");
  options.mean = {0};
  Batch batch;
  options.crop_centre = false;
  ASSERT_TRUE(ImageBatches(options, "data", {1, 3, 4, 4}).Read(0, &batch));
  EXPECT_EQ(batch.values.at("data")[15], 107);  // rows 6 and 7: 106.5, rounded
  EXPECT_TRUE(batch.labels.empty());
  options.crop_centre = true;
  ASSERT_TRUE(ImageBatches(options, "data", {1, 3, 16, 12}).Read(0, &batch));
  EXPECT_EQ(batch.values.at("data").front(), 100);
  EXPECT_EQ(batch.values.at("data").back(), 150);
}

TEST_F(ImageBatchesTest, ImagesMayKeepTheirSizes) {
  WriteImage("a.png", 10, 4, 6);
  WriteImage("b.png", 20, 3, 2);
  ImageBatchOptions options = Options("a.png 7\nb.png 8\n");
  options.crop_centre = false;
  options.keep_sizes = true;
  ImageBatches batches(options, "data", {8, 3, 5, 5});
  EXPECT_EQ(batches.batch_size(), 1);
  Batch batch;
  ASSERT_TRUE(batches.Read(0, &batch));
  EXPECT_EQ(batch.shapes.at("data"), (Shape{1, 3, 4, 6}));
  EXPECT_EQ(batch.values.at("data").size(), 72u);
  ASSERT_TRUE(batches.Read(1, &batch));
  EXPECT_EQ(batch.shapes.at("data"), (Shape{1, 3, 3, 2}));
  EXPECT_EQ(batch.values.at("data"), (std::vector<float>{19, 19, 20, 20, 21, 21, 18, 19, 18, 19, 18,
                                                         19, 67, 67, 67, 67, 67, 67}));
  EXPECT_EQ(batch.labels, std::vector<float>{8});
  EXPECT_FALSE(batches.Read(2, &batch));
}

TEST_F(ImageBatchesTest, UnreadableImagesAreLeftOutWithAWarning) {
  WriteImage("a.png", 10);
  WriteImage("b.png", 20);
  WriteFileAtomically(folder_ + "/broken.png", "not an image");
  ImageBatches batches(Options("a.png 1\nmissing.png 2\nbroken.png 3\nb.png 4\n"), "data",
                       {4, 3, 2, 2});
  testing::internal::CaptureStderr();
  Batch batch;
  ASSERT_TRUE(batches.Read(0, &batch));
  ASSERT_TRUE(batches.Read(0, &batch));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("leaving out an image"), std::string::npos);
  EXPECT_EQ(log.find("missing.png"), log.rfind("missing.png"));  // once
  EXPECT_EQ(batch.items, 2);
  EXPECT_EQ(batch.labels, (std::vector<float>{1, 4}));
  EXPECT_EQ(batches.unreadable(), 2);
  // The rest of the batch repeats the images.
  const std::vector<float>& values = batch.values.at("data");
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 24),
            std::vector<float>(values.begin() + 24, values.end()));
  EXPECT_NE(values[0], values[12]);
}

TEST_F(ImageBatchesTest, TheFirstImagesAreSpreadOverTheList) {
  std::string list;
  for (int i = 0; i < 10; ++i) {
    WriteImage(std::to_string(i) + " .png", 10 * i);
    list += std::to_string(i) + " .png " + std::to_string(i) + "\n\n";
  }
  ImageBatchOptions options = Options(list);
  options.first = 4;
  ImageBatches batches(options, "data", {10, 3, 2, 2});
  Batch batch;
  ASSERT_TRUE(batches.Read(0, &batch));
  EXPECT_EQ(batch.labels, (std::vector<float>{0, 2, 5, 7, 1, 3, 4, 6, 8, 9}));
}

TEST_F(ImageBatchesTest, Errors) {
  const auto message = [&](const ImageBatchOptions& options, const Shape& shape) {
    return MessageOf([&] { ImageBatches(options, "data", shape); });
  };
  ImageBatchOptions options = Options("a.png 1\n");
  EXPECT_NE(message(options, {1, 10}).find("1 10"), std::string::npos);
  options.mean = {};
  EXPECT_NE(message(options, {1, 3, 2, 2}).find("-mean is missing"), std::string::npos);
  options.mean = {1, 2};
  EXPECT_NE(message(options, {1, 3, 2, 2}).find("2 numbers"), std::string::npos);
  EXPECT_NE(message(Options("\n"), {1, 3, 2, 2}).find("no images"), std::string::npos);
}

}  // namespace
}  // namespace caffe
