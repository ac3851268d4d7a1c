#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/has_experts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/layer/usage_report.hpp"
#include "moe_net.hpp"

namespace caffe {
namespace {

// A mixture of experts: y[n] = sum over the selected experts e of w[n, e] E_e(x[n]). The gating net
// computes a softmax p [N, E]; MOERoute selects K experts for each item and computes w. Docs:
// docs/mixture_of_experts.md.
//
// bottoms: read by the gating net, the experts or both (map_bottom). The tops of a nested net's
// Input layers, in their order, stand for the bottoms that the net reads.
// tops: the outputs of an expert, in alphabetical order, as in BVLC's nets; then observed and
// expected usage [N, E]; then the blobs of the gating net that gate_top names. Only the first are
// necessary.
// blobs: those of the gating net, then expert by expert; with balance_rate, then the bias.
// moe_param: gating_net, expert_net (repeated), expert_instances (1 each), select_experts (all),
//   map_bottom (both), full_forward (false), gate_top, usage_loss_weight, load_balance_loss_weight,
//   z_loss_weight, balance_rate, capacity_factor, normalize_weights (true).
// Types: any bottoms. A nested net computes in its data_type; float if it has none. The gate is
// float, or double if bottoms or tops are.
class MOELayer final : public CompositeLayer, public UsageReport, public HasExperts {
 public:
  using CompositeLayer::CompositeLayer;
  SubNet Expand(const BlobVec& bottom, int tops) override;
  void Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) override;
  // Takes the usage of this layer, and of MOE layers in its nets.
  std::vector<ExpertUsage> TakeUsage() override;

  std::vector<ExpertBlob> ExpertBlobs() const override;

 private:
  std::vector<std::shared_ptr<LayerBase>> nested_;
};

SubNet MOELayer::Expand(const BlobVec& bottom, int tops) {
  const DataType real = types().in == kDouble || types().out == kDouble ? kDouble : kFloat;
  return MOENet(layer_param(), real, device()).Build(static_cast<int>(bottom.size()), tops);
}

void MOELayer::Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) { nested_ = nested; }

std::vector<ExpertUsage> MOELayer::TakeUsage() {
  std::vector<ExpertUsage> all;
  for (const auto& layer : nested_) {
    auto* const report = dynamic_cast<UsageReport*>(layer.get());
    if (!report || dynamic_cast<MOELayer*>(layer.get())) continue;
    for (ExpertUsage& usage : report->TakeUsage()) {
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

}  // namespace

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
