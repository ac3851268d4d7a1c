// caffe classify: its classes, its files, and its errors.
#include <gtest/gtest.h>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/number_text.hpp"
#include "caffe/data/image.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "commands/bitmap_font.hpp"
#include "commands/commands.hpp"
#include "commands/contact_sheet.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// The mean of each channel is the score of a class: blue, green, red.
constexpr char kNet[] = R"(
  name: 'colours'
  layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
  layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
          convolution_param { num_output: 3 kernel_size: 1 bias_term: false } }
  layer { name: 'score' type: 'Pooling' bottom: 'conv' top: 'score'
          pooling_param { pool: AVE global_pooling: true } }
)";
constexpr char kSoftmax[] = "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";

// Their names: the CPU and all others.
std::vector<std::string> Devices() {
  std::vector<std::string> names{"cpu"};
  for (Device* device : Runtime::Get().devices()) names.push_back(device->info().id);
  return names;
}

class ClassifyCommandTest : public testing::Test {
 protected:
  ClassifyCommandTest() {
    model_ = folder_.Put("net.prototxt", std::string(kNet) + kSoftmax);
    scores_ = folder_.Put("scores.prototxt", kNet);
    NetParameter weights;
    LayerParameter* conv = weights.add_layer();
    conv->set_name("conv");
    BlobProto* blob = conv->add_blobs();
    for (const int extent : {3, 3, 1, 1}) blob->mutable_shape()->add_dim(extent);
    for (int i = 0; i < 9; ++i) blob->add_data(i % 4 == 0 ? 1 : 0);
    weights_ = folder_ / "net.caffemodel";
    WriteBinaryProto(weights_, weights);
    std::filesystem::create_directory(folder_ / "images");
    PutImage("images/blue.png", {250, 20, 30});
    PutImage("images/green.PNG", {10, 200, 90});
    PutImage("images/red.png", {10, 60, 150});
    folder_.Put("images/notes.txt", "no image");
    list_ = folder_.Put("list.txt", "images/blue.png 0\nimages/green.PNG 2\nimages/red.png 2\n");
    labels_ = folder_.Put("words.txt", "n0 blue\nn1 green\nn2 red\n");
  }
  void TearDown() override { Runtime::Get().SetDefaultDevice(nullptr); }

  // 6 x 5 pixels of one colour.
  void PutImage(const std::string& name, const std::vector<int>& colour) {
    Image image{6, 5, 3, {}};
    for (int i = 0; i < 30; ++i) {
      for (const int value : colour) image.pixels.push_back(static_cast<uint8_t>(value));
    }
    folder_.Put(name, EncodeImage(image, ImageFormat::kPng));
  }

  int Run(const std::vector<std::string>& more, const std::string& device = "cpu") {
    std::vector<std::string> arguments{"classify", "-gpu",  device, "-model", model_, "-weights",
                                       weights_,   "-mean", "0",    "-scale", "0.01"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CaffeMain(arguments);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  std::vector<std::string> List(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"-images", list_, "-root", folder_ / ""});
    return more;
  }
  void ExpectError(const std::vector<std::string>& more, const std::string& text) {
    EXPECT_EQ(1, Run(more)) << text;
    EXPECT_EQ("", out_);
    EXPECT_TRUE(Holds(err_, text)) << err_;
  }

  TemporaryFolder folder_;
  std::string model_, scores_, weights_, list_, labels_, out_, err_;
};

// The softmax of blue, green and red, at one of them.
double Softmax(double blue, double green, double red, int at) {
  const double scores[] = {blue, green, red};
  return std::exp(scores[at]) / (std::exp(blue) + std::exp(green) + std::exp(red));
}

TEST_F(ClassifyCommandTest, TheBestClassesHaveTheirProbabilities) {
  for (const std::string& device : Devices()) {
    ASSERT_EQ(0, Run(List({"-labels", labels_, "-top", "2"}), device)) << err_;
    const std::string blue = FixedText(Softmax(2.5, 0.2, 0.3, 0), 4),
                      green = FixedText(Softmax(0.1, 2, 0.9, 1), 4);
    EXPECT_TRUE(Holds(out_, "images/blue.png  (label 0 n0 blue)\n  " + blue + "  0 n0 blue\n"))
        << out_;
    EXPECT_TRUE(Holds(out_, "images/green.PNG  (label 2 n2 red)\n  " + green + "  1 n1 green\n"))
        << out_;
    EXPECT_TRUE(Holds(out_, "\ntop-1: 2 of 3 labels, top-2: 3\n")) << out_;
  }
}

