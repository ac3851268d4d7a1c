// Nets that are calibrated, quantized, written and loaded again.
#include "caffe/calibration/quantize_net.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "caffe/calibration/comparison.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int kBatch = 8;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string ConvText(const std::string& name, const std::string& bottom, int outputs) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: " + std::to_string(outputs) +
         " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.3 max: 0.3 }"
         " bias_filler { type: 'uniform' min: -0.2 max: 0.2 } } } ";
}

// data -> conv1 -> relu -> (left, right) -> concat -> pool -> score -> prob
std::string NetText() {
  return "name: 'small' " + InputText("data", {kBatch, 3, 8, 8}) + ConvText("conv1", "data", 16) +
         ReluText("relu1", "conv1") + ConvText("left", "conv1", 24) + ReluText("relu2", "left") +
         ConvText("right", "conv1", 40) + ReluText("relu3", "right") +
         "layer { name: 'concat' type: 'Concat' bottom: 'left' bottom: 'right' top: 'concat' } "
         "layer { name: 'pool' type: 'Pooling' bottom: 'concat' top: 'pool'"
         " pooling_param { kernel_size: 2 stride: 2 } } " +
         InnerProductText("score", "pool", 10) +
         "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
}

NetParameter Weights(const std::string& text) {
  NetParameter weights;
  MakeNet(text, Cpu())->ToProto(&weights);
  return weights;
}

// Batches with the classes of the float net as labels.
class Data {
 public:
  explicit Data(const std::string& text, int batches) : net_(MakeNet(text, Cpu())) {
    for (int i = 0; i < batches; ++i) {
      const std::vector<double> numbers = TestNumbers(kBatch * 3 * 64, 100 + i);
      net_->BlobByName("data")->SetData(numbers);
      net_->Forward();
      const std::vector<double> scores = Values(*net_, "prob");
      Batch& batch = batches_.emplace_back();
      batch.values["data"].assign(numbers.begin(), numbers.end());
      for (int k = 0; k < kBatch; ++k) {
        const auto first = scores.begin() + k * 10;
        batch.labels.push_back(static_cast<float>(std::max_element(first, first + 10) - first));
      }
    }
  }
  BatchReader Reader() const {
    return [this](int64_t index, Batch* batch) {
      if (index >= static_cast<int64_t>(batches_.size())) return false;
      *batch = batches_[index];
      return true;
    };
  }
  std::vector<Batch>& batches() { return batches_; }

 private:
  std::unique_ptr<Net> net_;
  std::vector<Batch> batches_;
};

QuantizeOptions Options(DataType type = kQuant8) {
  QuantizeOptions options;
  options.type = type;
  options.calibration_batches = 4;
  options.device = Cpu();
  return options;
}

QuantizedNet Quantized(const QuantizeOptions& options, int batches = 12) {
  const Data data(NetText(), batches);
  return QuantizeNet(ParseNet(NetText()), Weights(NetText()), data.Reader(), options);
}

const LayerReport& Row(const QuantizeReport& report, const std::string& layer) {
  for (const LayerReport& row : report.layers) {
    if (row.layer == layer) return row;
  }
  throw Error("no row of " + layer);
}

std::unique_ptr<Net> Loaded(const QuantizedNet& net) {
  NetOptions options;
  options.device = Cpu();
  options.phase = TEST;
  auto loaded = std::make_unique<Net>(*net.model, options);
  loaded->CopyTrainedLayersFrom(*net.weights);
  return loaded;
}

TEST(QuantizeNetTest, ComparesWithTheFloatNet) {
  for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
    const QuantizedNet net = Quantized(Options(type));
    const QuantizeReport& report = net.report;
    EXPECT_EQ(report.calibration_items, 4 * kBatch);
    EXPECT_EQ(report.held_out_items, 8 * kBatch);
    EXPECT_EQ(report.float_top1, 100);
    EXPECT_EQ(report.quantized_top1, report.agreement);
    EXPECT_GT(*report.agreement, type == kQuant8 ? 85 : type == kBfloat16 ? 90 : 98);
    const LayerReport& conv = Row(report, "right");
    EXPECT_EQ(conv.type, type.name());
    EXPECT_GT(conv.snr, type == kQuant8 ? 25 : type == kBfloat16 ? 40 : 55);
    EXPECT_GT(conv.cosine, 0.998);
    EXPECT_EQ(conv.range.known(), type.is_quantized());
    EXPECT_EQ(Row(report, "prob").type, type.is_quantized() ? "float" : type.name());
  }
}

// Each item is computed by 2 of 4 experts; `gate` and `expert` begin the texts of the nets.
std::string MixtureText(const std::string& gate = "", const std::string& expert = "") {
  const std::string input = "layer { name: 'data' type: 'Input' top: 'data' } ";
  return "name: 'mixture' " + InputText("data", {kBatch, 3, 8, 8}) + ConvText("conv1", "data", 8) +
         "layer { name: 'moe' type: 'MOE' bottom: 'conv1' top: 'moe' moe_param { select_experts: 2 "
         "expert_instances: 4 gating_net { " +
         gate + input + InnerProductText("choice", "data", 4) +
         "layer { name: 'gate' type: 'Softmax' bottom: 'choice' top: 'gate' } } expert_net { " +
         expert + input + ConvText("conv", "data", 8) + ReluText("relu", "conv") +
         InnerProductText("ip", "conv", 12) + "} } } " + InnerProductText("score", "moe", 10) +
         "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
}

