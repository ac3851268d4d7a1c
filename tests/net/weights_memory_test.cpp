// In phase TEST a device holds weights in the form that operators read, and no others.
#include <algorithm>
#include <cmath>
#include <map>

#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

constexpr int kInputs = 1024, kOutputs = 2048;

class WeightsMemoryTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(int phase = TEST, int outputs = kOutputs,
                            const std::string& more = "") const {
    const std::string conv =
        "convolution_param { num_output: 64 kernel_size: 3 pad: 1 "
        "weight_filler { type: 'uniform' min: -0.2 max: 0.2 } } } ";
    auto net = MakeNet(
        Concat(more,
               "data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type_.info().proto)),
               " ", InputText("x", {2, 16, 8, 8}),
               "layer { name: 'folded' type: 'Convolution' bottom: 'x' top: 'a' ", conv,
               "layer { name: 'scale' type: 'Scale' bottom: 'a' top: 'b' scale_param { filler { "
               "type: 'uniform' min: 0.5 max: 1.5 } } } "
               "layer { name: 'plain' type: 'Convolution' bottom: 'b' top: 'c' ",
               conv,
               "layer { name: 'flat' type: 'Reshape' bottom: 'c' top: 'd' reshape_param { shape ",
               "{ dim: -1 dim: ", kInputs, " } } } ", InnerProductText("ip", "d", outputs)),
        device_, phase);
    FillInputs(net.get());
    return net;
  }
  static BlobBase& Weights(const Net& net, const std::string& layer) {
    return *net.LayerByName(layer)->blobs()[0];
  }
  // The numbers of the computation layer by layer.
  static Numbers ByLayer(Net* net) {
    for (int i = 0; i < static_cast<int>(net->layers().size()); ++i) net->Forward(i, i);
    return Values(*net, "ip");
  }

  Device* const device_ = GetParam().device;
  const DataType type_ = GetParam().type;
};

TEST_P(WeightsMemoryTest, TheDeviceHoldsNoSecondForm) {
  // The bytes that a net with so many outputs holds, besides its workspace.
  const auto held = [this](int outputs) {
    device_->ReleaseCache();  // a larger buffer would be taken from it
    const int64_t before = device_->bytes_in_use();
    const auto net = Make(TEST, outputs);
    net->Forward();
    return device_->bytes_in_use() - before - net->memory_needs().workspace;
  };
  // On the CPU the parameter itself is there, too, and beside it float weights for narrow types.
  const int64_t count = int64_t{kInputs} * kOutputs;
  int64_t bytes = count * type_.bytes();
  if (device_->host_accessible()) bytes = count * 4 * (type_ == kFloat ? 1 : 2);
  EXPECT_LT(held(2 * kOutputs) - held(kOutputs), bytes + (1 << 20));
  if (device_->host_accessible()) return;
  const auto net = Make();
  net->Forward();
  for (const char* const layer : {"folded", "plain", "ip"}) {
    // Matrix units of OpenCL devices read packed rows.
    const bool packs =
        device_->info().matrix && device_->backend() == "opencl" && layer == std::string("plain");
    const bool reads_parameter = type_ == kFloat && layer != std::string("folded") && !packs;
    EXPECT_EQ(Weights(*net, layer).data_memory()->buffer() != nullptr, reads_parameter) << layer;
  }
}

// In mode pseudo the values of codes are made of the parameter on the device, which keeps it.
TEST_P(WeightsMemoryTest, PseudoWeightsAreCounted) {
  std::string more = "state { quantizer_mode: CAFFE_QUANT_PSEUDO } ";
  for (const char* const blob : {"x", "a", "b", "c", "d", "ip"}) {
    more += Concat("quantizer { name: '", blob, "' observed_min: -4 observed_max: 4 } ");
  }
  device_->ReleaseCache();
  const int64_t before = device_->bytes_in_use();
  const auto net = Make(TEST, kOutputs, more);
  const MemoryNeeds needs = net->memory_needs();
  net->Forward();
  EXPECT_NEAR(static_cast<double>(device_->bytes_in_use() - before),
              static_cast<double>(needs.total()), 0.02 * static_cast<double>(needs.total()))
      << needs.ToString();
}

