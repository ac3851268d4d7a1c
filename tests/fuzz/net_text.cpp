// A net's prototxt, read as the commands and Net(path) read it.
#include <google/protobuf/text_format.h>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/net/net_file.hpp"
#include "fuzz/support/field_words.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// A message that was read is written, and read again to the same message.
void CheckText(const NetParameter& net) {
  std::string text, again;
  google::protobuf::TextFormat::PrintToString(net, &text);
  NetParameter copy;
  try {
    ParseTextProto(text, "the text of the net", &copy);
  } catch (const Error& error) {
    // Names are quoted in text, so nothing of the message can be misread.
    Fault("what was read cannot be read again: " + std::string(error.what()));
  }
  google::protobuf::TextFormat::PrintToString(copy, &again);
  if (text != again) Fault("the text of the net changes: " + text + "\nand\n" + again);
}

void ReadNet(std::string_view bytes) {
  LayerLines lines;
  const NetParameter net = ReadNetFile(WriteInput("net.prototxt", bytes), &lines);
  if (!lines.lines.empty() && lines.lines.size() != static_cast<size_t>(net.layer_size())) {
    Fault(Concat(lines.lines.size(), " lines for ", net.layer_size(), " layers"));
  }
  for (const OptionalName& name : lines.names) {
    if (name.layer < 0 || name.layer >= net.layer_size())
      Fault("a name of a layer outside the net");
  }
  CheckText(net);
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const std::string end : {"deploy.prototxt", "net.prototxt", "train_test.prototxt"}) {
    for (Input& input : RepositoryFiles("models", end)) {
      if (input.bytes.size() < 5000) seeds.push_back(std::move(input));
    }
  }
  seeds.push_back({"v1",
                   "input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n"
                   "layers { name: 'c' type: CONVOLUTION bottom: 'data' top: 'c' blobs_lr: 1\n"
                   "  weight_decay: 1 param: 'w' convolution_param { num_output: 2 "
                   "kernel_size: 3 } }\n"
                   "layers { name: 'l' type: SOFTMAX_LOSS bottom: 'c' include: "
                   "{ phase: TRAIN } }\n"});
  seeds.push_back(
      {"v0",
       "input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n"
       "layers { layer { name: 'pad' type: 'padding' pad: 2 } bottom: 'data' top: 'p' }\n"
       "layers { layer { name: 'c' type: 'conv' num_output: 4 kernelsize: 3 stride: 2\n"
       "  weight_filler { type: 'xavier' } blobs_lr: 1 } bottom: 'p' top: 'c' }\n"
       "layers { layer { name: 'r' type: 'relu' } bottom: 'c' top: 'c' }\n"});
  seeds.push_back({"odd",
                   "\xef\xbb\xbfname: 'a' 'b' # c\n\tlayer: [ < name: \"\\033\\xff\" type: 'ReLU' "
                   "include { phase: TEST }\n relu_param: { negative_slope: -1e-3f } >,\n {} ]\n"
                   "layer { type: 'Pooling' pooling_param { kernel_size: 3 kernel_size: 2 "
                   "stride: [1, 2] pool: AVE } }\n"});
  return seeds;
}

std::vector<std::string> Words() {
  std::vector<std::string> words = FieldWords(*NetParameter::descriptor());
  for (const std::string& type : LayerRegistry::Get().Names()) words.push_back(type);
  for (const char* word :
       {"layer { ",   "layers { ",   "} ",  "{ ",  "< ", "> ",   "[ ",
        "] ",         ": ",          "\"",  "'",   "\n", "# ",   "engine",
        "norm_param", "solver_mode", "inf", "nan", "-1", "1e40", "18446744073709551616",
        "0x7f",       "\\033[31m",   "true"}) {
    words.push_back(word);
  }
  return words;
}

const Registration registration(
    {.name = "net_text", .run = ReadNet, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