TEST(QuantizeNetTest, ExpertsGetTheType) {
  const Data data(MixtureText(), 12);
  const NetParameter weights = Weights(MixtureText());
  const auto quantize = [&](const std::string& text) {
    return QuantizeNet(ParseNet(text), weights, data.Reader(), Options());
  };
  const auto mixture = [](const QuantizedNet& net) -> const MOEParameter& {
    for (const LayerParameter& layer : net.model->layer()) {
      if (layer.name() == "moe") return layer.moe_param();
    }
    throw Error("no mixture");
  };
  const QuantizedNet net = quantize(MixtureText());
  EXPECT_EQ(mixture(net).expert_net(0).data_type(), CAFFE_INT8_QUANTIZED);
  EXPECT_FALSE(mixture(net).gating_net().has_data_type());
  EXPECT_GT(*net.report.agreement, 85);
  EXPECT_LT(net.report.agreement, 100 + 1e-9);
  // The weights of experts and of the gate are codes in the file. The gate computes in float.
  const auto loaded = Loaded(net);
  const std::string codes = "conv1 moe score", now = [&] {
    std::string names;
    for (const LayerParameter& layer : net.weights->layer()) {
      const bool packed = std::any_of(layer.blobs().begin(), layer.blobs().end(),
                                      [](const BlobProto& blob) { return blob.data_size() == 0; });
      if (packed) names += (names.empty() ? "" : " ") + layer.name();
    }
    return names;
  }();
  EXPECT_EQ(now, codes);
  for (const LayerParameter& layer : net.weights->layer()) {
    if (layer.name() == "moe") {
      EXPECT_EQ(layer.blobs(0).data_size(), 0) << "the gate's weights";
      EXPECT_EQ(layer.blobs(0).packed_data().size(), 4u * 8 * 64);
    }
  }
  bool steps = false;
  for (const StepInfo& step : loaded->Steps()) {
    if (step.layers[0] == "moe/expert/conv") {
      steps = true;
      EXPECT_EQ(step.types.compute, kQuant8);
    }
    if (step.layers[0] == "moe/gating/choice") {
      EXPECT_EQ(step.types.compute, kFloat);
    }
  }
  EXPECT_TRUE(steps);
  // Types in the given model stay.
  const QuantizedNet given =
      quantize(MixtureText("data_type: CAFFE_INT16_QUANTIZED ", "data_type: CAFFE_HALF "));
  EXPECT_EQ(mixture(given).gating_net().data_type(), CAFFE_INT16_QUANTIZED);
  EXPECT_EQ(mixture(given).expert_net(0).data_type(), CAFFE_HALF);
}

// The files make the net that the report compared: scores of both are equal bit for bit.
void ExpectComparedNet(const QuantizedNet& net, const std::string& text, const Batch* batches,
                       int count) {
  const auto loaded = Loaded(net);
  const auto real = MakeNet(text, Cpu());
  double signal = 0, noise = 0;
  int64_t same = 0, items = 0;
  for (int b = 0; b < count; ++b) {
    for (Net* each : {loaded.get(), real.get()}) {
      for (const auto& [input, values] : batches[b].values) {
        each->BlobByName(input)->SetData({values.begin(), values.end()});
      }
      each->Forward();
    }
    const std::vector<double> exact = Values(*real, "prob"), found = Values(*loaded, "prob");
    for (size_t k = 0; k < exact.size(); ++k) {
      signal += exact[k] * exact[k];
      noise += (exact[k] - found[k]) * (exact[k] - found[k]);
    }
    const int64_t size = real->BlobByName("prob")->shape(-1),  // of the axis of the classes
        rows = static_cast<int64_t>(exact.size()) / size;
    for (int64_t k = 0; k < rows; ++k, ++items) {
      const auto best = [&](const std::vector<double>& scores) {
        const auto first = scores.begin() + k * size;
        return std::max_element(first, first + size) - first;
      };
      same += best(exact) == best(found);
    }
  }
  EXPECT_DOUBLE_EQ(Row(net.report, "prob").snr, 10 * std::log10(signal / noise));
  EXPECT_DOUBLE_EQ(*net.report.agreement, 100.0 * static_cast<double>(same) / items);
}

// A mixture so large that names, biases and scales do not count.
TEST(QuantizeNetTest, MixturesAreSmallAndComparedAsTheyAreWritten) {
  const std::string input = "layer { name: 'data' type: 'Input' top: 'data' } ";
  const std::string text =
      "name: 'mixture' " + InputText("data", {kBatch, 3, 8, 8}) + ConvText("conv1", "data", 16) +
      "layer { name: 'moe' type: 'MOE' bottom: 'conv1' top: 'moe' moe_param { select_experts: 2 "
      "expert_instances: 4 gating_net { " +
      input + InnerProductText("hidden", "data", 64) + InnerProductText("choice", "hidden", 4) +
      "layer { name: 'gate' type: 'Softmax' bottom: 'choice' top: 'gate' } } expert_net { " +
      input + ConvText("conv", "data", 32) + ReluText("relu", "conv") +
      InnerProductText("ip", "conv", 24) + "} } } " + InnerProductText("score", "moe", 10) +
      "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
  Data data(text, 12);
  for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
    const QuantizedNet net =
        QuantizeNet(ParseNet(text), Weights(text), data.Reader(), Options(type));
    const double part = static_cast<double>(net.report.bytes) / net.report.float_bytes;
    EXPECT_LT(part, type == kQuant8 ? 0.26 : 0.51) << type.name();
    ExpectComparedNet(net, text, &data.batches()[4], 8);
  }
  // A gate that the user wants in float keeps its weights.
  NetParameter model = ParseNet(text);
  model.mutable_layer(2)->mutable_moe_param()->mutable_gating_net()->set_data_type(CAFFE_FLOAT);
  const QuantizedNet net = QuantizeNet(model, Weights(text), data.Reader(), Options());
  EXPECT_GT(net.weights->layer(1).blobs(0).data_size(), 0);
  EXPECT_EQ(net.weights->layer(1).blobs(4).data_size(), 0);
}

