// Nets with branches, replayed in orders that the uses of memory allow: the same bits as without
// graphs. CUDA replays them in order.
#include "caffe/core/error.hpp"
#include "caffe/device/graph_choice.hpp"
#include "caffe/io/proto_io.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/graphs_off.hpp"
#include "support/recording.hpp"

namespace caffe {
namespace {

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     int kernel = 1) {
  return PaddedConvText(name, bottom, outputs, kernel) +
         LayerText("ReLU", "relu_" + name, {name}, name);
}

std::string ChainText() {
  return InputText("data", {2, 3, 6, 5}) + ConvText("one", "data", 4, 3) +
         ConvText("two", "one", 5, 3) + ConvText("three", "two", 2);
}

// Two modules of four branches, as in GoogLeNet, and a sum.
std::string ModulesText(int batch) {
  std::string text = InputText("data", {batch, 3, 9, 6}) + ConvText("stem", "data", 8, 3);
  std::string bottom = "stem";
  for (const std::string module : {"a", "b"}) {
    text += ConvText(module + "_one", bottom, 4) + ConvText(module + "_reduce3", bottom, 4) +
            ConvText(module + "_three", module + "_reduce3", 8, 3) +
            ConvText(module + "_reduce5", bottom, 2) +
            ConvText(module + "_five", module + "_reduce5", 4, 5) +
            LayerText("Pooling", module + "_pool", {bottom}, module + "_pool",
                      "pooling_param { kernel_size: 3 stride: 1 pad: 1 }") +
            ConvText(module + "_project", module + "_pool", 4) +
            LayerText("Concat", module,
                      {module + "_one", module + "_three", module + "_five", module + "_project"},
                      module);
    bottom = module;
  }
  return text + LayerText("Eltwise", "sum", {"a", "b"}, "sum") +
         LayerText("InnerProduct", "ip", {"sum"}, "ip",
                   "inner_product_param { num_output: 5 weight_filler { type: 'xavier' } }");
}

class GraphBranchesTest : public testing::TestWithParam<std::tuple<RecordedOn, DataType>> {
 protected:
  Device* device() { return recording_.device(); }
  std::unique_ptr<Net> Make(const std::string& text) {
    return MakeNet(TypeText(std::get<1>(GetParam())) + text, device());
  }
  // Both graphs are tried in so many passes, and one stays.
  static constexpr int kPasses = 2 * GraphChoice::kTrials + 8;
  void ExpectClose(const std::vector<double>& actual, const std::vector<double>& expected) {
    if (device()->info().is_cpu_type) {
      ASSERT_EQ(actual, expected);
      return;
    }
    // Each net measures which library computes a layer.
    ASSERT_EQ(actual.size(), expected.size());
    const double tolerance = std::get<1>(GetParam()) == kFloat ? 1e-4 : 5e-2;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])));
    }
  }
  // `graphs`: records of the net; of a device of the tests.
  void ExpectSame(const std::string& text, int graphs, int passes = kPasses) {
    const auto net = Make(text), plain = Make(text);
    const auto outputs = [](Net* one, uint64_t seed) {
      FillInputs(one, seed);
      one->Forward();
      return one->output_blobs()[0]->DataAsDouble();
    };
    {
      const GraphsOff off;
      outputs(plain.get(), 1);
    }
    const int before = recording_.keeping() ? recording_.keeping()->recorded : 0;
    for (int pass = 0; pass < passes; ++pass) {
      const std::vector<double> expected = outputs(plain.get(), 3 + pass);
      const std::vector<double> actual = outputs(net.get(), 3 + pass);
      ASSERT_NO_FATAL_FAILURE(ExpectClose(actual, expected)) << "pass " << pass;
    }
    if (recording_.keeping()) {
      const int recorded = recording_.keeping()->recorded - before;
      // Convolutions of half kinds share a workspace, which may leave no branches.
      EXPECT_LE(recorded, graphs);
      if (std::get<1>(GetParam()) == kFloat) {
        EXPECT_EQ(recorded, graphs);
      }
    }
    device()->ResetCounters();
    FillInputs(net.get(), 1);
    net->Forward();
    EXPECT_EQ(device()->counters().graph_launches, 1);
    EXPECT_EQ(device()->counters().launches, 1);
  }

 private:
  Recording recording_{std::get<0>(GetParam())};
};

TEST_P(GraphBranchesTest, ModulesOfBranches) {
  for (const int batch : {1, 2}) ExpectSame(ModulesText(batch), 2);
}

// The branches write columns of one array.
TEST_P(GraphBranchesTest, PartsOfArraysInNhwc) {
  AddLibrary(ChannelsLastLibrary("branches_channels_last"));
  ExpectSame(ModulesText(2), 2);
  RemoveLibrary("branches_channels_last");
}

TEST_P(GraphBranchesTest, WithoutTheArena) {
  ExpectSame("reduced_memory_inference: false " + ModulesText(1), 2);
}

// Fire modules, with the shapes of the published net.
TEST_P(GraphBranchesTest, SqueezeNet) {
  if (std::get<1>(GetParam()) != kFloat) GTEST_SKIP() << "PoCL takes long for half";
  NetParameter model = ReadNetParameter(CAFFE_SOURCE_DIR "/models/squeezenet/deploy.prototxt");
  model.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  ExpectSame(model.DebugString(), 2, 6);
}

TEST_P(GraphBranchesTest, AChainIsRecordedOnce) { ExpectSame(ChainText(), 1); }

// A blob that is read in every pass is then converted to kNCHW in every pass.
TEST_P(GraphBranchesTest, BlobsThatAreReadInEveryPass) {
  AddLibrary(ChannelsLastLibrary("chain_channels_last"));
  for (const int first : {0, 1, 3, 5}) {
    const auto net = Make(ChainText()), plain = Make(ChainText());
    const auto forward = [](Net* one, int pass) {
      FillInputs(one, 3 + pass);
      one->Forward();
    };
    for (int pass = 0; pass < 12; ++pass) {
      {
        const GraphsOff off;
        forward(plain.get(), pass);
      }
      forward(net.get(), pass);
      for (const char* blob : {"two", "three"}) {
        if (pass < first && blob == std::string("two")) continue;
        ASSERT_NO_FATAL_FAILURE(ExpectClose(Values(*net, blob), Values(*plain, blob)))
            << blob << ", pass " << pass << ", read from pass " << first;
      }
    }
    device()->ResetCounters();
    forward(net.get(), 0);
    EXPECT_EQ(device()->counters().graph_launches, 1);
    EXPECT_EQ(device()->counters().launches, 1);
  }
  RemoveLibrary("chain_channels_last");
}

// The output of a layer and of one in place behind it is converted as part of the pass.
TEST_P(GraphBranchesTest, AChainInNhwc) {
  AddLibrary(ChannelsLastLibrary("chain_channels_last"));
  ExpectSame(ChainText(), 1);
  RemoveLibrary("chain_channels_last");
}

TEST_P(GraphBranchesTest, LinearGraphs) {
  const ScopedVariable linear("CAFFE_GRAPHS", "");
  ExpectSame(ModulesText(1), 1);
}

// Where no device records.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GraphBranchesTest);
INSTANTIATE_TEST_SUITE_P(All, GraphBranchesTest,
                         testing::Combine(testing::ValuesIn(RecordingDevices()),
                                          testing::Values(kFloat, kHalf)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name() + "_" +
                                  std::get<1>(info.param).name();
                         });

}  // namespace
}  // namespace caffe