TEST_F(ClassifyCommandTest, FoldersAndImagesNeedNoList) {
  ASSERT_EQ(0, Run({"-images", folder_ / "images"})) << err_;
  EXPECT_LT(out_.find("blue.png\n"), out_.find("green.PNG\n"));
  EXPECT_LT(out_.find("green.PNG\n"), out_.find("red.png\n"));
  EXPECT_FALSE(Holds(out_, "notes.txt"));
  EXPECT_FALSE(Holds(out_, "top-1"));
  ASSERT_EQ(0, Run({"-images", folder_ / "images/red.png", "-top", "1"})) << err_;
  EXPECT_TRUE(Holds(out_, "red.png\n  " + FixedText(Softmax(0.1, 0.6, 1.5, 2), 4) + "  2\n"))
      << out_;
  const std::string two = (folder_ / "images/red.png") + "," + (folder_ / "images/blue.png");
  ASSERT_EQ(0, Run({"-images", two})) << err_;
  EXPECT_LT(out_.find("red.png\n"), out_.find("blue.png\n"));
}

TEST_F(ClassifyCommandTest, UnreadableImagesAreReportedAndOthersGoOn) {
  folder_.Put("images/broken.png", "text");
  list_ = folder_.Put("list.txt", "images/broken.png 1\nimages/none.png 1\nimages/red.png 2\n");
  const std::string sheet = folder_ / "sheet.png";
  ASSERT_EQ(0, Run(List({"-sheet", sheet}))) << err_;
  EXPECT_TRUE(Holds(out_, "broken.png  (label 1)\n  not classified: ")) << out_;
  EXPECT_TRUE(Holds(out_, "none.png  (label 1)\n  not classified: ")) << out_;
  EXPECT_TRUE(Holds(out_, "top-1: 1 of 1 labels")) << out_;
  EXPECT_TRUE(Holds(err_, "2 of 3 images could not be read")) << err_;
  EXPECT_EQ(DecodeImage(ReadFile(sheet), sheet, true).channels, 3);
  list_ = folder_.Put("list.txt", "images/broken.png 1\n");
  ExpectError(List(), "none of the 1 images of");
}

TEST_F(ClassifyCommandTest, WithoutASoftmaxItIsComputed) {
  ASSERT_EQ(0, Run(List())) << err_;
  const std::string expected = out_;
  EXPECT_FALSE(Holds(err_, "Softmax"));
  model_ = scores_;
  ASSERT_EQ(0, Run(List())) << err_;
  EXPECT_EQ(expected, out_);
  EXPECT_TRUE(Holds(err_, "no Softmax makes the scores 'score'")) << err_;
}

TEST_F(ClassifyCommandTest, TypesAndTheirRanges) {
  ASSERT_EQ(0, Run(List({"-top", "1"}))) << err_;
  const std::string expected = out_;
  for (const char* type : {"half", "int16", "int8"}) {
    ASSERT_EQ(0, Run(List({"-type", type, "-top", "1", "--json"}))) << err_;
    const bool codes = std::string(type).starts_with("int");
    EXPECT_EQ(codes, Holds(err_, "the files have no ranges")) << err_;
    EXPECT_TRUE(Holds(out_, Concat("\"ranges_of_these_images\": ", codes ? "true" : "false")));
    EXPECT_TRUE(Holds(out_, "\"top1\": 2")) << type << out_;
    google::protobuf::Struct json;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(out_, &json).ok()) << out_;
    const auto& first = json.fields().at("images").list_value().values(0).struct_value();
    const auto& best = first.fields().at("best").list_value().values(0).struct_value();
    EXPECT_NEAR(best.fields().at("probability").number_value(), Softmax(2.5, 0.2, 0.3, 0), 0.01)
        << type;
  }
}

