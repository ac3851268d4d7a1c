#include "caffe/calibration/random_batch.hpp"

#include <set>

#include "caffe/device/runtime.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

// Half of the experts of the mixture have codes, and so does the net around it.
std::string Text() {
  return InputText("data", {2, 3, 8, 8}) + PaddedConvText("conv", "data", 8, 3) +
         LayerText("BatchNorm", "norm", {"conv"}, "conv") +
         LayerText("Scale", "scale", {"conv"}, "conv", "scale_param { bias_term: true }") +
         ReluText("relu", "conv") +
         "layer { name: 'moe' type: 'MOE' bottom: 'conv' top: 'moe' moe_param { select_experts: 1 "
         "expert_instances: 2 gating_net { " +
         InputText("x", {1, 1}) + InnerProductText("s", "x", 2) +
         "layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' } } expert_net { "
         "data_type: CAFFE_INT8_QUANTIZED " +
         InputText("x", {1, 1}) + InnerProductText("out", "x", 4) + "} } } " +
         InnerProductText("ip", "moe", 5);
}

std::unique_ptr<Net> InCodes(const std::string& text) {
  return MakeNet(TypeText(kQuant8) + text, Runtime::Get().cpu());
}

// Each blob gets a range of its own, near that of the values.
TEST(RandomBatchTest, BlobsWithoutARangeGetThatOfARandomBatch) {
  const auto net = InCodes(Text());
  EXPECT_TRUE(net->lacks_ranges());
  ASSERT_TRUE(ObserveMissingRanges(net.get(), true));
  EXPECT_FALSE(net->lacks_ranges());
  EXPECT_FALSE(ObserveMissingRanges(net.get(), true)) << "nothing is missing now";
  const auto ranges = net->Ranges();
  EXPECT_EQ(ranges.at("conv").low, 0) << "behind ReLU";
  EXPECT_GT(ranges.at("conv").high, 0.5);
  EXPECT_LT(ranges.at("conv").high, 100) << "BatchNorm divides by statistics, not by 0";
  EXPECT_LT(ranges.at("conv@conv").low, 0);
  FillInputs(net.get());
  net->Forward();
  const BlobBase& ip = *net->BlobByName("ip");
  const auto* const codes = static_cast<const uint8_t*>(ip.host_data());
  EXPECT_GT(std::set<uint8_t>(codes, codes + ip.count()).size(), 3u);
}

TEST(RandomBatchTest, WeightsAndKnownRangesStay) {
  const std::string text = InputText("data", {2, 6}) + InnerProductText("ip1", "data", 5) +
                           ReluText("relu", "ip1") + InnerProductText("ip2", "ip1", 4);
  const auto net = InCodes(text);
  NetParameter file;
  net->ToProto(&file);
  QuantizerParameter* const known = file.add_quantizer();
  known->set_name("ip1");
  known->set_observed_min(0);
  known->set_observed_max(7);
  net->CopyTrainedLayersFrom(file);
  const std::vector<double> weights = net->params()[0]->DataAsDouble();
  ASSERT_TRUE(ObserveMissingRanges(net.get()));
  EXPECT_EQ(net->params()[0]->DataAsDouble(), weights);
  EXPECT_EQ(net->Ranges().at("ip1").high, 7);
  EXPECT_EQ(net->Ranges().count("ip2"), 1u);
  EXPECT_NO_THROW(net->Forward());
}

TEST(RandomBatchTest, FloatNetsHaveNoRangesThatAreMissing) {
  const auto net =
      MakeNet(InputText("data", {2, 6}) + InnerProductText("ip", "data", 5), Runtime::Get().cpu());
  EXPECT_FALSE(net->lacks_ranges());
  EXPECT_FALSE(ObserveMissingRanges(net.get()));
}

}  // namespace
}  // namespace caffe