// In 16-bit codes recurrent layers compute in float; their weights are as narrow as others.
TEST(QuantizeNetTest, RecurrentLayersAreSmallAndComparedAsTheyAreWritten) {
  for (const std::string layer : {"LSTM", "RNN", "GRU"}) {
    const std::string text =
        "name: 'sequence' " + InputText("data", {4, 6, 100}) + InputText("cont", {4, 6}) +
        "layer { name: 'states' type: '" + layer +
        "' bottom: 'data' bottom: 'cont' top: 'states' recurrent_param { num_output: 150 "
        "weight_filler { type: 'xavier' } "
        "bias_filler { type: 'uniform' min: -0.1 max: 0.1 } } } "
        "layer { name: 'score' type: 'InnerProduct' bottom: 'states' top: 'score' "
        "inner_product_param { num_output: 60 axis: 2 weight_filler { type: 'xavier' } } } "
        "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' softmax_param { axis: 2 "
        "} } ";
    std::vector<Batch> batches(6);
    for (int b = 0; b < 6; ++b) {
      const std::vector<double> numbers = TestNumbers(4 * 6 * 100, 70 + b);
      batches[b].values["data"].assign(numbers.begin(), numbers.end());
      // The states go on in the next batch. Both nets begin with 0.
      batches[b].values["cont"].assign(4 * 6, 1);
    }
    const BatchReader read = [&](int64_t index, Batch* batch) {
      if (index >= 6) return false;
      *batch = batches[index];
      return true;
    };
    for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
      QuantizeOptions options = Options(type);
      options.calibration_batches = 2;
      const QuantizedNet net = QuantizeNet(ParseNet(text), Weights(text), read, options);
      const double part = static_cast<double>(net.report.bytes) / net.report.float_bytes;
      EXPECT_LT(part, type == kQuant8 ? 0.28 : 0.52) << layer << " " << type.name();
      EXPECT_EQ(net.report.scores, "prob") << "and not what a float bottom of the layer reads";
      EXPECT_EQ(Row(net.report, "states").type, type == kQuant16 ? "float" : type.name());
      EXPECT_GT(Row(net.report, "states").snr, type == kQuant8 ? 25 : 35);
      ExpectComparedNet(net, text, &batches[2], 4);
    }
    // A type in the prototxt counts.
    NetParameter model = ParseNet(text);
    model.mutable_layer(2)->set_compute_data_type(CAFFE_FLOAT);
    const QuantizedNet own = QuantizeNet(model, Weights(text), read, [] {
      QuantizeOptions options = Options();
      options.calibration_batches = 2;
      return options;
    }());
    EXPECT_GT(own.weights->layer(0).blobs(0).data_size(), 0);
  }
}

// The signal to noise ratio in the report is that of the loaded net.
TEST(QuantizeNetTest, TheFilesGiveTheNetOfTheReport) {
  const Data data(NetText(), 12);
  const QuantizedNet net =
      QuantizeNet(ParseNet(NetText()), Weights(NetText()), data.Reader(), Options());
  const auto loaded = Loaded(net);
  const auto real = MakeNet(NetText(), Cpu());
  loaded->Keep({"right"});
  double signal = 0, noise = 0;
  for (int i = 4; i < 12; ++i) {
    Batch batch;
    data.Reader()(i, &batch);
    for (Net* each : {loaded.get(), real.get()}) {
      each->BlobByName("data")->SetData(
          {batch.values.at("data").begin(), batch.values.at("data").end()});
      each->Forward();
    }
    const BlobBase& blob = *loaded->BlobByName("right");
    const auto* codes = static_cast<const uint8_t*>(blob.host_data());
    const std::vector<double> values = Values(*real, "right");
    for (size_t k = 0; k < values.size(); ++k) {
      const double number = blob.range().scale * (codes[k] - blob.range().zero);
      signal += values[k] * values[k];
      noise += (values[k] - number) * (values[k] - number);
    }
  }
  EXPECT_NEAR(Row(net.report, "right").snr, 10 * std::log10(signal / noise), 1e-3);
}

// A Concat copies the codes of blobs that it alone reads: they have its range.
TEST(QuantizeNetTest, RangesOfConcatAreTied) {
  const QuantizedNet net = Quantized(Options());
  for (const char* layer : {"left", "right"}) {
    EXPECT_EQ(Row(net.report, layer).range.origin, "tied");
    EXPECT_EQ(Row(net.report, layer).range.high, Row(net.report, "concat").range.high);
  }
  EXPECT_EQ(Row(net.report, "pool").range.origin, "carried");
}

// The report of the blob `out`, and what the written net computes.
struct Outcome {
  double snr;
  std::vector<float> values;
};

Outcome OutcomeOf(const std::string& text, const QuantizeOptions& options) {
  NetParameter weights = Weights(text);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.type() != "BatchNorm") continue;
    for (float& value : *layer.mutable_blobs(1)->mutable_data()) value = 2;
    layer.mutable_blobs(2)->set_data(0, 1);
  }
  const auto item = [](int64_t index) {
    const std::vector<double> numbers = TestNumbers(kBatch * 3 * 64, 100 + index);
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  const QuantizedNet net = QuantizeNet(
      ParseNet(text), weights,
      [&](int64_t index, Batch* batch) {
        batch->values["data"] = item(index);
        if (text.find("'cont'") != std::string::npos) batch->values["cont"].assign(kBatch, 1);
        return index < 6;
      },
      options);
  const auto run = [](const QuantizedNet& written) {
    const auto loaded = Loaded(written);
    if (loaded->has_blob("cont")) {
      loaded->BlobByName("cont")->SetData(std::vector<double>(kBatch, 1));
    }
    loaded->BlobByName("data")->SetData(TestNumbers(kBatch * 3 * 64, 1));
    loaded->Forward();
    NetParameter saved;
    loaded->ToProto(&saved);
    return std::pair{RealValues(*loaded->BlobByName("out")), saved};
  };
  const auto [values, saved] = run(net);
  // The net that is loaded can be saved.
  EXPECT_EQ(run({net.model, std::make_shared<NetParameter>(saved), {}}).first, values);
  for (const LayerReport& row : net.report.layers) {
    if (row.blob == "out") return {row.snr, values};
  }
  throw Error("no row of blob out");
}

// `names` stand for "A", "B", … in the text.
std::string Named(std::string text, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string mark = Concat("'", static_cast<char>('A' + i), "'");
    for (size_t at; (at = text.find(mark)) != std::string::npos;) {
      text.replace(at, mark.size(), "'" + names[i] + "'");
    }
  }
  return text;
}

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

const std::string kWide =
    "convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: "
    "-0.3 max: 0.3 } bias_filler { type: 'uniform' min: -0.2 max: 0.2 } }";

