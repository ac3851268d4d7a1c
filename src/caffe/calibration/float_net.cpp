// The float net of QuantizeNet, and its weights.
#include <algorithm>
#include <cmath>

#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

// The weights must have all parameters of the net: fillers would hide what is missing.
void CheckWeights(const Net& net, const NetParameter& weights) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : weights.layer()) names.push_back(layer.name());
  const std::vector<int> found = MatchInOrder(net.layer_names(), names);
  for (size_t i = 0; i < found.size(); ++i) {
    const LayerBase& layer = *net.layers()[i];
    const bool given = found[i] >= 0 && weights.layer(found[i]).blobs_size() > 0;
    CAFFE_CHECK(layer.blobs().empty() || given, "the weights have no parameters for layer '",
                layer.name(), "' (", layer.type(), "); do they belong to this model?");
  }
}

std::string StoredTypes(const NetParameter& weights, std::set<std::string> types) {
  for (const LayerParameter& layer : weights.layer()) {
    for (const BlobProto& blob : layer.blobs()) {
      if (blob.has_packed_data()) types.insert(PackedType(blob).name());
    }
  }
  std::string list;
  for (const std::string& type : types) list += (list.empty() ? "" : ", ") + type;
  if (types.empty()) return list;
  log::Warning(Concat("the given weights are stored as ", list,
                      " already: the float net of the report computes with them, and is not the ",
                      "net that was trained; give the trained weights"));
  return list;
}

}  // namespace

void CheckRange(const std::string& blob, const Range& range) {
  CAFFE_CHECK(std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high,
              "the range of blob '", blob, "' is (", range.low, ", ", range.high,
              "); give its smallest and its largest value, two finite numbers in this order");
}

void CheckRangeNames(const Net& net, const RangeMap& ranges) {
  const std::vector<std::string> names = net.RangeNames();
  for (const auto& [blob, range] : ranges) {
    CAFFE_CHECK(std::find(names.begin(), names.end(), blob) != names.end(),
                "a range is given for blob '", blob, "', but the net has no such blob");
  }
}

FloatNet MakeFloatNet(const NetParameter& model, NetParameter weights,
                      const QuantizeOptions& options) {
  FloatNet made;
  made.given = std::make_shared<NetParameter>(model);
  made.device = options.device ? options.device : Runtime::Get().default_device();
  NetParameter source = InFloat(model);
  source.mutable_state()->set_quantizer_mode(CAFFE_QUANT_PASSIVE);
  made.model = std::make_shared<NetParameter>(WithInputs(*TestNet(source, made.device)));
  NetParameter all = model;
  all.mutable_state()->set_phase(TEST);
  FilterNet(all, &made.given_layers);
  made.net = TestNet(*made.model, made.device);
  const auto states = std::make_shared<NetRunState>();
  made.net->WriteRunState(states.get());
  made.first_states = states;
  CheckWeights(*made.net, weights);
  made.ranges = made.net->Ranges();
  CheckRangeNames(*made.net, options.ranges);
  for (const auto& [blob, range] : options.ranges) made.ranges[blob] = range;
  made.stored_types = StoredTypes(weights, options.stored_types);
  DecodeParameters(&weights);
  weights.clear_quantizer();
  made.net->CopyTrainedLayersFrom(weights);
  made.scores = FindScores(*made.net, options.scores);
  return made;
}

}  // namespace caffe