TEST_P(WeightsMemoryTest, EveryLayerCounts) {
  constexpr int kLayers = 8, kChannels = 64;
  std::string text =
      Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type_.info().proto)), " ",
             InputText("x0", {1, kChannels, 8, 8}));
  for (int i = 0; i < kLayers; ++i) {
    text += Concat("layer { name: 'conv", i, "' type: 'Convolution' bottom: 'x", i, "' top: 'x",
                   i + 1, "' convolution_param { num_output: ", kChannels,
                   " kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'xavier' } } } ",
                   "layer { name: 'scale", i, "' type: 'Scale' bottom: 'x", i + 1, "' top: 'x",
                   i + 1, "' } ");
  }
  const auto net = MakeNet(text, device_);
  FillInputs(net.get());
  const int64_t bytes = int64_t{kLayers} * kChannels * kChannels * 9 * type_.bytes();
  const MemoryNeeds before = net->memory_needs();
  EXPECT_GE(before.derived, bytes);
  net->Forward();
  EXPECT_EQ(net->memory_needs().derived, before.derived);
}

TEST_P(WeightsMemoryTest, WholeAndPartialPassesMakeNothingAgain) {
  const auto net = Make();
  const auto pass = [&] {
    net->Forward();
    const Numbers whole = Values(*net, "ip");
    const Numbers parts = ByLayer(net.get());
    double largest = 0, difference = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      largest = std::max(largest, std::abs(whole[i]));
      difference = std::max(difference, std::abs(whole[i] - parts[i]));
    }
    EXPECT_LT(difference, 4 * Tolerance(type_) * largest);
    return whole;
  };
  const Numbers first = pass();
  EXPECT_EQ(pass(), first);
  const DeviceCounters warm = device_->counters();
  EXPECT_EQ(pass(), first);
  const DeviceCounters after = device_->counters();
  EXPECT_EQ(after.allocations, warm.allocations);
  EXPECT_EQ(after.builds, warm.builds);
  EXPECT_EQ(after.upload_bytes, warm.upload_bytes);
}

TEST_P(WeightsMemoryTest, WritesReachTheDerivedWeights) {
  const auto net = Make();
  net->Forward();
  std::map<std::string, Numbers> written;
  for (const std::string layer : {"folded", "plain", "ip"}) {
    BlobBase& weights = Weights(*net, layer);
    Numbers values = weights.DataAsDouble();
    for (double& value : values) value *= -0.5;
    weights.SetData(values);
    written[layer] = weights.DataAsDouble();
  }
  net->Forward();
  const auto fresh = Make();
  for (const auto& [layer, values] : written) Weights(*fresh, layer).SetData(values);
  fresh->Forward();
  EXPECT_EQ(Values(*net, "ip"), Values(*fresh, "ip"));
  for (const auto& [layer, values] : written) {
    EXPECT_EQ(Weights(*net, layer).DataAsDouble(), values) << layer;
  }
}

TEST_P(WeightsMemoryTest, NetsThatShareWeightsKeepThem) {
  const auto owner = Make(), other = Make();
  for (const char* const layer : {"folded", "plain", "ip"}) {
    BlobBase& weights = Weights(*other, layer);
    weights.SetData(Numbers(weights.count(), 0));
  }
  other->ShareTrainedLayersWith(*owner);
  for (Net* net : {other.get(), owner.get(), other.get()}) net->Forward();
  EXPECT_EQ(Values(*other, "ip"), Values(*owner, "ip"));
  const auto alone = Make();
  alone->Forward();
  EXPECT_EQ(Values(*other, "ip"), Values(*alone, "ip"));
}

// A net that trains with the same weights reads its parameters as they are.
TEST_P(WeightsMemoryTest, ATrainingNetKeepsItsMasters) {
  const auto trained = Make(TRAIN), tested = Make();
  tested->ShareTrainedLayersWith(*trained);
  trained->Forward();
  const Numbers expected = Values(*trained, "ip");
  tested->Forward();
  const DeviceCounters before = device_->counters();
  trained->Forward();
  EXPECT_EQ(device_->counters().upload_bytes, before.upload_bytes);
  EXPECT_EQ(Values(*trained, "ip"), expected);
}

INSTANTIATE_TEST_SUITE_P(All, WeightsMemoryTest,
                         testing::ValuesIn(DevicesAndTypes({kFloat, kHalf, kBfloat16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
