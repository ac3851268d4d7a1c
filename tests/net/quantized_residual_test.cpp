// Residual nets as they are published, with BatchNorm, Scale and ReLU in place, in quant8 and
// quant16: all layers but Softmax compute in codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "net/decoded.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string ConvText(const std::string& name, const std::string& bottom, int outputs, int kernel) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { bias_term: false num_output: " + std::to_string(outputs) +
         " kernel_size: " + std::to_string(kernel) + " pad: " + std::to_string(kernel / 2) +
         " weight_filler { type: 'msra' } } } " + "layer { name: 'bn_" + name +
         "' type: 'BatchNorm' bottom: '" + name + "' top: '" + name + "' } " +
         "layer { name: 'scale_" + name + "' type: 'Scale' bottom: '" + name + "' top: '" + name +
         "' scale_param { bias_term: true } } ";
}

std::string BlockText(const std::string& name, const std::string& bottom) {
  return ConvText(name + "a", bottom, 8, 3) + ReluText(name + "a_relu", name + "a") +
         ConvText(name + "b", name + "a", 8, 3) + "layer { name: '" + name +
         "' type: 'Eltwise' bottom: '" + bottom + "' bottom: '" + name + "b' top: '" + name +
         "' } " + ReluText(name + "_relu", name);
}

std::string ResidualText() {
  return InputText("data", {8, 3, 8, 8}) + ConvText("conv1", "data", 8, 3) +
         ReluText("conv1_relu", "conv1") + BlockText("res1", "conv1") + BlockText("res2", "res1") +
         "layer { name: 'pool' type: 'Pooling' bottom: 'res2' top: 'pool' pooling_param { pool: "
         "AVE "
         "global_pooling: true } } " +
         InnerProductText("fc", "pool", 10) +
         "layer { name: 'prob' type: 'Softmax' bottom: 'fc' top: 'prob' } ";
}

// Weights, statistics of a few batches, and ranges.
NetParameter Calibrated(const std::string& text) {
  NetParameter trained;
  {
    const auto net = MakeNet(text, Cpu(), 0);
    for (const uint64_t seed : {21, 22, 23}) {
      FillInputs(net.get(), seed);
      net->Forward();
    }
    net->ToProto(&trained);
  }
  const auto net = MakeNet(text, Cpu());
  net->CopyTrainedLayersFrom(trained);
  net->set_observe(true);
  for (const uint64_t seed : {5, 6, 7}) {
    FillInputs(net.get(), seed);
    net->Forward();
  }
  NetParameter saved;
  net->ToProto(&saved);
  return saved;
}

class QuantizedResidualTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedResidualTest, AgreesWithFloatAndComesBackFromAFile) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated(ResidualText());
  const auto reference = MakeNet(ResidualText(), device);
  const auto net = MakeNet(TypeText(type) + ResidualText(), device);
  for (Net* each : {reference.get(), net.get()}) {
    each->CopyTrainedLayersFrom(weights);
    FillInputs(each, 6);
    each->Forward();
  }
  EXPECT_EQ(net->blob_names(), reference->blob_names());
  EXPECT_EQ(net->layer_names(), reference->layer_names());
  EXPECT_EQ(net->LayerByName("conv1")->types().compute, type);
  for (const char* layer : {"bn_conv1", "scale_conv1", "res1", "res1_relu"}) {
    EXPECT_EQ(net->LayerByName(layer)->types().compute, type) << layer;
  }
  const Numbers expected = Values(*reference, "prob"), actual = Values(*net, "prob");
  // Stated tolerance: 0.05 of a probability in quant8, 0.001 in quant16.
  const double tolerance = type == kQuant8 ? 0.05 : 0.001;
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0.2)
      << "the net distinguishes the classes";

  NetParameter saved;
  net->ToProto(&saved);
  const auto again = MakeNet(TypeText(type) + ResidualText(), device);
  again->CopyTrainedLayersFrom(saved);
  FillInputs(again.get(), 6);
  again->Forward();
  EXPECT_EQ(Values(*again, "prob"), actual);
}