// A net with one channel reads images in gray: LeNet, with digits.
TEST_F(ClassifyCommandTest, GrayNets) {
  model_ = folder_.Put("gray.prototxt", R"(
    layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 dim: 6 dim: 5 } } }
    layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
            convolution_param { num_output: 2 kernel_h: 6 kernel_w: 5 } }
    layer { name: 'prob' type: 'Softmax' bottom: 'conv' top: 'prob' } )");
  NetParameter weights;
  LayerParameter* conv = weights.add_layer();
  conv->set_name("conv");
  BlobProto* blob = conv->add_blobs();
  for (const int extent : {2, 1, 6, 5}) blob->mutable_shape()->add_dim(extent);
  for (int i = 0; i < 60; ++i) blob->add_data(i < 30 ? 1 / 30.0f : 0);
  BlobProto* bias = conv->add_blobs();
  bias->mutable_shape()->add_dim(2);
  for (const float value : {0.0f, 1.0f}) bias->add_data(value);
  WriteBinaryProto(weights_, weights);
  Image image{6, 5, 1, std::vector<uint8_t>(30, 250)};
  folder_.Put("images/light.png", EncodeImage(image, ImageFormat::kPng));
  image.pixels.assign(30, 10);
  folder_.Put("images/dark.png", EncodeImage(image, ImageFormat::kPng));
  list_ = folder_.Put("list.txt", "images/light.png 0\nimages/dark.png 1\n");
  ASSERT_EQ(0, Run(List({"-sheet", folder_ / "sheet.png"}))) << err_;
  const double light = 1 / (1 + std::exp(1 - 2.5)), dark = 1 / (1 + std::exp(0.1 - 1));
  EXPECT_TRUE(Holds(out_, "light.png  (label 0)\n  " + FixedText(light, 4) + "  0\n"));
  EXPECT_TRUE(Holds(out_, "dark.png  (label 1)\n  " + FixedText(dark, 4) + "  1\n"));
  EXPECT_TRUE(Holds(out_, "top-1: 2 of 2 labels"));
}

TEST_F(ClassifyCommandTest, ASheetHasThePicturesAndTheText) {
  const std::string sheet = folder_ / "sheet.png";
  ASSERT_EQ(0, Run(List({"-sheet", sheet, "-labels", labels_, "-top", "2"}))) << err_;
  const Image image = DecodeImage(ReadFile(sheet), sheet, true);
  // 2 columns of 216 pixels, and 2 rows with 3 lines of text.
  EXPECT_EQ(image.width, 2 * 224 + 8);
  EXPECT_EQ(image.height, 2 * (216 + 4 + 3 * kLineHeight + 8) + 8);
  const auto pixel = [&](int x, int y) {
    const uint8_t* p = image.pixels.data() + (static_cast<size_t>(y) * image.width + x) * 3;
    return std::vector<int>{p[0], p[1], p[2]};
  };
  EXPECT_EQ(pixel(8 + 108, 8 + 108), (std::vector<int>{250, 20, 30}));
  EXPECT_EQ(pixel(8 + 224 + 108, 8 + 108), (std::vector<int>{10, 200, 90}));
  EXPECT_EQ(pixel(image.width - 100, image.height - 100), (std::vector<int>{255, 255, 255}));
  // The first line of the first cell is the name of the file.
  Image expected{kLineHeight, 216, 3, std::vector<uint8_t>(size_t{kLineHeight} * 216 * 3, 255)};
  DrawText("blue.png", 0, 0, &expected);
  for (int y = 0; y < kLineHeight; ++y) {
    for (int x = 0; x < 216; ++x) {
      const int value = expected.pixels[(static_cast<size_t>(y) * 216 + x) * 3];
      EXPECT_EQ(pixel(8 + x, 8 + 216 + 4 + y), (std::vector<int>(3, value))) << x << " " << y;
    }
  }
  const std::string before = ReadFile(list_);
  ExpectError(List({"-sheet", list_}), "would replace the input");
  EXPECT_EQ(before, ReadFile(list_));
}

