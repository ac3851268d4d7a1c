// caffe moe-init: the experts start with the weights of a dense net.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net.hpp"
#include "commands/commands.hpp"
#include "io/temporary_folder.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Product(const std::string& name, const std::string& bottom, int outputs) {
  return Concat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name, "' inner_product_param { num_output: ", outputs,
                " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' } } } ");
}

std::string Input(const std::string& name, int extent) {
  return Concat("layer { name: '", name, "' type: 'Input' top: '", name,
                "' input_param { shape { dim: 3 dim: ", extent, " } } } ");
}

std::string Relu(const std::string& blob) {
  return "layer { name: 'relu' type: 'ReLU' bottom: '" + blob + "' top: '" + blob + "' } ";
}

std::string Dense() {
  return "name: 'dense' " + Input("data", 5) + Product("first", "data", 6) +
         Product("hidden", "first", 8) + Relu("hidden") + Product("out", "hidden", 4);
}

// `prefix` of the names in each expert net, with the number in place of #; `hidden`: outputs.
std::string Moe(const std::string& prefix, int hidden) {
  std::string text = "name: 'moe' " + Input("data", 5) + Product("first", "data", 6) +
                     "layer { name: 'moe' type: 'MOE' bottom: 'first' top: 'moe' moe_param { "
                     "select_experts: 2 gating_net { " +
                     Input("g", 6) + Product("score", "g", 3) +
                     "layer { name: 'gate' type: 'Softmax' bottom: 'score' top: 'gate' } } ";
  for (int e = 0; e < 3; ++e) {
    std::string p = prefix;
    if (const size_t at = p.find('#'); at != std::string::npos) p.replace(at, 1, std::to_string(e));
    text += "expert_net { " + Input("x", 6) + Product(p + "hidden", "x", hidden) +
            Relu(p + "hidden") + Product(p + "out", p + "hidden", 4) + " } ";
  }
  return text + "} } ";
}

class MoeInitCommandTest : public testing::Test {
 protected:
  MoeInitCommandTest() {
    NetParameter weights;
    dense_ = Load(folder_.Put("dense.prototxt", Dense()));
    dense_->ToProto(&weights);
    WriteBinaryProto(folder_ / "dense.caffemodel", weights);
  }

  static std::unique_ptr<Net> Load(const std::string& path) {
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.seed = 5;
    auto net = std::make_unique<Net>(path, options);
    net->input_blobs()[0]->SetData(TestNumbers(15, 3));
    return net;
  }

  std::string Run(const std::string& moe, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"moe-init",
                                       "-model",
                                       folder_.Put("moe.prototxt", moe),
                                       "-weights",
                                       folder_ / "dense.caffemodel",
                                       "-out",
                                       folder_ / "moe"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    status_ = CaffeMain(arguments);
    const std::string out = testing::internal::GetCapturedStdout();
    return out + testing::internal::GetCapturedStderr();
  }

  std::unique_ptr<Net> Result() {
    auto net = Load(folder_ / "moe.prototxt");
    net->CopyTrainedLayersFrom(folder_ / "moe.caffemodel");
    return net;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Net> dense_;
  int status_ = -1;
};

TEST_F(MoeInitCommandTest, WithoutNoiseTheMixtureComputesTheDenseNet) {
  for (const char* prefix : {"", "ex_#_"}) {
    const std::string out = Run(Moe(prefix, 8), {"-noise", "0"});
    ASSERT_EQ(status_, 0) << out;
    EXPECT_TRUE(Holds(out, "moe/hidden of 3 experts: the weights of hidden"));
    const auto moe = Result();
    dense_->Forward();
    moe->Forward();
    ExpectNear(moe->BlobByName("moe")->DataAsDouble(), dense_->BlobByName("out")->DataAsDouble(),
               1e-5, "out");
  }
}

TEST_F(MoeInitCommandTest, NoiseIsAShareOfTheDeviation) {
  Run(Moe("", 8), {"-noise", "0.125", "-seed", "3"});
  ASSERT_EQ(status_, 0);
  const auto moe = Result();
  const std::vector<double> w = dense_->LayerByName("hidden")->blobs()[0]->DataAsDouble();
  const auto& blobs = moe->LayerByName("moe")->blobs();
  EXPECT_NE(blobs[2]->DataAsDouble(), blobs[6]->DataAsDouble()) << "experts differ";
  double squares = 0, changes = 0;
  for (int e = 0; e < 3; ++e) {
    const std::vector<double> of_expert = blobs[2 + 4 * e]->DataAsDouble();
    for (size_t i = 0; i < w.size(); ++i) {
      squares += w[i] * w[i];
      changes += (of_expert[i] - w[i]) * (of_expert[i] - w[i]);
    }
  }
  EXPECT_NEAR(std::sqrt(changes / squares), 0.125, 0.03);
}

TEST_F(MoeInitCommandTest, SaysWhatHasNoCounterpart) {
  const std::string out = Run(Moe("", 7), {});
  EXPECT_NE(status_, 0) << "no layer of the experts fits";
  EXPECT_TRUE(Holds(out, "no layer of the experts has the name and the shape"));
  const std::string model = Moe("", 8);
  std::string renamed = model;
  for (size_t at; (at = renamed.find("'hidden'")) != std::string::npos;) {
    renamed.replace(at, 8, "'other'");
  }
  const std::string some = Run(renamed, {});
  EXPECT_EQ(status_, 0) << some;
  EXPECT_TRUE(
      Holds(some, "moe/other of 3 experts: its filler, since the dense net has no such layer"));
  EXPECT_TRUE(Holds(some, "moe/out of 3 experts: the weights of out"));
}

TEST_F(MoeInitCommandTest, Errors) {
  EXPECT_TRUE(Holds(Run(Dense(), {}), "has no MOE layer"));
  EXPECT_NE(status_, 0);
  EXPECT_TRUE(Holds(Run(Moe("", 8), {"-noise", "-1"}), "-noise -1 is negative"));
}

TEST_F(MoeInitCommandTest, StrictUsesAllWeights) {
  Run(Moe("", 8), {"-strict"});
  EXPECT_EQ(status_, 0);
  std::string renamed = Moe("", 8);
  for (size_t at; (at = renamed.find("'hidden'")) != std::string::npos;) {
    renamed.replace(at, 8, "'other'");
  }
  EXPECT_TRUE(Holds(Run(renamed, {"-strict"}), "moe/other would keep its filler"));
  EXPECT_EQ(status_, 1);
  renamed = Moe("", 8);
  renamed.replace(renamed.find("'first'"), 7, "'third'");
  EXPECT_TRUE(Holds(Run(renamed, {"-strict"}), "no layer takes the parameters of 'first'"));
  EXPECT_TRUE(Holds(Run(renamed, {}), "the dense net has no parameters for layer 'third'"));
}

}  // namespace
}  // namespace caffe