// Layer by layer, without fused steps, too: then BatchNorm and Scale compute in codes of their own.
TEST_P(QuantizedResidualTest, CodesEqualThoseOfTheCpu) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated(ResidualText());
  const auto net = MakeNet(TypeText(type) + ResidualText(), device),
             host = MakeNet(TypeText(type) + ResidualText(), Cpu());
  for (const bool layer_by_layer : {false, true}) {
    for (Net* each : {net.get(), host.get()}) {
      each->CopyTrainedLayersFrom(weights);
      FillInputs(each, 6);
      if (layer_by_layer) each->set_after_forward([](int) {});
      each->Forward();
    }
    for (const char* blob : {"conv1", "res1a", "res1b", "res1", "res2", "pool", "fc"}) {
      ASSERT_EQ(net->BlobByName(blob)->type(), type) << blob;
      EXPECT_EQ(Decoded(*net->BlobByName(blob)), Decoded(*host->BlobByName(blob)))
          << blob << (layer_by_layer ? " layer by layer" : "");
    }
  }
}

// The last of a blob's writers has its name; each earlier version has a range of its own.
TEST_P(QuantizedResidualTest, RangesOfAllVersionsAreSaved) {
  const NetParameter weights = Calibrated(ResidualText());
  std::set<std::string> names;
  for (const QuantizerParameter& quantizer : weights.quantizer()) names.insert(quantizer.name());
  for (const char* name : {"conv1", "conv1@conv1", "conv1@bn_conv1", "conv1@scale_conv1", "res1",
                           "res1@res1", "res1b", "res1b@res1b"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

// Partial passes meet in blobs of the user, for all types of the versions.
TEST_P(QuantizedResidualTest, RunsInParts) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated(ResidualText());
  const auto net = MakeNet(TypeText(type) + ResidualText(), device);
  net->CopyTrainedLayersFrom(weights);
  FillInputs(net.get(), 6);
  net->Forward();
  const Numbers whole = Values(*net, "prob");
  const double tolerance = type == kQuant8 ? 0.02 : 0.001;
  // After the convolution, whose codes have the range of the blob's first version.
  const auto float_net = MakeNet(ResidualText(), device);
  float_net->CopyTrainedLayersFrom(weights);
  FillInputs(float_net.get(), 6);
  for (Net* each : {net.get(), float_net.get()}) each->Forward(0, 1);
  const Numbers shown = Decoded(*net->BlobByName("conv1")), expected = Values(*float_net, "conv1");
  for (size_t i = 0; i < shown.size(); ++i) ASSERT_NEAR(shown[i], expected[i], 0.1) << i;
  net->Forward(2, static_cast<int>(net->layers().size()) - 1);
  const Numbers parts = Values(*net, "prob");
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], tolerance) << i;
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedResidualTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

// models/resnet50 itself, with random weights.
TEST(ResNet50Test, RunsInQuant8) {
  const NetParameter parameter =
      ReadNetParameter(std::string(CAFFE_SOURCE_DIR) + "/models/resnet50/deploy.prototxt");
  NetOptions options;
  options.device = Cpu();
  options.phase = TEST;
  options.seed = 1701;
  NetParameter calibrated;
  Numbers expected;
  {
    Net net(parameter, options);
    // Statistics of a fresh net normalize nothing; those of activations around 1 keep it finite.
    for (const auto& layer : net.layers()) {
      if (layer->type() != "BatchNorm") continue;
      layer->blobs()[1]->SetData(Numbers(layer->blobs()[1]->count(), 2));
      layer->blobs()[2]->SetData({1});
    }
    FillInputs(&net, 4);
    net.set_observe(true);
    net.Forward();
    expected = Values(net, "prob");
    net.ToProto(&calibrated);
  }
  NetParameter quantized = parameter;
  quantized.set_data_type(CAFFE_INT8_QUANTIZED);
  Net net(quantized, options);
  net.CopyTrainedLayersFrom(calibrated);
  FillInputs(&net, 4);
  net.Forward();
  for (const auto& layer : net.layers()) {
    const bool end = layer->type() == "Input" || layer->type() == "Softmax";
    EXPECT_EQ(layer->types().compute, end ? kFloat : kQuant8) << layer->name();
  }
  const Numbers actual = Values(net, "prob");
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 0.05) << i;
}

}  // namespace
}  // namespace caffe