TEST(ContactSheetTest, LettersAndThumbnails) {
  Image line{9, 20, 1, std::vector<uint8_t>(180, 255)};
  DrawText("T\xc3\xa9", 1, 1, &line);  // a character of two bytes is one '?'
  EXPECT_EQ(std::count(line.pixels.begin(), line.pixels.end(), 0), 11 + 9);
  const Image small = Thumbnail({432, 108, 3, std::vector<uint8_t>(size_t{432} * 108 * 3, 9)});
  EXPECT_EQ(small.height, 216);
  EXPECT_EQ(small.width, 54);
  EXPECT_EQ(small.pixels, std::vector<uint8_t>(size_t{216} * 54 * 3, 9));
  EXPECT_TRUE(Holds(MessageOf([] { ContactSheet({}); }), "it can have 1 to 400"));
}

TEST_F(ClassifyCommandTest, Errors) {
  ExpectError({}, "Need images: -images");
  ExpectError(List({"-labels", folder_.Put("two.txt", "a\nb\n")}),
              "has 2 lines with names, but the scores 'prob' have 3 classes");
  ExpectError(List({"-labels", folder_ / "absent.txt"}), "absent.txt");
  ExpectError(List({"-scores", "nothing"}), "the net has no blob 'nothing'");
  ExpectError(List({"-scores", "conv"}), "have 16 positions for each image");
  ExpectError(List({"-type", "int3"}), "int3");
  ExpectError(List({"-crop", "left"}), "classify: unknown -crop 'left'");
  ExpectError({"-images", folder_ / "images", "-root", "x"}, "is not a list");
  ExpectError({"-images", folder_ / "absent.txt"}, "absent.txt");
  std::filesystem::create_directory(folder_ / "empty");
  ExpectError({"-images", folder_ / "empty"}, "the folder has no files");
  list_ = folder_.Put("list.txt", "images/red.png 3\n");
  ExpectError(List(), "the label of images/red.png is 3, but the scores 'prob' have 3 classes");
  model_ =
      folder_.Put("data.prototxt",
                  "layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: "
                  "1 } } }");
  ExpectError(List(), "reads its data by itself");
}

// The classes of the dnn module of OpenCV 4.12, see tests/python/squeezenet_test.py.
TEST(ClassifySqueezeNetTest, ClassesAreThoseOfOpenCv) {
  const char* data = std::getenv("CAFFE_TEST_DATA");
  const std::string root = data ? data : "", net = root + "/squeezenet/";
  const std::string images = root + "/imagenet-sample";
  if (!data || !std::filesystem::exists(net) || !std::filesystem::exists(images)) {
    GTEST_SKIP() << "CAFFE_TEST_DATA names no folder with squeezenet/ and imagenet-sample/";
  }
  std::string weights;
  for (const auto& entry : std::filesystem::directory_iterator(net)) {
    if (entry.path().extension() == ".caffemodel") weights = entry.path().string();
  }
  const TemporaryFolder folder;
  const std::string all = ReadFile(images + "/val.txt");
  size_t end = 0;
  for (int i = 0; i < 12; ++i) end = all.find('\n', end) + 1;
  const std::string list = folder.Put("list.txt", all.substr(0, end));
  for (const std::string& device : Devices()) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status =
        CaffeMain({"classify", "-gpu",  device,        "-model",  net + "deploy.prototxt",
                   "-weights", weights, "-images",     list,      "-root",
                   images,     "-mean", "104,117,123", "-crop",   "centre",
                   "-top",     "1",     "--json",      "-labels", images + "/synset_words.txt"});
    const std::string out = testing::internal::GetCapturedStdout();
    const std::string err = testing::internal::GetCapturedStderr();
    EXPECT_EQ(0, status) << err;
    std::string classes;
    for (size_t at = 0; (at = out.find("\"class\": ", at)) != std::string::npos; ++at) {
      classes += out.substr(at + 9, out.find(',', at) - at - 9) + " ";
    }
    EXPECT_EQ(classes, "0 2 842 5 7 11 12 14 16 18 20 22 ") << device;
  }
  Runtime::Get().SetDefaultDevice(nullptr);
}

}  // namespace
}  // namespace caffe