std::string Product(const std::string& name, const std::string& bottom, const std::string& top,
                    int outputs) {
  return LayerText(name, "InnerProduct", bottom, top,
                   "inner_product_param { num_output: " + std::to_string(outputs) +
                       " weight_filler { type: 'uniform' min: -0.3 max: 0.3 } bias_filler { type: "
                       "'uniform' min: -0.2 max: 0.2 } }");
}

TEST(QuantizeNetTest, LayersOfOneNameAreLayersOfTheirOwn) {
  // A layer without weights before the one with weights; four layers that change one blob; products
  // of equal and of different shapes.
  const std::string text =
      InputText("data", {kBatch, 3, 8, 8}) +
      LayerText("A", "Power", "data", "half", "power_param { scale: 0.5 }") +
      LayerText("B", "Convolution", "half", "conv", kWide) +
      LayerText("C", "BatchNorm", "conv", "conv") +
      LayerText("D", "Scale", "conv", "conv",
                "scale_param { filler { type: 'uniform' min: -2 max: 2 } bias_term: true }") +
      LayerText("E", "Sigmoid", "conv", "conv") +
      LayerText("F", "Convolution", "conv", "conv2", kWide) +
      LayerText("G", "ReLU", "conv2", "conv2") + Product("H", "conv2", "h", 8) +
      LayerText("I", "ReLU", "h", "h") + Product("J", "h", "k", 8) +
      LayerText("K", "ReLU", "k", "k") + Product("L", "k", "out", 4);
  std::vector<std::string> unique, repeated, unnamed(12);
  for (int i = 0; i < 12; ++i) {
    unique.push_back(Concat("layer", i));
    repeated.push_back(i < 7 ? "c" : "fc");
  }
  QuantizeOptions adapted = Options(), tuned = Options();
  adapted.bias_correction = adapted.adaround = true;
  tuned.equalize = tuned.tune_ranges = true;
  tuned.max_drop = 0;
  tuned.calibration_batches = 1;
  tuned.held_out_batches = 1;
  for (const QuantizeOptions& options :
       {Options(), Options(kQuant16), Options(kHalf), adapted, tuned}) {
    const Outcome wanted = OutcomeOf(Named(text, unique), options),
                  found = OutcomeOf(Named(text, repeated), options);
    EXPECT_GT(wanted.snr, 20);
    EXPECT_EQ(found.snr, wanted.snr);
    EXPECT_EQ(found.values, wanted.values);
  }
  EXPECT_EQ(OutcomeOf(Named(text, unnamed), adapted).values,
            OutcomeOf(Named(text, unique), adapted).values);
}

TEST(QuantizeNetTest, MixturesAndRecurrentLayersOfOneName) {
  const auto mixture = [](const std::string& name, const std::string& bottom,
                          const std::string& top) {
    return "layer { name: '" + name + "' type: 'MOE' bottom: '" + bottom + "' top: '" + top +
           "' moe_param { select_experts: 1 expert_instances: 2 gating_net { "
           "layer { name: 'data' type: 'Input' top: 'data' } " +
           InnerProductText("choice", "data", 2) +
           "layer { name: 'gate' type: 'Softmax' bottom: 'choice' top: 'gate' } } expert_net { "
           "layer { name: 'data' type: 'Input' top: 'data' } " +
           Product("C", "data", "one", 8) + LayerText("D", "ReLU", "one", "one") +
           Product("E", "one", "two", 8) + "} } } ";
  };
  const std::string text =
      InputText("data", {1, kBatch, 192}) + InputText("cont", {1, kBatch}) +
      "layer { name: 'A' type: 'LSTM' bottom: 'data' bottom: 'cont' top: 'first' recurrent_param { "
      "num_output: 6 weight_filler { type: 'uniform' min: -0.3 max: 0.3 } } } "
      "layer { name: 'B' type: 'LSTM' bottom: 'first' bottom: 'cont' top: 'second' recurrent_param "
      "{ num_output: 6 weight_filler { type: 'uniform' min: -0.9 max: 0.9 } } } " +
      LayerText("flat", "Reshape", "second", "flat", "reshape_param { shape { dim: 8 dim: 6 } }") +
      mixture("A", "flat", "moe") + mixture("B", "moe", "out");
  QuantizeOptions options = Options();
  options.float_scores = false;
  const Outcome wanted = OutcomeOf(Named(text, {"a", "b", "c", "d", "e"}), options);
  EXPECT_GT(wanted.snr, 20);
  const Outcome found = OutcomeOf(Named(text, {"a", "a", "c", "c", "c"}), options);
  EXPECT_EQ(found.snr, wanted.snr);
  EXPECT_EQ(found.values, wanted.values);
}

// A layer reads a blob before another one changes it in place. What the first one has read is lost
// after the forward, so that its weights and biases stay as they are.
TEST(QuantizeNetTest, LayersBeforeAChangeInPlaceAreNotAdapted) {
  const std::string text =
      InputText("data", {kBatch, 3, 8, 8}) + Product("h", "data", "h", 24) +
      Product("before", "h", "before", 8) + LayerText("abs", "AbsVal", "h", "h") +
      Product("after", "h", "after", 8) +
      "layer { name: 'out' type: 'Eltwise' bottom: 'before' bottom: 'after' top: 'out' } ";
  const double plain = OutcomeOf(text, Options()).snr;
  QuantizeOptions options = Options();
  options.bias_correction = true;
  EXPECT_GT(OutcomeOf(text, options).snr, plain - 0.5);
  options.adaround = true;
  EXPECT_GT(OutcomeOf(text, options).snr, plain - 0.5);
}

TEST(QuantizeNetTest, DropoutMayScaleInTest) {
  for (const char* top : {"conv", "drop"}) {
    const std::string text =
        InputText("data", {kBatch, 3, 8, 8}) +
        LayerText("conv", "Convolution", "data", "conv", kWide) +
        LayerText("relu", "ReLU", "conv", "conv") +
        LayerText("drop", "Dropout", "conv", top, "dropout_param { scale_train: false }") +
        LayerText("out", "Convolution", top, "out", kWide);
    EXPECT_GT(OutcomeOf(text, Options()).snr, 30) << top;
    EXPECT_GT(OutcomeOf(text, Options(kQuant16)).snr, 75) << top;
  }
}

