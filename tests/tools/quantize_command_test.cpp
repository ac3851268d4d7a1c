// caffe quantize: its files, its table, and its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/data/image.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "commands/commands.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr char kLayers[] = R"(
  layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
          convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'xavier' } } }
  layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
  layer { name: 'score' type: 'InnerProduct' bottom: 'conv' top: 'score'
          inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
)";

class QuantizeCommandTest : public testing::Test {
 protected:
  QuantizeCommandTest() {
    const std::string input =
        "name: 'tiny' layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 2 "
        "dim: 3 dim: 6 dim: 6 } } } ";
    const std::string prob = "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
    model_ = folder_.Put("net.prototxt", input + kLayers + prob);
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.seed = 5;
    NetParameter weights;
    Net(model_, options).ToProto(&weights);
    weights_ = folder_ / "net.caffemodel";
    WriteBinaryProto(weights_, weights);
    std::string list;
    for (int i = 0; i < 12; ++i) {
      Image image{9, 8, 3, {}};
      for (int k = 0; k < 9 * 8 * 3; ++k) {
        image.pixels.push_back(static_cast<uint8_t>((k * 37 + i * 91 + k * k * i) % 256));
      }
      const std::string name = std::to_string(i) + ".png";
      folder_.Put(name, EncodeImage(image, ImageFormat::kPng));
      list += name + " " + std::to_string(i % 4) + "\n";
    }
    list_ = folder_.Put("list.txt", list);
  }
  void TearDown() override { Runtime::Get().SetDefaultDevice(nullptr); }

