#include "caffe/layers/moe_layer.hpp"

#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layers/moe_route_layer.hpp"
#include "moe_net.hpp"

namespace caffe {

SubNet MOELayer::Expand(const BlobVec& bottom, int tops) {
  const DataType real = types().in == kDouble || types().out == kDouble ? kDouble : kFloat;
  return MOENet(layer_param(), real, device()).Build(static_cast<int>(bottom.size()), tops);
}

void MOELayer::Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) { nested_ = nested; }

std::vector<ExpertUsage> MOELayer::TakeUsage() {
  std::vector<ExpertUsage> all;
  for (const auto& layer : nested_) {
    auto* const route = dynamic_cast<MOERoute*>(layer.get());
    if (!route) continue;
    for (ExpertUsage& usage : route->TakeUsage()) {
      usage.layer = usage.layer.substr(0, usage.layer.rfind('/'));
      all.push_back(std::move(usage));
    }
  }
  return all;
}

std::vector<ExpertBlob> MOELayer::ExpertBlobs() const {
  // "<name>/expert", and "<name>#2/expert" in the second layer of this name.
  std::string prefix = name();
  if (!nested_.empty()) {
    const std::string& first = nested_[0]->name();
    prefix = first.substr(0, first.find('/', std::min(prefix.size(), first.size())));
  }
  prefix += "/expert";
  std::vector<ExpertBlob> blobs;
  int experts = 0;
  for (const auto& layer : nested_) {
    experts = std::max(experts, static_cast<int>(layer->layer_param().moe_param().experts()));
    if (!layer->name().starts_with(prefix) || dynamic_cast<MOELayer*>(layer.get())) continue;
    const size_t slash = layer->name().find('/', prefix.size());
    const std::string number = layer->name().substr(prefix.size(), slash - prefix.size());
    const std::string own = layer->name().substr(slash + 1);
    const auto count = static_cast<int>(layer->blobs().size());
    // A grouped layer has the blobs of all experts.
    const int per_expert = number.empty() ? count / experts : count;
    for (int b = 0; b < count; ++b) {
      const int expert = number.empty() ? b / per_expert : std::stoi(number);
      blobs.push_back({expert, own, b % per_expert, layer->blobs()[b]});
    }
  }
  std::stable_sort(blobs.begin(), blobs.end(),
                   [](const ExpertBlob& a, const ExpertBlob& b) { return a.expert < b.expert; });
  return blobs;
}

void RegisterMOELayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.converts = true;
  traits.backward_reads = Always({});
  traits.summary = "a mixture of experts: a gating net selects expert nets for each item";
  registry.AddUntyped("MOE", traits,
                      [](const LayerParameter& parameter, const LayerContext& context) {
                        return std::make_shared<MOELayer>(parameter, context);
                      });
}

}  // namespace caffe
