// Packed weights (half, 8 and 16 bits) with their ranges, as `caffe quantize` writes and reads
// them: into nets that compute in float and in codes, and as a model that is changed further.
#include <cstdio>

#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "caffe/transform/transform.hpp"
#include "fuzz/support/fixed_net.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

std::string NetText(const std::string& type) {
  const std::string types = " bottom_data_type: " + type + " compute_data_type: " + type +
                            " top_data_type: " + type + " ";
  return R"(
      name: "packed"
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
      layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" )" +
         types + R"(
              convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
      layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" )" +
         types + R"(
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "out" type: "TanH" bottom: "ip" top: "out" })";
}

// The layers that the passes of `caffe transform` fold.
const char* const kModel = R"(
    name: "packed"
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
    layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
            convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
    layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
    layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param { bias_term: true } }
    layer { name: "ip" type: "InnerProduct" bottom: "scale" top: "ip"
            inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "power" type: "Power" bottom: "ip" top: "power" power_param { scale: 2 shift: 1 } })";

struct Nets {
  NetParameter sound;  // float, with ranges
  NetParameter model;
  std::vector<std::unique_ptr<Net>> nets;

  static Nets& Get() {
    static auto* const nets = new Nets;
    return *nets;
  }

 private:
  Nets() {
    const auto net = MakeNet(NetText("CAFFE_FLOAT"));
    net->set_observe(true);
    net->input_blobs()[0]->SetData(std::vector<double>(32, 0.5));
    net->Forward();
    net->ToProto(&sound);
    MakeNet(kModel)->ToProto(&model);
    for (const char* type : {"CAFFE_FLOAT", "CAFFE_INT8_QUANTIZED", "CAFFE_HALF"}) {
      nets.push_back(MakeNet(NetText(type)));
      nets.back()->CopyTrainedLayersFrom(sound);
      nets.back()->input_blobs()[0]->SetData(std::vector<double>(32, 0.5));
      nets.back()->Forward();
    }
  }
};

// As `caffe transform` does.
void Transform(const std::string& path, bool rounds) {
  TransformOptions options;
  options.passes = {"all", rounds ? "round" : "quantize_weights"};
  options.device = Runtime::Get().cpu();
  TransformReport report;
  TransformModel(ReadModel(NetFromText(kModel), {path}), options, &report);
}

void ReadPacked(std::string_view bytes) {
  Nets& fixed = Nets::Get();
  const std::string path = WriteInput("packed.caffemodel", bytes);
  bool taken = false;
  for (size_t n = 0; n < fixed.nets.size(); ++n) {
    Net& net = *fixed.nets[n];
    WeightsOptions options;
    options.map = n == 1;
    try {
      net.CopyTrainedLayersFrom(path, options);
      net.Forward();
      taken = true;
    } catch (const Error&) {
    }
    net.CopyTrainedLayersFrom(fixed.sound);
  }
  try {
    // It takes far longer than the rest.
    if (std::hash<std::string_view>()(bytes) % 16 == 0) Transform(path, bytes.size() % 2 == 0);
  } catch (const Error&) {
  }
  std::remove(path.c_str());  // a mapped file must not be truncated
  if (!taken) throw Error("refused");
}

std::vector<Input> Seeds() {
  const NetParameter& sound = Nets::Get().sound;
  TransformNotes notes;
  return {{"float", sound.SerializeAsString()},
          {"model", Nets::Get().model.SerializeAsString()},
          {"int8", QuantizeWeights(sound, kQuant8, &notes).SerializeAsString()},
          {"int16", QuantizeWeights(sound, kQuant16, &notes).SerializeAsString()},
          {"half", RoundWeights(sound, kHalf, &notes).SerializeAsString()},
          {"bfloat16", RoundWeights(sound, kBfloat16, &notes).SerializeAsString()}};
}

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  return MutateBytes(NetParameter(), bytes, most, seed);
}

const Registration registration(
    {.name = "packed", .run = ReadPacked, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
