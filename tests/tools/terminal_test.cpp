// Names that a terminal would obey, and names that are not UTF-8, in all that commands print.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/log_settings.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "commands/commands.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

constexpr char kOdd[] = "\x1b]0;title\x07\xc2\x9b\xff\"<b>";

bool HasControls(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 32 && c != '\n' && c != '\t') || c == 0x7f) return true;
    if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      return true;
    }
  }
  return false;
}

class TerminalTest : public testing::Test {
 protected:
  // A small net whose names are all odd, in a file whose name is odd.
  void SetUp() override {
    log::SetLevel(log::Level::kInfo);
    NetParameter net;
    const std::string odd = kOdd;
    net.set_name("net" + odd);
    const auto layer = [&](const std::string& type, const std::string& bottom,
                           const std::string& top) {
      LayerParameter* added = net.add_layer();
      added->set_name(type + odd);
      added->set_type(type);
      if (!bottom.empty()) added->add_bottom(bottom + odd);
      added->add_top(top + odd);
      return added;
    };
    BlobShape* shape = layer("Input", "", "x")->mutable_input_param()->add_shape();
    for (int dim : {2, 3, 4, 4}) shape->add_dim(dim);
    ConvolutionParameter* conv = layer("Convolution", "x", "c")->mutable_convolution_param();
    conv->set_num_output(2);
    conv->add_kernel_size(3);
    conv->mutable_weight_filler()->set_type("xavier");
    layer("ReLU", "c", "r");
    layer("Softmax", "r", "s");
    WriteTextProto(model_, net);
    NetOptions options;
    options.phase = TEST;
    NetParameter weights;
    Net(net, options).ToProto(&weights);
    WriteBinaryProto(weights_, weights);
  }
  void TearDown() override { log::SetLevel(before_); }

  // The status; all that was printed is checked.
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-model", model_, "-weights", weights_, "-gpu", "cpu"});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CaffeMain(arguments);
    out_ = testing::internal::GetCapturedStdout();
    const std::string errors = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(HasControls(out_)) << out_;
    EXPECT_FALSE(HasControls(errors)) << errors;
    if (status != 0)
      ADD_FAILURE() << errors.substr(errors.size() - std::min<size_t>(errors.size(), 500));
    return status;
  }
  void ExpectJson(const std::string& text) {
    google::protobuf::Struct json;
    const auto status = google::protobuf::util::JsonStringToMessage(text, &json);
    EXPECT_TRUE(status.ok()) << status << "\n" << text;
    EXPECT_NE(text.find("title"), text.npos);
  }

  TemporaryFolder folder_;
  std::string model_ = folder_ / ("m" + std::string(kOdd) + ".prototxt");
  std::string weights_ = folder_ / ("w" + std::string(kOdd) + ".caffemodel");
  std::string out_;
  log::Level before_ = log::level();
};

TEST_F(TerminalTest, Time) {
  Run({"time", "-phase", "TEST", "-iterations", "1", "-plan"});
  Run({"time", "-phase", "TEST", "-iterations", "1", "-json"});
  ExpectJson(out_);
}

TEST_F(TerminalTest, TestAndItsResults) {
  Run({"test", "-iterations", "1"});
  log::SetLevel(log::Level::kOff);  // then results are lines on standard output
  Run({"test", "-iterations", "1"});
  EXPECT_NE(out_.find("title"), out_.npos);
  Run({"test", "-iterations", "1", "-json"});
  ExpectJson(out_);
}

TEST_F(TerminalTest, Transform) {
  const std::string prefix = folder_ / ("t" + std::string(kOdd));
  Run({"transform", "-passes", "all", "-out", prefix});
  EXPECT_TRUE(std::filesystem::exists(prefix + ".caffemodel"));
  Run({"transform", "-passes", "all", "-json", "-out", prefix});
  ExpectJson(out_);
}

TEST_F(TerminalTest, Errors) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(1, CaffeMain({"time", "-model", folder_ / "no\x1b[31m"}));
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(HasControls(error)) << error;
  EXPECT_NE(error.find("no\\x1b[31m"), error.npos) << error;
}

}  // namespace
}  // namespace caffe
