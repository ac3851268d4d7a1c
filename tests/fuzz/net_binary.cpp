// A binary net, as a file and as a message of another program, and the repair of foreign fields.
#include <google/protobuf/text_format.h>

#include "caffe.pb.h"
#include "caffe/io/binary_net.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/wire_repair.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// A net that was upgraded is not upgraded again.
void CheckBytes(const NetParameter& net) {
  const std::string bytes = net.SerializeAsString();
  NetParameter copy;
  if (!copy.ParseFromString(bytes)) Fault("a net that was read cannot be read again");
  UpgradeBinaryNet("the copy", &copy);
  std::string text, again;
  google::protobuf::TextFormat::PrintToString(net, &text);
  google::protobuf::TextFormat::PrintToString(copy, &again);
  if (text != again) Fault("the net changes: " + text + "\nand\n" + again);
}

void ReadNet(std::string_view bytes) {
  DropForeignLayerFields(bytes);
  try {
    CheckBytes(ParseNetParameter(std::string(bytes), "the message"));
  } catch (const Error&) {
    // A file may have an unknown field, which a message may not.
  }
  CheckBytes(ReadNetParameterBinary(WriteInput("net.caffemodel", bytes)));
}

std::string Bytes(const std::string& text) {
  NetParameter net;
  if (!google::protobuf::TextFormat::ParseFromString(text, &net)) Fault("a seed is wrong");
  return net.SerializeAsString();
}

std::vector<Input> Seeds() {
  const std::string layer = Bytes(
      "name: 'n' layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' param { lr_mult: 2 }"
      " blobs { shape { dim: 2 dim: 2 } data: [1, 2, 3, 4] } inner_product_param { num_output: 2 } "
      "}");
  // Intel's engine, a string with the number of another message here.
  NetParameter intel;
  intel.ParseFromString(layer);
  std::string inner = intel.layer(0).SerializeAsString() + "\xaa\x09\x06MKLDNN";
  std::string outer = "\xa2\x06";
  outer += static_cast<char>(inner.size());
  return {
      {"current", layer},
      {"engine", outer + inner},
      {"v1",
       Bytes("input: 'd' input_dim: [1, 3, 8, 8] layers { name: 'c' type: CONVOLUTION "
             "bottom: 'd' top: 'c' blobs { num: 1 channels: 1 height: 1 width: 2 "
             "data: [1, 2] } blobs_lr: [1, 2] weight_decay: 1 param: 'w' "
             "blob_share_mode: PERMISSIVE convolution_param { num_output: 2 kernel_size: 3 } } "
             "layers { name: 'data' type: DATA top: 'd' data_param { scale: 0.5 mirror: true "
             "source: 's' } }")},
      {"v0", Bytes("input: 'd' layers { layer { name: 'pad' type: 'padding' pad: 2 } bottom: 'd' "
                   "top: 'p' } layers { layer { name: 'c' type: 'conv' num_output: 4 kernelsize: 3 "
                   "weight_filler { type: 'xavier' } blobs { data: 1 } blobs_lr: 1 } bottom: 'p' "
                   "top: 'c' } layers { layer { name: 'o' type: 'hdf5_output' hdf5_output_param { "
                   "file_name: 'f' } } bottom: 'c' }")},
      {"nested",
       Bytes("layer { name: 'm' type: 'MOE' moe_param { gating_net { layer { name: 'g' "
             "type: 'Softmax' } } expert_net { layers { type: RELU } } } } "
             "layer { name: 'b' type: 'BatchNorm' param { lr_mult: 1 } param { } param { } } "
             "layer { name: 'p' type: 'Pooling' pooling_param { kernel_size_nd: [2, 3] "
             "stride_nd: 1 } } layer { name: 'c' type: 'MergeCrop' clip_param { min: 1 "
             "max: 2 } }")},
  };
}

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  return MutateBytes(NetParameter(), bytes, most, seed);
}

const Registration registration(
    {.name = "net_binary", .run = ReadNet, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
