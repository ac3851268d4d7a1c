// Nets with branches, replayed in orders that the uses of memory allow: the same bits as without
// graphs. Devices that record themselves replay them in order.
#include "caffe/core/error.hpp"
#include "caffe/device/graph_choice.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/graphs_off.hpp"
#include "support/recording.hpp"

namespace caffe {
namespace {

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     int kernel = 1) {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
                          " pad: ", kernel / 2,
                          " weight_filler { type: 'uniform' min: -0.4 max: 0.4 } "
                          "bias_filler { type: 'uniform' min: -0.4 max: 0.4 } }")) +
         LayerText("ReLU", "relu_" + name, {name}, name);
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

class GraphBranchesTest : public testing::TestWithParam<std::tuple<Device*, DataType>> {
 protected:
  Device* device() { return recording_.device(); }
  std::unique_ptr<Net> Make(const std::string& text) {
    return MakeNet(TypeText(std::get<1>(GetParam())) + text, device());
  }
  // `graphs`: records of the net; of a device of the tests.
  void ExpectSame(const std::string& text, int graphs) {
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
    // Both graphs are tried, and one stays.
    for (int pass = 0; pass < 2 * GraphChoice::kTrials + 8; ++pass) {
      const std::vector<double> expected = outputs(plain.get(), 3 + pass);
      const std::vector<double> actual = outputs(net.get(), 3 + pass);
      if (recording_.keeping()) {
        ASSERT_EQ(actual, expected) << "pass " << pass;
      } else {
        // Each net measures which library computes a layer.
        ASSERT_EQ(actual.size(), expected.size());
        const double tolerance = std::get<1>(GetParam()) == kFloat ? 1e-4 : 5e-2;
        for (size_t i = 0; i < actual.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])));
        }
      }
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

TEST_P(GraphBranchesTest, AChainIsRecordedOnce) {
  ExpectSame(InputText("data", {2, 3, 6, 5}) + ConvText("one", "data", 4, 3) +
                 ConvText("two", "one", 5, 3) + ConvText("three", "two", 2),
             1);
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
                           return DeviceName(*std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name();
                         });

}  // namespace
}  // namespace caffe
