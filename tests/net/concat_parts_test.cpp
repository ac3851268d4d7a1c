// Layers that write their tops into the top of a Concat, which then copies nothing.
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/step_info.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;
using Copies = std::map<std::string, int>;

// The outputs have 16 channels, 8 x 6 positions: all parts are aligned.
std::string FireText(int batch) {
  return InputText("data", {batch, 3, 8, 6}) + PaddedConvText("squeeze", "data", 4) +
         ReluText("relu_squeeze", "squeeze") + PaddedConvText("one", "squeeze", 8) +
         ReluText("relu_one", "one") + PaddedConvText("three", "squeeze", 8, 3) +
         ReluText("relu_three", "three") + LayerText("Concat", "fire", {"one", "three"}, "fire") +
         PaddedConvText("last", "fire", 5, 3);
}

class ConcatPartsTest : public testing::TestWithParam<DeviceType> {
 protected:
  // These arrays are in NCHW; cuDNN and matrix units prefer NHWC.
  void SetUp() override {
    if (GetParam().device->info().matrix) setenv("CAFFE_LIBRARY", "conv=generated", 1);
  }
  void TearDown() override { unsetenv("CAFFE_LIBRARY"); }
  static std::unique_ptr<Net> Make(const std::string& text, int phase = 1) {
    const auto [device, type] = GetParam();
    auto net = MakeNet(TypeText(type) + text, device, phase);
    FillInputs(net.get());
    return net;
  }
  // Every blob has memory of its own.
  static std::unique_ptr<Net> MakeApart(const std::string& text) {
    return Make("reduced_memory_inference: false " + text);
  }
  // The copies of the layers that join blobs.
  static Copies CopiesOf(Net* net) {
    Copies copies;
    for (const StepInfo& step : net->Steps()) {
      if (step.layer_types[0] != "Concat") continue;
      copies[step.layers[0]] = step.copies;
      EXPECT_EQ(step.library == "producers", step.copies == 0) << step.layers[0];
    }
    return copies;
  }
  static int64_t LaunchesOfAForward(Net* net) {
    net->Forward();
    net->Forward();
    GetParam().device->ResetCounters();
    net->Forward();
    const DeviceCounters counters = GetParam().device->counters();
    EXPECT_EQ(counters.builds, 0);
    EXPECT_EQ(counters.allocations, 0);
    return counters.launches;
  }
  static void ExpectSameBlobs(const Net& net, const Net& expected) {
    for (const std::string& name : net.blob_names()) {
      EXPECT_EQ(Values(net, name), Values(expected, name)) << name;
    }
  }
  // Outputs alone first: reading other blobs computes them.
  static void ExpectSame(Net* net, Net* expected) {
    for (int pass = 0; pass < 3; ++pass) {
      for (Net* each : {net, expected}) {
        FillInputs(each, 5 + pass);
        each->Forward();
      }
      for (size_t i = 0; i < net->output_blobs().size(); ++i) {
        EXPECT_EQ(net->output_blobs()[i]->DataAsDouble(),
                  expected->output_blobs()[i]->DataAsDouble());
      }
      if (pass == 1) ExpectSameBlobs(*net, *expected);
    }
  }
};

TEST_P(ConcatPartsTest, AFireModuleCopiesNothing) {
  // Kernels of PoCL start up slowly; libraries that prefer kNHWC have tests of their own.
  const auto net = Make(FireText(1)), apart = MakeApart(FireText(1));
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"fire", 0}}));
  EXPECT_EQ(CopiesOf(apart.get()), Copies({{"fire", 2}}));
  ExpectSame(net.get(), apart.get());
  if (!GetParam().device->can_capture()) {
    EXPECT_EQ(LaunchesOfAForward(apart.get()) - LaunchesOfAForward(net.get()), 2);
  }
}

TEST_P(ConcatPartsTest, OtherShapes) {
  const auto net = Make(FireText(2)), apart = MakeApart(FireText(2));
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"fire", 2}}));
  ExpectSame(net.get(), apart.get());
  const auto shrunk = Make(FireText(1)), shrunk_apart = MakeApart(FireText(1));
  for (const int batch : {3, 1}) {
    for (Net* each : {shrunk.get(), shrunk_apart.get()}) {
      each->input_blobs()[0]->Reshape({batch, 3, 8, 6});
    }
    ExpectSame(shrunk.get(), shrunk_apart.get());
  }
}

TEST_P(ConcatPartsTest, AnyAxisWithoutAnOuterOne) {
  const std::string parts = InputText("data", {1, 1, 8, 6}) + PaddedConvText("one", "data", 1) +
                            PaddedConvText("two", "data", 1, 3);
  for (const auto& [axis, copies] : {std::pair{0, 0}, {1, 0}, {2, 0}, {3, 2}}) {
    const std::string text = parts +
                             LayerText("Concat", "joined", {"one", "two"}, "joined",
                                       Concat("concat_param { axis: ", axis, " }")) +
                             LayerText("AbsVal", "last", {"joined"}, "last");
    const auto net = Make(text), apart = MakeApart(text);
    EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", copies}})) << axis;
    ExpectSame(net.get(), apart.get());
  }
}

