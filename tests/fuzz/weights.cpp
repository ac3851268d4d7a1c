// A caffemodel for a fixed net, through every way of -weights: the outline with arrays that stay in
// the file, the whole file, and arrays that are mapped. A file that is refused changes nothing.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdio>

#include "caffe/io/weights_file.hpp"
#include "caffe/memory/blob.hpp"
#include "fuzz/support/fixed_net.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// `ip` has an array of 4 KiB, which stays in the file; `twin` shares it; `half` converts.
const char* const kNet = R"(
    name: "fixed"
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }
    layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
            convolution_param { num_output: 2 kernel_size: 3 pad: 1
                                weight_filler { type: "xavier" } } }
    layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
    layer { name: "flat" type: "Flatten" bottom: "x" top: "flat" }
    layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip" param { name: "w" }
            inner_product_param { num_output: 32 weight_filler { type: "xavier" } } }
    layer { name: "twin" type: "InnerProduct" bottom: "ip" top: "twin" param { name: "w" }
            inner_product_param { num_output: 32 bias_term: false } }
    layer { name: "half" type: "InnerProduct" bottom: "twin" top: "half"
            compute_data_type: CAFFE_HALF
            inner_product_param { num_output: 3 weight_filler { type: "xavier" } } })";

Net& Fixed() {
  static Net* const net = MakeNet(kNet).release();
  return *net;
}

const NetParameter& Sound() {
  static const auto* const sound = [] {
    auto* parameter = new NetParameter;
    Fixed().ToProto(parameter);
    return parameter;
  }();
  return *sound;
}

void ReadAll(const std::string& path) {
  const WeightsFile file(path);
  int index = 0;
  for (const LayerParameter& layer : file.net().layer()) {
    for (int b = 0; b < layer.blobs_size(); ++b, ++index) {
      const int64_t elements = file.Elements(index), bytes = file.PackedBytes(index);
      if (elements >= 0) {
        std::vector<float> values(static_cast<size_t>(elements));
        file.Read(index, 0, elements, values.data());
      }
      if (bytes >= 0) {
        std::string values(static_cast<size_t>(bytes), '\0');
        file.ReadPacked(index, values.data());
      }
      const auto mapped = file.Map(index);
      if (mapped && mapped.get()[0] == 'x') index += 0;  // reads it
    }
  }
}

void ReadWeights(std::string_view bytes) {
  Net& net = Fixed();
  const std::string before = WeightBytes((Sound(), net));
  const std::string path = WriteInput("weights.caffemodel", bytes);
  bool taken = false;
  const auto copy = [&](bool map, bool whole, MissingWeights missing) {
    WeightsOptions options;
    options.map = map;
    options.whole = whole;
    options.missing = missing;
    try {
      net.CopyTrainedLayersFrom(path, options);
    } catch (const Error&) {
      if (WeightBytes(net) != before) Fault("weights that were refused changed the net");
      return;
    }
    taken = true;
    const std::string after = WeightBytes(net);
    net.CopyTrainedLayersFrom(Sound());
    if (after.size() != before.size() || WeightBytes(net) != before) {
      Fault("the net does not take its own weights back");
    }
  };
  copy(false, false, MissingWeights::kWarn);
  copy(false, true, MissingWeights::kRefuse);
  copy(true, false, MissingWeights::kAllow);
  try {
    ReadAll(path);
  } catch (const Error&) {
  }
  std::remove(path.c_str());  // a mapped file must not be truncated
  if (!taken) throw Error("refused");
}

std::vector<Input> Seeds() {
  const NetParameter& net = Sound();
  std::vector<Input> seeds{{"plain", net.SerializeAsString()}};
  std::string aligned;
  {
    google::protobuf::io::StringOutputStream stream(&aligned);
    WriteAlignedNet(net, &stream);
  }
  seeds.push_back({"aligned", aligned});
  NetParameter diffs;
  Fixed().ToProto(&diffs, true);
  diffs.mutable_layer()->DeleteSubrange(4, diffs.layer_size() - 4);
  seeds.push_back({"diffs", diffs.SerializeAsString()});
  NetParameter old = net;  // before 2014
  for (LayerParameter& layer : *old.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      if (blob.shape().dim_size() != 2) continue;
      blob.set_num(1);
      blob.set_channels(1);
      blob.set_height(static_cast<int>(blob.shape().dim(0)));
      blob.set_width(static_cast<int>(blob.shape().dim(1)));
      blob.clear_shape();
    }
  }
  seeds.push_back({"legacy_shapes", old.SerializeAsString()});
  NetParameter v1 = NetFromText(
      "name: 'v1' layers { name: 'conv' type: CONVOLUTION blobs { num: 2 channels: 1 height: 3 "
      "width: 3 data: 1 data: 2 } blobs { num: 1 channels: 1 height: 1 width: 2 data: 1 data: 2 } "
      "convolution_param { num_output: 2 kernel_size: 3 } }");
  for (int i = 2; i < 18; ++i) v1.mutable_layers(0)->mutable_blobs(0)->add_data(1);
  seeds.push_back({"v1", v1.SerializeAsString()});
  return seeds;
}

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  return MutateBytes(NetParameter(), bytes, most, seed);
}

const Registration registration(
    {.name = "weights", .run = ReadWeights, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
