// The memory of nets in codes on their device: predicted by Net::memory_needs, and weights as
// stored.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/transform/transform.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& more = "") {
  return Concat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' ", more, " } ");
}

const std::string kFilled = "weight_filler { type: 'uniform' min: -0.1 max: 0.1 } } ";
const std::string kDeconvolved =
    InputText("data", {1, 64, 6, 6}) +
    Layer("Deconvolution", "up", "data",
          "convolution_param { num_output: 96 kernel_size: 4 stride: 2 group: 2 " + kFilled);
const std::string kTables = [] {
  std::string text = InputText("data", {1, 16, 4, 4}), last = "data";
  for (const char* type : {"Sigmoid", "TanH", "ELU", "AbsVal", "BNLL", "Swish"}) {
    text += Layer(type, type, last);
    last = type;
  }
  return text;
}();
const std::string kConvolved =
    InputText("data", {1, 96, 12, 12}) +
    Layer("Convolution", "conv", "data",
          "convolution_param { num_output: 256 kernel_size: 3 pad: 1 " + kFilled) +
    Layer("Scale", "scale", "conv", "scale_param { bias_term: true }") +
    Layer("ReLU", "relu", "scale") +
    Layer("InnerProduct", "ip", "relu", "inner_product_param { num_output: 128 " + kFilled) +
    Layer("InnerProduct", "turned", "ip",
          "inner_product_param { transpose: true num_output: 2048 " + kFilled);

class CodeMemoryTest : public testing::TestWithParam<DeviceType> {
 protected:
  Device* const device_ = GetParam().device;
  const DataType type_ = GetParam().type;
};

TEST_P(CodeMemoryTest, TheAllocatorAgreesWithThePrediction) {
  for (const std::string& layers : {kDeconvolved, kTables, kConvolved}) {
    for (const bool by_layer : {false, true}) {
      device_->ReleaseCache();  // a larger buffer would be taken from it
      const int64_t before = device_->bytes_in_use();
      const auto net = MakeNet(
          TypeText(type_) + layers + (by_layer ? "reduced_memory_inference: false" : ""), device_);
      net->UsePlaceholderRanges();
      FillInputs(net.get());
      const MemoryNeeds needs = net->memory_needs();
      net->Forward();
      const double used = static_cast<double>(device_->bytes_in_use() - before);
      // Buffers are rounded up to 256 bytes.
      EXPECT_NEAR(used, static_cast<double>(needs.total()), 0.02 * used + 6000) << needs.ToString();
      EXPECT_EQ(net->memory_needs().derived, needs.derived);
    }
  }
}

TEST_P(CodeMemoryTest, TablesCount) {
  const auto net = MakeNet(TypeText(type_) + kTables, device_);
  const int64_t table = (type_.info().code_max + 1) * static_cast<int64_t>(type_.bytes());
  EXPECT_EQ(net->memory_needs().derived, 6 * table);
}

// Codes of a deconvolution have one scale in a file; they are brought into its order, and the
// file's scale is used for each channel.
TEST_P(CodeMemoryTest, DeconvolutionsTakeStoredCodes) {
  const auto exact = MakeNet(TypeText(kFloat) + kDeconvolved, Runtime::Get().cpu());
  exact->set_observe(true);
  FillInputs(exact.get());
  exact->Forward();
  NetParameter file;
  exact->ToProto(&file);
  TransformNotes notes;
  file = QuantizeWeights(file, type_, &notes);
  const auto load = [&](Device* device) {
    auto net = MakeNet(TypeText(type_) + kDeconvolved, device);
    net->CopyTrainedLayersFrom(file);
    FillInputs(net.get());
    net->Forward();
    return net;
  };
  const auto net = load(device_);
  const BlobBase& weights = *net->LayerByName("up")->blobs()[0];
  EXPECT_FALSE(weights.data_memory()->stored());
  const QuantizerParameter* entry = nullptr;
  for (const QuantizerParameter& one : file.quantizer()) {
    if (one.name() == "up_blobs_0_quant") entry = &one;
  }
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->channel_scale_size(), 1);
  const Numbers scales = net->LayerByName("up")->Facts().weighted->code_scales();
  EXPECT_EQ(scales, Numbers(96, entry->channel_scale(0)));
  // Its codes: those of the CPU, and near the float net's numbers.
  const BlobBase& up = *net->BlobByName("up");
  const auto host = load(Runtime::Get().cpu());
  EXPECT_EQ(std::memcmp(up.host_data(), host->BlobByName("up")->host_data(), up.bytes()), 0);
  const Numbers expected = Values(*exact, "up");
  const char* codes = static_cast<const char*>(up.host_data());
  const QuantRange& range = up.range();
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    int64_t code = 0;
    std::memcpy(&code, codes + i * type_.bytes(), type_.bytes());
    error += std::abs(range.scale * static_cast<double>(code - range.zero) - expected[i]);
  }
  EXPECT_LT(error / static_cast<double>(expected.size()), 2 * range.scale + 1e-6);
  NetParameter saved;
  net->ToProto(&saved);
  EXPECT_EQ(saved.layer(1).blobs(0).packed_data(), file.layer(1).blobs(0).packed_data());
}

// Scales of codes that the layer chose itself are saved with the floats.
TEST_P(CodeMemoryTest, DeconvolutionsStateTheirScales) {
  const auto net = MakeNet(TypeText(type_) + kDeconvolved, device_);
  net->UsePlaceholderRanges();
  EXPECT_TRUE(net->LayerByName("up")->Facts().weighted->code_scales().empty());
  net->Forward();
  const Numbers scales = net->LayerByName("up")->Facts().weighted->code_scales();
  ASSERT_EQ(scales.size(), 96u);
  // Weights are [64, 48, 4, 4] in 2 groups: output c of group g is read by the inputs of g.
  const Numbers weights = net->LayerByName("up")->blobs()[0]->DataAsDouble();
  const double most = type_ == kQuant8 ? 127 : 32767;
  for (const int c : {0, 47, 48, 95}) {
    double largest = 0;
    for (int i = c / 48 * 32; i < c / 48 * 32 + 32; ++i) {
      for (int k = 0; k < 16; ++k) {
        largest = std::max(largest, std::abs(weights[(i * 48 + c % 48) * 16 + k]));
      }
    }
    EXPECT_DOUBLE_EQ(scales[c], largest / most) << c;
  }
  NetParameter saved;
  net->ToProto(&saved);
  bool found = false;
  for (const QuantizerParameter& one : saved.quantizer()) {
    found = found || (one.name() == "up_blobs_0_quant" && one.channel_max_size() == 96);
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(All, CodeMemoryTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