// A layer changes the Concat's top in place: the bottoms have the range of what the Concat writes.
TEST(QuantizeNetTest, RangesOfAConcatThatIsChangedInPlace) {
  const std::string begin = InputText("data", {kBatch, 3, 8, 8}) +
                            LayerText("a", "Convolution", "data", "a", kWide) +
                            LayerText("b", "Convolution", "data", "b", kWide);
  const std::string concat =
      "layer { name: 'cat' type: 'Concat' bottom: 'a' bottom: 'b' top: 'cat' } ";
  const std::string nested =
      concat + LayerText("c", "Convolution", "data", "c", kWide) +
      "layer { name: 'all' type: 'Concat' bottom: 'cat' bottom: 'c' top: 'all' } ";
  const std::string sum =
      "layer { name: 'all' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'all' } ";
  struct Case {
    std::string text, blob;
  };
  for (const Case& one : {Case{concat, "cat"}, Case{nested, "all"}, Case{sum, "all"}}) {
    for (const std::string& change :
         {std::string(), LayerText("x", "ReLU", one.blob, one.blob),
          LayerText("x", "ReLU", one.blob, one.blob, "relu_param { negative_slope: 0.1 }"),
          LayerText("x", "AbsVal", one.blob, one.blob),
          LayerText("x", "Sigmoid", one.blob, one.blob),
          LayerText("x", "PReLU", one.blob, one.blob),
          LayerText("s", "Scale", one.blob, one.blob,
                    "scale_param { filler { value: -1 } bias_term: true }") +
              LayerText("x", "ReLU", one.blob, one.blob),
          LayerText("s", "BatchNorm", one.blob, one.blob) +
              LayerText("x", "ReLU", one.blob, one.blob)}) {
      for (const DataType type : {kQuant8, kQuant16}) {
        QuantizeOptions options = Options(type);
        if (type == kQuant8) options.calibration.method = CalibrationMethod::kMinMax;
        const std::string text =
            begin + one.text + change + LayerText("out", "Convolution", one.blob, "out", kWide);
        EXPECT_GT(OutcomeOf(text, options).snr, type == kQuant8 ? 27 : 70)
            << one.blob << " " << change;
      }
    }
  }
}

TEST(QuantizeNetTest, TheFileKeepsTheMethod) {
  for (const char* method : {"min_max", "percentile", "mse", "kl"}) {
    QuantizeOptions options = Options();
    options.calibration.method = MethodByName(method);
    const QuantizedNet net = Quantized(options);
    NetParameter saved;
    Loaded(net)->ToProto(&saved);
    for (const NetParameter& file : {*net.weights, saved}) {
      std::string found;
      for (const QuantizerParameter& quantizer : file.quantizer()) {
        if (quantizer.name() == "conv1") found = quantizer.method();
      }
      EXPECT_EQ(found, method);
    }
  }
}

TEST(QuantizeNetTest, WeightsAreSmallAndLoadTheSameCodes) {
  // Large enough that names do not count.
  const std::string text = "name: 'wide' " + InputText("data", {kBatch, 3, 8, 8}) +
                           ConvText("conv1", "data", 64) + ConvText("conv2", "conv1", 128) +
                           InnerProductText("prob", "conv2", 10);
  const Data data(text, 6);
  for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
    const QuantizedNet net =
        QuantizeNet(ParseNet(text), Weights(text), data.Reader(), Options(type));
    const double part = static_cast<double>(net.report.bytes) / net.report.float_bytes;
    EXPECT_LT(part, type == kQuant8 ? 0.26 : 0.51) << type.name();
    EXPECT_EQ(static_cast<size_t>(net.report.bytes), net.weights->ByteSizeLong());
    EXPECT_EQ(HasCodedParameters(*net.weights), type.is_quantized());
    if (!type.is_quantized()) continue;
    // Rounding what was loaded gives the codes of the file.
    NetParameter decoded = *net.weights;
    DecodeParameters(&decoded);
    const int most = type == kQuant8 ? 127 : 32767;
    for (int l = 0; l < decoded.layer_size(); ++l) {
      const auto& values = decoded.layer(l).blobs(0).data();
      const std::string& bytes = net.weights->layer(l).blobs(0).packed_data();
      const int64_t channels = decoded.layer(l).blobs(1).data_size();
      const int64_t depth = values.size() / channels;
      for (int64_t c = 0; c < channels; ++c) {
        double largest = 0;
        for (int64_t i = 0; i < depth; ++i) {
          largest = std::max<double>(largest, std::abs(values[c * depth + i]));
        }
        for (int64_t i = c * depth; i < (c + 1) * depth; ++i) {
          int64_t code = 0;
          std::memcpy(&code, bytes.data() + i * type.bytes(), type.bytes());
          ASSERT_EQ(code - most - 1, std::llround(values[i] / (largest / most)));
        }
      }
    }
  }
}