  int Run(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"quantize", "-gpu",   "cpu",  "-model", model_,
                                       "-weights", weights_, "-out", Prefix()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CaffeMain(arguments);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  std::vector<std::string> Images(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags{"-images",     list_,   "-root",  folder_ / "", "-mean",
                                   "104,117,123", "-crop", "centre", "-scale",     "0.02"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::string Prefix() const { return folder_ / "result"; }
  void ExpectError(const std::vector<std::string>& more, const std::string& text) {
    EXPECT_EQ(1, Run(more));
    EXPECT_EQ("", out_);
    EXPECT_NE(std::string::npos, err_.find(text)) << err_;
    for (const char* end : {".caffemodel", ".prototxt", ".json", ".html"}) {
      EXPECT_FALSE(std::filesystem::exists(Prefix() + end)) << text;
    }
  }

  TemporaryFolder folder_;
  std::string model_, weights_, list_, out_, err_;
};

TEST_F(QuantizeCommandTest, WritesANetThatRuns) {
  for (const char* type : {"int8", "int16", "half", "bfloat16"}) {
    ASSERT_EQ(0, Run(Images({"-type", type}))) << err_;
    EXPECT_NE(err_.find("Quantizing " + model_ + " to " + type), std::string::npos) << err_;
    EXPECT_NE(err_.find("12 images"), std::string::npos) << err_;
    EXPECT_NE(out_.find("same class as float"), std::string::npos) << out_;
    EXPECT_NE(out_.find("conv "), std::string::npos) << out_;
    NetOptions options;
    options.device = Runtime::Get().cpu();
    Net net(Prefix() + ".prototxt", options);
    net.CopyTrainedLayersFrom(Prefix() + ".caffemodel");
    net.BlobByName("data")->SetData(std::vector<double>(2 * 3 * 36, 0.5));
    net.Forward();
    const std::vector<double> scores = net.BlobByName("prob")->DataAsDouble();
    EXPECT_NEAR(scores[0] + scores[1] + scores[2] + scores[3], 1, 0.02);
    EXPECT_TRUE(std::filesystem::exists(Prefix() + ".html"));
  }
}

TEST_F(QuantizeCommandTest, JsonIsThatOfTheFile) {
  ASSERT_EQ(0, Run(Images({"--json", "-method", "percentile", "-percentile", "99"}))) << err_;
  EXPECT_EQ(out_, ReadFile(Prefix() + ".json"));
  EXPECT_NE(out_.find("\"method\": \"percentile\""), std::string::npos);
}

TEST_F(QuantizeCommandTest, OptionsAgainstLossesAreReported) {
  ASSERT_EQ(0, Run(Images({"-rounding", "adaround", "-bias_correction", "-tune_ranges"}))) << err_;
  EXPECT_NE(out_.find("adaround +"), std::string::npos) << out_;
  EXPECT_NE(out_.find("biases corrected: 2 layers"), std::string::npos) << out_;
  ASSERT_EQ(0, Run(Images({"-rounding", "nearest"}))) << err_;
  EXPECT_EQ(out_.find("adaround"), std::string::npos) << out_;
}

TEST_F(QuantizeCommandTest, IterationsDivideTheImages) {
  ASSERT_EQ(0, Run(Images({"-iterations", "2"}))) << err_;
  EXPECT_NE(out_.find("4 items to calibrate, 8 held out"), std::string::npos) << out_;
  ASSERT_EQ(0, Run(Images({"-iterations", "2", "-held_out", "1"}))) << err_;
  EXPECT_NE(out_.find("4 items to calibrate, 2 held out"), std::string::npos) << out_;
}

TEST_F(QuantizeCommandTest, UnreadableImagesAreCounted) {
  std::filesystem::remove(folder_ / "3.png");
  folder_.Put("5.png", "text");
  ASSERT_EQ(0, Run(Images())) << err_;
  EXPECT_NE(err_.find("2 of 12 images could not be read"), std::string::npos) << err_;
  EXPECT_NE(out_.find("6 items to calibrate, 4 held out"), std::string::npos) << out_;
}

TEST_F(QuantizeCommandTest, AFolderOfImagesNeedsNoList) {
  ASSERT_EQ(0, Run({"-images", folder_ / "", "-mean", "104"})) << err_;
  EXPECT_TRUE(Holds(out_, "6 items to calibrate, 6 held out"));
  EXPECT_TRUE(Holds(out_, "no top-1: the data have no labels"));
}

TEST_F(QuantizeCommandTest, DataLayersNeedNoImages) {
  const std::string data =
      "name: 'tiny' layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' "
      "dummy_data_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } shape { dim: 2 } "
      "data_filler { type: 'gaussian' } data_filler { type: 'constant' value: 1 } } } ";
  model_ = folder_.Put("train_val.prototxt",
                       data + kLayers +
                           "layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' "
                           "bottom: 'label' top: 'accuracy' include { phase: TEST } }");
  ASSERT_EQ(0, Run({"-iterations", "3"})) << err_;
  EXPECT_NE(out_.find("6 items to calibrate, 6 held out"), std::string::npos) << out_;
  EXPECT_NE(out_.find("top-1: float "), std::string::npos) << out_;
  std::filesystem::remove(Prefix() + ".html");
  EXPECT_EQ(1, Run(Images()));
  EXPECT_NE(err_.find("use one of them"), std::string::npos) << err_;
  EXPECT_EQ(1, Run({"-mean", "104", "-rgb"}));
  EXPECT_NE(err_.find("without -images nothing uses -mean, -rgb"), std::string::npos) << err_;
}

TEST_F(QuantizeCommandTest, WeightsAreListsHdf5FilesAndCodes) {
  ASSERT_EQ(0, Run(Images())) << err_;
  const std::string expected = ReadFile(Prefix() + ".caffemodel");
  NetOptions options;
  options.device = Runtime::Get().cpu();
  Net net(model_, options);
  net.CopyTrainedLayersFrom(weights_);
  net.SaveHDF5(folder_ / "net.h5");
  NetParameter zeros;
  net.ToProto(&zeros);
  for (LayerParameter& layer : *zeros.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      for (float& value : *blob.mutable_data()) value = 0;
    }
  }
  WriteBinaryProto(folder_ / "zeros.caffemodel", zeros);
  const std::string whole = weights_;
  for (const std::string& weights :
       {(folder_ / "net.h5"), (folder_ / "zeros.caffemodel") + "," + whole}) {
    weights_ = weights;
    ASSERT_EQ(0, Run(Images())) << err_;
    EXPECT_EQ(expected, ReadFile(Prefix() + ".caffemodel")) << weights;
  }
  // Codes are read as the numbers that they stand for.
  weights_ = folder_.Put("codes.caffemodel", expected);
  ASSERT_EQ(0, Run(Images({"-type", "int16"}))) << err_;
  EXPECT_NE(out_.find("same class as float: 100.00 %"), std::string::npos) << out_;
}

TEST_F(QuantizeCommandTest, WhatCannotBeWrittenIsSaidFirst) {
  EXPECT_EQ(1, Run(Images({"-out", folder_ / "absent/result"})));
  EXPECT_NE(err_.find("absent/result"), std::string::npos) << err_;
  EXPECT_EQ(err_.find("Quantizing"), std::string::npos) << err_;
}

TEST_F(QuantizeCommandTest, LabelsOfAListAreChecked) {
  ASSERT_EQ(0, Run(Images())) << err_;
  EXPECT_TRUE(Holds(out_, ", of 6 labels: one is 17 percentage points, which is too coarse"));
  std::string list = ReadFile(list_);
  // The first line has a byte order mark, two images have no label.
  list_ = folder_.Put("some.txt",
                      "\xEF\xBB\xBF" + list.substr(0, list.find("10.png")) + "10.png\n11.png -1\n");
  ASSERT_EQ(0, Run(Images())) << err_;
  EXPECT_TRUE(Holds(err_, "1 of 12 lines have no label"));
  EXPECT_FALSE(Holds(err_, "leaving out an image"));
  EXPECT_TRUE(Holds(out_, "top-1: float "));
  EXPECT_TRUE(Holds(out_, ", of 5 labels"));
  list_ = folder_.Put("none.txt", "0.png\n1.png\n2.png\n3.png\n");
  ASSERT_EQ(0, Run(Images())) << err_;
  EXPECT_TRUE(Holds(out_, "no top-1: the data have no labels"));
  std::filesystem::remove_all(folder_ / "result.html");
  list_ = folder_.Put("wrong.txt", "0.png 0\n1.png 4\n2.png 0\n3.png 0\n");
  EXPECT_EQ(1, Run(Images()));
  EXPECT_TRUE(Holds(err_, "batch 1: label 4 of item 0 is not one of 4 classes (0 to 3)")) << err_;
}

TEST_F(QuantizeCommandTest, ScoresAreNamedAndAMaxDropNeedsEnoughImages) {
  ASSERT_EQ(0, Run(Images({"-scores", "score", "-max_drop", "0.3", "--json"}))) << err_;
  EXPECT_TRUE(Holds(out_, "\"scores\": \"score\""));
  EXPECT_TRUE(Holds(err_, "max_drop 0.3 cannot be judged: one of 6 labels is 16.6667"));
  EXPECT_TRUE(Holds(err_, "compare with at least 334"));
}

TEST_F(QuantizeCommandTest, ResultsReplaceNoInput) {
  const std::string before = ReadFile(weights_);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& input) {
    EXPECT_EQ(1, Run(Images(more)));
    EXPECT_TRUE(Holds(err_, "would replace the input " + input)) << more.back();
    EXPECT_FALSE(Holds(err_, "Quantizing")) << err_;
  };
  refused({"-out", folder_ / "./net"}, weights_);
  const std::string first = weights_, list = list_;
  weights_ += "," + (folder_ / "other.caffemodel");
  refused({"-out", folder_ / "net"}, first);
  weights_ = first;
  std::filesystem::create_symlink(model_, folder_ / "result.html");
  refused({}, model_);
  std::filesystem::remove(folder_ / "result.html");
  list_ = folder_.Put("result.json", ReadFile(list_));
  refused({}, list_);
  EXPECT_EQ(before, ReadFile(weights_));
  for (const char* command : {"transform", "moe-init"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(1, CaffeMain({command, "-gpu", "cpu", "-model", model_, "-weights", weights_, "-out",
                            folder_ / "net"}));
    EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "would replace the input"));
    EXPECT_EQ(before, ReadFile(weights_));
  }
}

