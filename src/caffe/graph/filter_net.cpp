#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {

bool IsDataLayer(const LayerParameter& layer) {
  return layer.bottom_size() == 0 && TraitsOf(layer.type()).data;
}

bool StateMeetsRule(const NetState& state, const NetStateRule& rule, std::string* why) {
  const auto reject = [&](const std::string& reason) {
    if (why) *why = reason;
    return false;
  };
  const auto has_stage = [&](const std::string& stage) {
    return std::find(state.stage().begin(), state.stage().end(), stage) != state.stage().end();
  };
  if (rule.has_phase() && rule.phase() != state.phase()) {
    return reject(Concat("The NetState phase (", state.phase(), ") differed from the phase (",
                         rule.phase(), ") specified by a rule"));
  }
  if (rule.has_min_level() && state.level() < rule.min_level()) {
    return reject(Concat("The NetState level (", state.level(), ") is below the min_level (",
                         rule.min_level(), ") specified by a rule"));
  }
  if (rule.has_max_level() && state.level() > rule.max_level()) {
    return reject(Concat("The NetState level (", state.level(), ") is above the max_level (",
                         rule.max_level(), ") specified by a rule"));
  }
  for (const std::string& stage : rule.stage()) {
    if (!has_stage(stage)) {
      return reject(Concat("The NetState did not contain stage '", stage, "' specified by a rule"));
    }
  }
  for (const std::string& stage : rule.not_stage()) {
    if (has_stage(stage)) {
      return reject(Concat("The NetState contained a not_stage '", stage, "' specified by a rule"));
    }
  }
  return true;
}

NetParameter FilterNet(const NetParameter& net, std::vector<int>* kept_places) {
  NetParameter filtered = net;
  filtered.clear_layer();
  for (int place = 0; place < net.layer_size(); ++place) {
    const LayerParameter& layer = net.layer(place);
    CAFFE_CHECK(layer.include_size() == 0 || layer.exclude_size() == 0, layer.name(), " (",
                layer.type(), "): has include and exclude rules; use one kind only");
    const auto meets = [&](const NetStateRule& rule) {
      std::string why;
      if (StateMeetsRule(net.state(), rule, &why)) return true;
      log::Info(why + " in layer " + layer.name());
      return false;
    };
    bool keep = layer.include_size() == 0;
    for (const NetStateRule& rule : layer.include()) keep = keep || meets(rule);
    for (const NetStateRule& rule : layer.exclude()) keep = keep && !meets(rule);
    if (!keep) continue;
    if (kept_places) kept_places->push_back(place);
    LayerParameter* kept = filtered.add_layer();
    *kept = layer;
    if (!kept->has_phase()) kept->set_phase(net.state().phase());
  }
  return filtered;
}

}  // namespace caffe