TEST(QuantizeNetTest, ADamagedLayerIsFirst) {
  QuantizeOptions options = Options();
  options.ranges["conv1"] = {-0.01, 0.01};
  const QuantizedNet net = Quantized(options);
  const LayerReport& worst = net.report.layers[0];
  EXPECT_EQ(worst.layer, "conv1");
  EXPECT_EQ(worst.range.origin, "given");
  EXPECT_GT(worst.clipped_percent, 40);
  EXPECT_LT(worst.own_snr, 3);
  EXPECT_LT(*net.report.agreement, 80);
  // Its row is the first of all three reports.
  EXPECT_LT(ReportText(net.report).find("conv1"), ReportText(net.report).find("score"));
  const std::string json = ReportJson(net.report), html = ReportHtml(net.report);
  EXPECT_EQ(json.find("\"layer\": \""), json.find("\"layer\": \"conv1\""));
  EXPECT_LT(html.find("<td>conv1</td>"), html.find("<td>score</td>"));
  EXPECT_NE(html.find("<svg"), std::string::npos);
  for (const char* outside : {"<script", "http", "src=", "<link"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(QuantizeNetTest, MaxDropWidensTheDamagedLayer) {
  QuantizeOptions options = Options();
  options.ranges["conv1"] = {-0.01, 0.01};
  options.max_drop = 10;
  const QuantizedNet net = Quantized(options);
  // No range of integers helps: the layer becomes float.
  EXPECT_TRUE(net.report.within_max_drop);
  EXPECT_GE(*net.report.quantized_top1, 90);
  EXPECT_EQ(net.report.wider.at("conv1"), "float");
  EXPECT_EQ(Row(net.report, "conv1").type, "float");
  EXPECT_EQ(Loaded(net)->LayerByName("conv1")->types().compute, kFloat);
  // A net that meets the budget has no wider layers.
  options.ranges.clear();
  options.max_drop = 20;
  EXPECT_TRUE(Quantized(options).report.wider.empty());
  options.max_drop = 0;
  const QuantizedNet exact = Quantized(options);
  EXPECT_TRUE(exact.report.within_max_drop);
  EXPECT_EQ(exact.report.quantized_top1, 100);
}

// The biases of a layer are those of the given weights.
bool HasGivenBiases(const QuantizedNet& net, const std::string& name) {
  const auto biases = [&](const NetParameter& file) {
    for (const LayerParameter& layer : file.layer()) {
      if (layer.name() != name) continue;
      const auto& data = layer.blobs(1).data();
      return std::vector<float>(data.begin(), data.end());
    }
    throw Error("no layer " + name);
  };
  return biases(*net.weights) == biases(Weights(NetText()));
}

// A change for 8 bits would only add noise in a wider type.
TEST(QuantizeNetTest, LayersOfOtherTypesHaveExactWeights) {
  QuantizeOptions options = Options();
  options.ranges["conv1"] = {-0.01, 0.01};
  options.max_drop = 10;
  options.bias_correction = options.adaround = true;
  const QuantizedNet net = Quantized(options);
  // A layer becomes float after all have become int16.
  ASSERT_EQ(net.report.wider.at("conv1"), "float");
  for (const char* name : {"conv1", "left", "right", "score"}) {
    EXPECT_EQ(net.report.wider.count(name), 1u);
    EXPECT_TRUE(HasGivenBiases(net, name)) << name;
  }
  EXPECT_EQ(net.report.corrected_biases, 0);
  EXPECT_EQ(Row(net.report, "conv1").rounding, "");
  // A type in the prototxt counts like a wider one.
  NetParameter model = ParseNet(NetText());
  for (LayerParameter& layer : *model.mutable_layer()) {
    if (layer.name() == "left") layer.set_compute_data_type(CAFFE_FLOAT);
  }
  options = Options();
  options.bias_correction = true;
  const Data data(NetText(), 12);
  const QuantizedNet typed = QuantizeNet(model, Weights(NetText()), data.Reader(), options);
  EXPECT_TRUE(HasGivenBiases(typed, "left"));
  EXPECT_FALSE(HasGivenBiases(typed, "right"));
  EXPECT_EQ(typed.report.corrected_biases, 3);
}

// All weights are a little above the middle between two codes: each rounding adds to the output.
TEST(QuantizeNetTest, BiasCorrectionRemovesTheMeanError) {
  NetParameter weights = Weights(NetText());
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.name() != "score") continue;
    auto* data = layer.mutable_blobs(0)->mutable_data();
    const int depth = data->size() / 10;
    for (int i = 0; i < data->size(); ++i) {
      data->Set(i, i % depth == 0 ? 1.27f : 0.01f * (i % 7) + 0.0052f);
    }
  }
  const auto mean_error = [&](bool correct) {
    const Data data(NetText(), 12);
    QuantizeOptions options = Options();
    options.bias_correction = correct;
    const QuantizedNet net = QuantizeNet(ParseNet(NetText()), weights, data.Reader(), options);
    EXPECT_EQ(net.report.corrected_biases, correct ? 4 : 0);
    return Row(net.report, "score").snr;
  };
  EXPECT_GT(mean_error(true), mean_error(false) + 3);
}

// Channels of very different sizes between convolutions: the net computes the same, and its codes
// have less error.
TEST(QuantizeNetTest, EqualizedChannelsHaveLessError) {
  const std::string pool =
      "layer { name: 'pool' type: 'Pooling' bottom: 'concat' top: 'pool'"
      " pooling_param { kernel_size: 2 stride: 2 } } ";
  const std::string text =
      "name: 'chain' " + InputText("data", {kBatch, 3, 8, 8}) + ConvText("conv1", "data", 16) +
      ReluText("relu1", "conv1") +
      "layer { name: 'depthwise' type: 'Convolution' bottom: 'conv1' top: 'depthwise'"
      " convolution_param { num_output: 16 group: 16 kernel_size: 3 pad: 1"
      " weight_filler { type: 'uniform' min: -0.3 max: 0.3 } } } " +
      ReluText("relu2", "depthwise") + ConvText("left", "depthwise", 8) +
      ReluText("relu3", "left") + ConvText("right", "depthwise", 8) + ReluText("relu4", "right") +
      "layer { name: 'concat' type: 'Concat' bottom: 'left' bottom: 'right' top: 'concat' } " +
      pool + InnerProductText("score", "pool", 10) +
      "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
  // A balanced net in which every fourth channel of each blob is made 30 times as large, and the
  // weights that read it as small.
  NetParameter weights = Weights(text);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.blobs_size() == 0) continue;
    auto* data = layer.mutable_blobs(0)->mutable_data();
    const int64_t outputs = layer.blobs(1).shape().dim(0);
    const int64_t depth = data->size() / outputs;
    const int64_t window = layer.name() == "score" ? 16 : 9;
    const bool produces = layer.name() != "score" && layer.name() != "depthwise";
    const bool consumes = layer.name() != "conv1" && layer.name() != "depthwise";
    for (int i = 0; i < data->size(); ++i) {
      float factor = 1;
      if (produces && i / depth % 4 == 0) factor *= 30;
      if (consumes && i % depth / window % 4 == 0) factor /= 30;
      data->Set(i, data->Get(i) * factor);
    }
    auto* bias = layer.mutable_blobs(1)->mutable_data();
    for (int c = 0; c < bias->size(); ++c) {
      if (layer.name() != "score" && c % 4 == 0) bias->Set(c, bias->Get(c) * 30);
    }
  }
  Data data(text, 10);
  const auto quantized = [&](bool equalize) {
    QuantizeOptions options = Options();
    options.equalize = equalize;
    return QuantizeNet(ParseNet(text), weights, data.Reader(), options);
  };
  const QuantizedNet plain = quantized(false), equal = quantized(true);
  EXPECT_EQ(plain.report.equalized_layers, 0);
  EXPECT_EQ(equal.report.equalized_layers, 4);
  EXPECT_GT(Row(equal.report, "score").snr, Row(plain.report, "score").snr + 3);
}