TEST_F(QuantizeCommandTest, Errors) {
  ExpectError(Images({"-method", "best"}), "unknown calibration method 'best'");
  ExpectError(Images({"-type", "int4"}), "unknown -type 'int4'");
  ExpectError(Images({"-rounding", "up"}), "unknown -rounding 'up'");
  ExpectError(Images({"-crop", "left"}), "unknown -crop 'left'");
  ExpectError(Images({"-rgb", "-bgr"}), "either -bgr or -rgb");
  ExpectError(Images({"-mean", "1,x"}), "'x', which is not a number");
  ExpectError(Images({"-scale", "0"}), "-scale is 0");
  ExpectError(Images({"-max_drop", "-1"}), "'-1' is not a number of at least 0");
  ExpectError(Images({"-iterations", "6"}), "12 images, which are 6 batches");
  ExpectError(Images({"-scores", "nothing"}), "scores: the net has no blob 'nothing'");
  ExpectError({}, "give -images IMAGES");
  ExpectError({"-images", list_, "-root", folder_ / ""}, "-mean is missing");
  ExpectError({"-images", folder_ / "absent.txt", "-mean", "0"}, "absent.txt");
  NetParameter other;
  other.add_layer()->set_name("other");
  WriteBinaryProto(weights_, other);
  ExpectError(Images(), "the weights have no parameters for layer 'conv'");
  std::string list;
  for (int i = 0; i < 4; ++i) list += "nothing" + std::to_string(i) + ".png\n";
  list_ = folder_.Put("list.txt", list);
  EXPECT_EQ(1, Run(Images()));
}