// Every layer that writes a top can write a part: a sum, a softmax, and a concat.
TEST_P(ConcatPartsTest, PartsOfParts) {
  const std::string text =
      InputText("data", {1, 4, 4, 4}) + PaddedConvText("a", "data", 8) +
      LayerText("TanH", "b", {"a"}, "b") + LayerText("Concat", "ab", {"a", "b"}, "ab") +
      LayerText("Softmax", "c", {"ab"}, "c") + LayerText("Concat", "abc", {"ab", "c"}, "abc") +
      LayerText("Eltwise", "d", {"abc", "abc"}, "d") +
      LayerText("Concat", "abcd", {"abc", "d"}, "abcd") + LayerText("AbsVal", "e", {"abcd"}, "e");
  const auto net = Make(text), apart = MakeApart(text);
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"ab", 0}, {"abc", 0}, {"abcd", 0}}));
  ExpectSame(net.get(), apart.get());
}

TEST_P(ConcatPartsTest, WhatIsCopied) {
  const std::string begin = InputText("data", {1, 8, 4, 4}) + PaddedConvText("a", "data", 8) +
                            PaddedConvText("b", "data", 8, 3);
  const std::string end = LayerText("AbsVal", "last", {"joined"}, "last");
  const std::pair<std::string, int> cases[] = {
      // An input.
      {begin + LayerText("Concat", "joined", {"data", "b"}, "joined") + end, 1},
      // A blob twice, and a blob in two layers.
      {begin + LayerText("Concat", "joined", {"a", "a"}, "joined") + end, 1},
      // Parts that do not begin at multiples of 16 bytes.
      {InputText("data", {1, 2, 3, 1}) + PaddedConvText("a", "data", 1) +
           PaddedConvText("b", "data", 3) + LayerText("Concat", "joined", {"a", "b"}, "joined") +
           end,
       1},
      // An output.
      {begin + LayerText("Concat", "joined", {"a", "b"}, "joined"), 2},
      // In place before the Concat, and read by others.
      {begin + LayerText("Exp", "exp", {"a"}, "a") + LayerText("AbsVal", "abs", {"a"}, "abs") +
           LayerText("Concat", "joined", {"a", "b"}, "joined") + end,
       0},
      // Changed in place behind it.
      {begin + LayerText("Concat", "joined", {"a", "b"}, "joined") +
           LayerText("Exp", "exp", {"joined"}, "joined") + end,
       0},
      {begin + LayerText("Concat", "joined", {"a", "b"}, "joined") +
           LayerText("Exp", "exp", {"joined"}, "joined") + end +
           LayerText("Sigmoid", "late", {"a"}, "late"),
       1},
  };
  for (const auto& [text, copies] : cases) {
    const auto net = Make(text), apart = MakeApart(text);
    EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", copies}})) << text;
    ExpectSame(net.get(), apart.get());
  }
}

TEST_P(ConcatPartsTest, ABlobInTwoJoinsIsAPartOfOne) {
  const std::string text = InputText("data", {1, 8, 4, 4}) + PaddedConvText("a", "data", 8) +
                           PaddedConvText("b", "data", 8, 3) +
                           LayerText("Concat", "ab", {"a", "b"}, "ab") +
                           LayerText("Concat", "ba", {"b", "a"}, "ba") +
                           LayerText("Eltwise", "sum", {"ab", "ba"}, "sum");
  const auto net = Make(text), apart = MakeApart(text);
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"ab", 0}, {"ba", 2}}));
  ExpectSame(net.get(), apart.get());
}

TEST_P(ConcatPartsTest, KeptBlobsAndViews) {
  const auto apart = MakeApart(FireText(1)), kept = Make(FireText(1)), viewed = Make(FireText(1));
  kept->Keep({"one"});
  EXPECT_EQ(CopiesOf(kept.get()), Copies({{"fire", 1}}));
  ExpectSame(kept.get(), apart.get());
  for (const char* blob : {"three", "fire"}) {
    viewed->Forward();
    const auto view = viewed->BlobByName(blob)->data_memory()->View();
    ExpectSame(viewed.get(), apart.get());
  }
}

// Parts of a forward before and after whole ones, and writes to a part.
TEST_P(ConcatPartsTest, PartsOfAForward) {
  const auto net = Make(FireText(1)), apart = MakeApart(FireText(1));
  const int layers = static_cast<int>(net->layers().size());
  for (int start = 0; start < layers; ++start) {
    for (Net* each : {net.get(), apart.get()}) {
      each->Forward();
      each->BlobByName("one")->SetData(TestNumbers(each->BlobByName("one")->count(), 11));
      each->Forward(start, layers - 1);
    }
    ExpectSameBlobs(*net, *apart);
    for (Net* each : {net.get(), apart.get()}) {
      each->Forward();
      each->Forward(0, start);
    }
    EXPECT_EQ(Values(*net, "last"), Values(*apart, "last")) << start;
  }
}