TEST(QuantizeNetTest, Errors) {
  const Data data(NetText(), 4);
  const NetParameter model = ParseNet(NetText()), weights = Weights(NetText());
  const auto message = [&](const NetParameter& file, const QuantizeOptions& options,
                           const BatchReader& read) {
    return MessageOf([&] { QuantizeNet(model, file, read, options); });
  };
  EXPECT_NE(message(weights, Options(), data.Reader()).find("no data is left"), std::string::npos);
  EXPECT_NE(message(weights, Options(), [](int64_t, Batch*) { return false; })
                .find("there is no data to calibrate with"),
            std::string::npos);
  NetParameter missing = weights;
  missing.mutable_layer(1)->set_name("other");
  EXPECT_NE(message(missing, Options(), data.Reader())
                .find("the weights have no parameters for layer 'conv1' (Convolution)"),
            std::string::npos);
  EXPECT_NE(message(weights, Options(kFloat), data.Reader()).find("float"), std::string::npos);
  QuantizeOptions options = Options();
  options.ranges["nothing"] = {0, 1};
  EXPECT_NE(message(weights, options, data.Reader()).find("'nothing'"), std::string::npos);
}

// A blob without a finite value is named, with the layer that made it.
TEST(QuantizeNetTest, BlobsWithoutAFiniteValueAreNamed) {
  const auto text = [](const std::string& function) {
    return "name: 'lost' " + InputText("data", {kBatch, 3, 8, 8}) + ConvText("conv1", "data", 4) +
           "layer { name: 'abs' type: 'AbsVal' bottom: 'conv1' top: 'abs' } "
           "layer { name: 'minus' type: 'Power' bottom: 'abs' top: 'minus' power_param { scale: -1 "
           "shift: -1 } } layer { name: 'function' type: " +
           function + InnerProductText("score", "function", 10) +
           "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
  };
  const std::string power = "'Power' bottom: 'minus' top: 'function' power_param { power: 0.5 } } ",
                    log = "'Log' bottom: 'minus' top: 'function' } ";
  for (const auto& [type, function] : {std::pair{"Power", power}, std::pair{"Log", log}}) {
    std::vector<float> values(kBatch * 3 * 64, 0.5f);
    const BatchReader read = [&](int64_t index, Batch* batch) {
      batch->values["data"] = values;
      return index < 8;
    };
    for (const DataType codes : {kQuant8, kQuant16}) {
      const std::string message = MessageOf([&, made = text(function)] {
        QuantizeNet(ParseNet(made), Weights(made), read, Options(codes));
      });
      EXPECT_TRUE(Holds(message, Concat("layer 'function' (", type, "): all ", 4 * kBatch * 4 * 64,
                                        " values of its blob 'function' were NaN or infinite")))
          << message;
      EXPECT_TRUE(Holds(message, Concat("no range for ", codes.name()))) << message;
      EXPECT_FALSE(Holds(message, "calibrate:")) << message;
    }
    // Half kinds need no ranges.
    const std::string made = text(function);
    EXPECT_NO_THROW(QuantizeNet(ParseNet(made), Weights(made), read, Options(kHalf)));
  }
}

TEST(QuantizeNetTest, WritesAllFilesOrNone) {
  const QuantizedNet net = Quantized(Options());
  const std::string folder = testing::TempDir() + "/quantize_net";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string prefix = folder + "/small";
  WriteQuantizedNet(net, prefix);
  for (const char* end : {".caffemodel", ".prototxt", ".json", ".html"}) {
    EXPECT_GT(std::filesystem::file_size(prefix + end), 100u) << end;
  }
  const NetParameter read = ReadNetParameterBinary(prefix + ".caffemodel");
  EXPECT_EQ(read.SerializeAsString(), net.weights->SerializeAsString());
  EXPECT_EQ(ReadNetParameter(prefix + ".prototxt").data_type(), CAFFE_INT8_QUANTIZED);
  // One file that cannot be written: the others do not change.
  std::filesystem::remove(prefix + ".html");
  std::filesystem::create_directories(prefix + ".html/full");
  QuantizedNet other = net;
  other.report.net = "changed";
  EXPECT_THROW(WriteQuantizedNet(other, prefix), Error);
  EXPECT_EQ(ReadFile(prefix + ".json"), ReportJson(net.report));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 4);
  std::filesystem::remove_all(folder);
}

// A net with data layers calibrates with them, and its prototxt keeps them.
TEST(QuantizeNetTest, DataLayersAreRead) {
  const std::string text =
      "name: 'train_val' layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'"
      " dummy_data_param { shape { dim: 8 dim: 3 dim: 8 dim: 8 } shape { dim: 8 }"
      " data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'constant' value: 2 } } "
      "}" +
      ConvText("conv1", "data", 8) + ReluText("relu1", "conv1") +
      InnerProductText("score", "conv1", 10) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: 'loss'"
      " include { phase: TRAIN } } "
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' bottom: 'label' top: 'accuracy'"
      " include { phase: TEST } } ";
  const NetParameter model = ParseNet(text);
  ASSERT_TRUE(HasDataLayers(model));
  ASSERT_FALSE(HasDataLayers(ParseNet(NetText())));
  DataLayerBatches batches(model, Cpu());
  Batch first, again;
  ASSERT_TRUE(batches.Read(0, &first));
  ASSERT_TRUE(batches.Read(1, &again));
  ASSERT_TRUE(batches.Read(0, &again));
  EXPECT_EQ(first.values, again.values);
  QuantizeOptions options = Options();
  options.held_out_batches = 3;
  const QuantizedNet net = QuantizeNet(
      model, Weights(text), [&](int64_t i, Batch* batch) { return batches.Read(i, batch); },
      options);
  EXPECT_EQ(net.report.scores, "score");
  EXPECT_EQ(net.report.held_out_items, 24);
  EXPECT_TRUE(net.report.float_top1.has_value());
  EXPECT_EQ(net.model->layer(0).type(), "DummyData");
  EXPECT_EQ(net.model->layer_size(), model.layer_size());
  EXPECT_EQ(Loaded(net)->LayerByName("conv1")->types().compute, kQuant8);
}

