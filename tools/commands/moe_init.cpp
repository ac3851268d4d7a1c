#include <iostream>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/has_experts.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/transform/init_experts.hpp"
#include "commands/commands.hpp"

namespace caffe {
namespace {

// -strict: every expert starts from weights, and all weights of the dense net are used.
void CheckAllUsed(const Net& net, const NetParameter& dense,
                  const std::vector<ExpertStart>& starts) {
  std::set<std::string> used(net.layer_names().begin(), net.layer_names().end());
  for (const ExpertStart& start : starts) {
    CAFFE_CHECK(!start.dense.empty(), "moe-init: -strict: ", start.layer,
                " would keep its filler, since ", start.why);
    used.insert(start.dense);
  }
  std::set<std::string> stored;
  for (const LayerParameter& layer : dense.layer()) {
    if (layer.blobs_size() > 0) stored.insert(layer.name());
    CAFFE_CHECK(layer.blobs_size() == 0 || used.contains(layer.name()), "moe-init: -strict: no ",
                "layer takes the parameters of '", layer.name(), "'");
  }
  for (const auto& layer : net.layers()) {
    const bool has = layer->blobs().empty() || stored.contains(layer->name()) ||
                     dynamic_cast<const HasExperts*>(layer.get());
    CAFFE_CHECK(has, "moe-init: -strict: the dense net has no parameters for layer '",
                layer->name(), "' (", layer->type(), ")");
  }
}

}  // namespace

int MoeInitCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "moe-init: Need a model with MOE layers: -model FILE");
  CAFFE_CHECK(!options.weights.empty(), "moe-init: Need the weights of a dense net: -weights FILE");
  CAFFE_CHECK(!options.out.empty(),
              "moe-init: Need the name of the result: -out PREFIX (writes PREFIX.caffemodel)");
  CAFFE_CHECK(options.noise >= 0, "moe-init: -noise ", options.noise, " is negative");
  NetOptions net_options;
  net_options.device = Runtime::Get().cpu();
  net_options.phase = TEST;
  net_options.seed = static_cast<uint64_t>(options.seed);
  const NetParameter model = ReadTestNetFile(options.model);
  std::vector<std::string> inputs = InputFiles(model);
  inputs.insert(inputs.end(), {options.model, options.weights});
  CheckResults(options.out, {".caffemodel"}, inputs);
  Net net(model, net_options);
  const NetParameter dense = IsHdf5File(options.weights) ? ReadNetHdf5(options.weights)
                                                         : ReadNetParameterBinary(options.weights);
  const auto starts = InitExperts(dense, options.noise, static_cast<uint64_t>(options.seed), &net);
  if (options.strict) CheckAllUsed(net, dense, starts);
  for (const ExpertStart& start : starts) {
    std::cout << Concat(
        start.layer, " of ", start.experts, " experts: ",
        start.dense.empty() ? "its filler, since " + start.why : "the weights of " + start.dense,
        "\n");
  }
  NetParameter result;
  net.ToProto(&result);
  WriteBinaryProto(options.out + ".caffemodel", result);
  std::cout << Concat("wrote ", options.out, ".caffemodel\n") << std::flush;
  return 0;
}

}  // namespace caffe