TEST_F(QuantizeCommandTest, MethodDynamicNeedsNoImages) {
  ExpectError({"-method", "dynamic", "-type", "int16"}, "method dynamic is for int8");
  ExpectError({"-method", "dynamic", "-tune_ranges"}, "need another method");
  EXPECT_EQ(0, Run({"-method", "dynamic"})) << err_;
  EXPECT_NE(std::string::npos, out_.find("no data were given to compare with")) << out_;
  EXPECT_NE(std::string::npos, out_.find("a forward takes ")) << out_;
  NetOptions options;
  options.device = Runtime::Get().cpu();
  Net net(Prefix() + ".prototxt", options);
  net.CopyTrainedLayersFrom(Prefix() + ".caffemodel");
  net.Forward();
  EXPECT_EQ(net.LayerByName("conv")->types(), (TypeTriple{kQuant8, kFloat, kFloat}));
  // With images it compares all of them.
  EXPECT_EQ(0, Run(Images({"-method", "dynamic"}))) << err_;
  EXPECT_NE(std::string::npos, out_.find("0 items to calibrate, 12 held out")) << out_;
  EXPECT_EQ(0, Run(Images({"-method", "dynamic", "-held_out", "2"}))) << err_;
  EXPECT_NE(std::string::npos, out_.find("0 items to calibrate, 4 held out")) << out_;
}

TEST_F(QuantizeCommandTest, ScalesMayBePowersOfTwo) {
  ExpectError(Images({"-scales", "two"}), "unknown -scales 'two' (known: any power_of_two)");
  ExpectError(Images({"-scales", "power_of_two", "-type", "half"}), "are for int8 and int16");
  EXPECT_EQ(0, Run(Images({"-scales", "power_of_two"}))) << err_;
  EXPECT_NE(std::string::npos, out_.find("are powers of two")) << out_;
}

}  // namespace
}  // namespace caffe