QuantizeOptions Dynamic() {
  QuantizeOptions options = Options();
  options.calibration.method = CalibrationMethod::kDynamic;
  options.calibration_batches = 0;
  return options;
}

double Snr(const std::vector<double>& wanted, const std::vector<double>& values) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    signal += wanted[i] * wanted[i];
    noise += (wanted[i] - values[i]) * (wanted[i] - values[i]);
  }
  return 10 * std::log10(signal / noise);
}

TEST(QuantizeNetTest, MethodDynamicNeedsNoData) {
  const QuantizedNet net = QuantizeNet(ParseNet(NetText()), Weights(NetText()), nullptr, Dynamic());
  EXPECT_EQ(net.model->state().quantizer_mode(), CAFFE_QUANT_DYNAMIC);
  EXPECT_EQ(net.model->data_type(), CAFFE_INT8_QUANTIZED);
  EXPECT_EQ(net.report.held_out_items, 0);
  EXPECT_TRUE(Holds(net.report.no_top1, "no data were given"));
  EXPECT_LT(net.report.bytes, 0.4 * static_cast<double>(net.report.float_bytes));
  for (const double ms : {net.report.float_ms, net.report.dynamic_ms, net.report.known_ranges_ms}) {
    EXPECT_GT(ms, 0);
  }
  EXPECT_TRUE(Holds(ReportText(net.report), "ms with ranges that are known"));
  for (const QuantizerParameter& entry : net.weights->quantizer()) {
    EXPECT_TRUE(Holds(entry.name(), "_blobs_0_quant"));  // no range of a blob
  }
  const auto loaded = Loaded(net), reference = MakeNet(NetText(), Cpu());
  for (const double factor : {1.0, 50.0}) {
    std::vector<double> numbers = TestNumbers(kBatch * 3 * 64, 5);
    for (double& number : numbers) number *= factor;
    for (Net* each : {loaded.get(), reference.get()}) {
      each->BlobByName("data")->SetData(numbers);
      each->Forward();
    }
    EXPECT_GT(Snr(Values(*reference, "score"), Values(*loaded, "score")), 25);
  }
}

TEST(QuantizeNetTest, MethodDynamicComparesAllBatches) {
  const QuantizedNet net = Quantized(Dynamic());
  EXPECT_EQ(net.report.calibration_items, 0);
  EXPECT_EQ(net.report.held_out_items, 12 * kBatch);
  EXPECT_EQ(net.report.float_top1, 100);
  EXPECT_GT(*net.report.agreement, 85);
  EXPECT_EQ(net.report.method, "dynamic");
  const LayerReport& conv = Row(net.report, "right");
  EXPECT_EQ(conv.type, "quant8");
  EXPECT_FALSE(conv.range.known());
  EXPECT_GT(conv.snr, 25);
  // It is quantized again from its own files: they have no float mode left.
  const QuantizedNet again = QuantizeNet(*net.model, *net.weights, nullptr, Dynamic());
  EXPECT_EQ(again.model->SerializeAsString(), net.model->SerializeAsString());
}

TEST(QuantizeNetTest, MethodDynamicRefusesWhatNeedsData) {
  const auto error = [](const std::function<void(QuantizeOptions*)>& change) {
    QuantizeOptions options = Dynamic();
    change(&options);
    return MessageOf(
        [&] { QuantizeNet(ParseNet(NetText()), Weights(NetText()), nullptr, options); });
  };
  EXPECT_TRUE(Holds(error([](QuantizeOptions* o) { o->type = kQuant16; }),
                    "method dynamic is for int8, not for quant16"));
  EXPECT_TRUE(
      Holds(error([](QuantizeOptions* o) { o->bias_correction = true; }), "need another method"));
  EXPECT_TRUE(Holds(error([](QuantizeOptions* o) { o->calibration_batches = 2; }),
                    "calibrates nothing, but 2 batches"));
}

TEST(QuantizeNetTest, ScalesArePowersOfTwo) {
  const auto is_power = [](double value) {
    int exponent;
    return value > 0 && std::frexp(value, &exponent) == 0.5;
  };
  for (const DataType type : {kQuant8, kQuant16}) {
    QuantizeOptions options = Options(type);
    options.calibration.power_of_two = true;
    const QuantizedNet net = Quantized(options);
    EXPECT_GT(*net.report.agreement, type == kQuant8 ? 80 : 98);
    EXPECT_TRUE(Holds(ReportText(net.report), "are powers of two"));
    const auto loaded = Loaded(net);
    FillInputs(loaded.get());
    loaded->Forward();
    int blobs = 0;
    for (const auto& blob : loaded->blobs()) {
      if (!blob->type().is_quantized()) continue;
      ++blobs;
      EXPECT_TRUE(is_power(blob->range().scale)) << blob->name() << " " << blob->range().scale;
    }
    EXPECT_GT(blobs, 3);
    int scales = 0;
    for (const QuantizerParameter& entry : net.weights->quantizer()) {
      for (const float scale : entry.channel_scale()) {
        ++scales;
        EXPECT_TRUE(is_power(scale)) << entry.name() << " " << scale;
      }
    }
    EXPECT_EQ(scales, 16 + 24 + 40 + 10);
  }
  QuantizeOptions options = Options();
  options.calibration.power_of_two = options.adaround = true;
  EXPECT_TRUE(Holds(MessageOf([&] { Quantized(options); }), "need scales any"));
}

}  // namespace
}  // namespace caffe