TEST_P(ConcatPartsTest, NotInPhaseTrain) {
  const auto net = Make(FireText(1), 0);
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"fire", 2}}));
}

class ChannelsLastPartsTest : public ConcatPartsTest {
 protected:
  void SetUp() override { AddLibrary(ChannelsLastLibrary("channels_last")); }
  void TearDown() override { RemoveLibrary("channels_last"); }
};

// A convolution, a pooling, a convolution that another layer reads, and one with a sum.
std::string BranchesText(int batch) {
  return InputText("data", {batch, 3, 8, 6}) + PaddedConvText("stem", "data", 8) +
         ReluText("relu_stem", "stem") + PaddedConvText("one", "stem", 8) +
         LayerText("ELU", "elu", {"one"}, "one") +
         LayerText("Pooling", "max", {"stem"}, "max",
                   "pooling_param { kernel_size: 3 stride: 1 pad: 1 }") +
         LayerText("Pooling", "mean", {"stem"}, "mean",
                   "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }") +
         PaddedConvText("read", "stem", 8) + PaddedConvText("added", "stem", 8) +
         LayerText("Eltwise", "sum", {"added", "stem"}, "sum") +
         LayerText("Concat", "joined", {"one", "max", "mean", "read", "sum"}, "joined") +
         PaddedConvText("next", "joined", 8, 3) + PaddedConvText("other", "read", 8) +
         LayerText("Eltwise", "last", {"next", "other"}, "last");
}

TEST_P(ChannelsLastPartsTest, StepsWriteTheirChannels) {
  for (const int batch : {1, 3}) {
    const auto net = Make(BranchesText(batch)), apart = MakeApart(BranchesText(batch));
    EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", 2}}));
    EXPECT_EQ(CopiesOf(apart.get()), Copies({{"joined", 5}}));
    ExpectSame(net.get(), apart.get());
  }
}

TEST_P(ChannelsLastPartsTest, ReadBlobsAreTheSame) {
  const auto net = Make(BranchesText(2)), apart = MakeApart(BranchesText(2));
  for (const char* blob : {"max", "one", "joined"}) {
    for (int pass = 0; pass < 4; ++pass) {
      for (Net* each : {net.get(), apart.get()}) each->Forward();
      EXPECT_EQ(Values(*net, blob), Values(*apart, blob)) << blob << " " << pass;
      EXPECT_EQ(Values(*net, "last"), Values(*apart, "last")) << blob << " " << pass;
    }
  }
  // A blob that is read after every forward is stored.
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", 4}}));
}

TEST_P(ChannelsLastPartsTest, OtherShapesAndKeptBlobs) {
  const auto net = Make(BranchesText(1)), apart = MakeApart(BranchesText(1));
  for (const int batch : {3, 2}) {
    for (Net* each : {net.get(), apart.get()}) {
      each->input_blobs()[0]->Reshape({batch, 3, 8, 6});
    }
    ExpectSame(net.get(), apart.get());
  }
  net->Keep({"one"});
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", 3}}));
  ExpectSame(net.get(), apart.get());
}

TEST_P(ChannelsLastPartsTest, WarmForwardsOnlyCompute) {
  const auto net = Make(BranchesText(2));
  LaunchesOfAForward(net.get());
}

// The numbers of channels of a bottom that nothing converts may change.
TEST_P(ChannelsLastPartsTest, TheWholeArrayMayHaveOtherChannels) {
  const auto pool = [](const char* name, const char* bottom) {
    return LayerText("Pooling", name, {bottom}, name,
                     "pooling_param { kernel_size: 3 stride: 1 pad: 1 }");
  };
  const std::string text = InputText("data", {2, 8, 6, 5}) + InputText("more", {2, 8, 6, 5}) +
                           PaddedConvText("one", "data", 8) + pool("pool", "one") +
                           pool("pool_more", "more") +
                           LayerText("Concat", "joined", {"pool", "pool_more"}, "joined") +
                           LayerText("AbsVal", "last", {"joined"}, "last");
  const auto net = Make(text), apart = MakeApart(text);
  ExpectSame(net.get(), apart.get());
  EXPECT_EQ(CopiesOf(net.get()), Copies({{"joined", 1}}));
  for (const int channels : {16, 8}) {
    for (Net* each : {net.get(), apart.get()})
      each->BlobByName("more")->Reshape({2, channels, 6, 5});
    ExpectSame(net.get(), apart.get());
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConcatPartsTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });
INSTANTIATE_TEST_SUITE_P(All, ChannelsLastPartsTest,
                         testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

// Codes of one range; those of several are in code_fusion_test.cpp.
TEST(ConcatPartsOfCodesTest, OfOneRange) {
  const auto net = MakeNet("data_type: CAFFE_INT16_QUANTIZED " + FireText(1), nullptr);
  net->UsePlaceholderRanges();
  for (const StepInfo& step : net->Steps()) {
    EXPECT_EQ(step.copies, 0) << step.name();
    EXPECT_EQ(step.library == "producers", step.layer_types[0] == "Concat") << step.name();
  }
}

}  // namespace
}  // namespace caffe
