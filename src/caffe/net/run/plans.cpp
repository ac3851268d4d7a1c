#include "plans.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/net/plan/count_memory.hpp"

namespace caffe {
namespace {

// Tops that could not be computed again, because a later layer works in place on the memory of a
// bottom (on a view of it).
void AddTopsOfChangedBottoms(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                             std::set<int>* stored) {
  std::map<const SyncedMemory*, size_t> last_writers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<Alias>& aliases = nodes[n].facts.aliases;
    if (std::any_of(aliases.begin(), aliases.end(), [](const Alias& a) { return a.bottom >= 0; })) {
      continue;
    }
    for (const BlobBase* top : wiring.nodes[n].top) last_writers[top->data_memory().get()] = n;
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = wiring.nodes[n];
    for (const BlobBase* bottom : node.bottom) {
      const auto writer = last_writers.find(bottom->data_memory().get());
      if (writer == last_writers.end() || writer->second <= n) continue;
      for (size_t t = 0; t < node.top.size(); ++t) {
        if (node.top[t]->data_memory() != bottom->data_memory()) stored->insert(node.top_ids[t]);
      }
    }
  }
}

}  // namespace

Plans::Plans(const Wiring& wiring, const PassRooms& rooms) : wiring_(wiring), rooms_(rooms) {
  Make();
}

std::vector<std::vector<bool>> Plans::TiedBottoms() const {
  std::vector<std::vector<bool>> tied;
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    tied.push_back(caffe::TiedBottoms(wiring_.nodes[n], rooms_.ranges->of(n)));
  }
  return tied;
}

void Plans::FollowRanges(bool whole) {
  rooms_.ranges->Update();
  if (rooms_.ranges->epoch() == planned_epoch_) return;
  planned_epoch_ = rooms_.ranges->epoch();
  if (TiedBottoms() == tied_) return;
  // A whole forward computes all blobs again.
  if (whole) whole_->lost().DropForgotten();
  Make();
}

void Plans::Keep(const std::vector<std::string>& blobs) {
  const size_t before = kept_.size();
  kept_.insert(blobs.begin(), blobs.end());
  if (kept_.size() != before) Make();
}

void Plans::StoreViewed() {
  const size_t before = viewed_.size();
  for (const Step& step : whole_->plan().steps) {
    for (int id : HiddenBlobs(wiring_, step)) {
      const BlobBase& blob = *wiring_.blobs[id];
      if (blob.data_memory()->has_view() || (blob.has_diff() && blob.diff_memory()->has_view())) {
        viewed_.insert(id);
      }
    }
  }
  if (viewed_.size() != before) Make();
}

std::vector<PlanNode> Plans::Nodes() const {
  std::vector<PlanNode> nodes;
  for (const Node& node : wiring_.nodes) {
    nodes.push_back({node.layer->name(), node.layer->Facts(), node.layer->types(), node.bottom_ids,
                     node.top_ids, tied_[nodes.size()]});
  }
  return nodes;
}

std::set<int> Plans::StoredBlobs(const std::vector<PlanNode>& nodes) const {
  std::set<int> stored;
  for (const Node& node : wiring_.nodes) {
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      if (node.layer->loss_weight(static_cast<int>(t)) != 0) stored.insert(node.top_ids[t]);
    }
  }
  for (int id = 0; id < static_cast<int>(wiring_.blobs.size()); ++id) {
    // The user sees the last one of a blob's versions.
    const bool earlier = wiring_.versions.count(id) > 0;
    const bool kept = !earlier && kept_.count(wiring_.blobs[wiring_.UserBlob(id)]->name());
    if (kept || viewed_.count(id)) stored.insert(id);
  }
  for (const auto& [first, last] : rooms_.versions->ChangedInputs()) stored.insert({first, last});
  AddTopsOfChangedBottoms(wiring_, nodes, &stored);
  return stored;
}

void Plans::AddTraining(PlanOptions* options) const {
  const Gradients& gradients = *rooms_.gradients;
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    const std::vector<bool>& bottoms = gradients.bottoms(n);
    if (gradients.needed(n) &&
        std::all_of(bottoms.begin(), bottoms.end(), [](bool one) { return one; })) {
      options->trained.insert(n);
    }
  }
  // Layers that run again do so in C order.
  const bool again = std::any_of(wiring_.nodes.begin(), wiring_.nodes.end(), [](const Node& node) {
    return node.layer->layer_param().recompute();
  });
  for (int n = 0; !again && n <= wiring_.last_node(); ++n) {
    options->gradients.push_back(gradients.needed(n) ? gradients.bottoms(n) : std::vector<bool>());
  }
}

PlanOptions Plans::Options(const std::vector<PlanNode>& nodes) const {
  const NetParameter& parameter = *wiring_.parameter;
  const bool requested = !rooms_.gradients->requested().empty();
  PlanOptions options;
  options.kept = StoredBlobs(nodes);
  if (wiring_.phase == TRAIN && !requested) AddTraining(&options);
  // In phase TEST most nets never run backward, though a loss gives their layers gradients.
  options.fuse =
      wiring_.phase == TEST && !parameter.force_backward() && !requested && covers_layers_;
  options.parts = options.fuse && (!parameter.has_reduced_memory_inference() ||
                                   parameter.reduced_memory_inference());
  return options;
}

std::unique_ptr<Executor> Plans::MakeExecutor(const std::vector<PlanNode>& nodes,
                                              const PlanOptions& options, bool whole) const {
  Plan plan = Plan::Make(nodes, options);
  const std::string report = plan.Report(nodes);
  if (!report.empty()) log::Debug("fused steps:\n" + report);
  ArrayBlobs blobs = MakeArrayBlobs(wiring_, plan);
  std::unique_ptr<ActivationArena> arena;
  if (whole && wiring_.phase == TRAIN) {
    arena = std::make_unique<ActivationArena>(
        wiring_,
        PassArrays::Training(wiring_, nodes, plan, blobs, *rooms_.gradients, options.kept));
  } else if (options.parts) {
    arena = std::make_unique<ActivationArena>(
        wiring_, PassArrays::Forward(wiring_, nodes, plan, blobs, options.kept));
  }
  return std::make_unique<Executor>(wiring_, rooms_, std::move(plan), std::move(blobs),
                                    std::move(arena));
}

void Plans::Make() {
  if (whole_) {
    whole_->lost().MakeForgotten();
    whole_->LeaveArena();
  }
  tied_ = TiedBottoms();
  planned_epoch_ = rooms_.ranges->epoch();
  ++serial_;
  const std::vector<PlanNode> nodes = Nodes();
  const PlanOptions options = Options(nodes);
  PlanOptions by_layer;
  by_layer.fuse = false;
  by_layer.kept = options.kept;
  by_layer_ = MakeExecutor(nodes, by_layer, false);
  std::unique_ptr<Executor> made = MakeExecutor(nodes, options, true);
  // The previous executor is needed for the blobs that it did not keep.
  if (whole_) made->lost().TakeForgotten(&whole_->lost());
  whole_ = std::move(made);
}

MemoryNeeds Plans::Count(const Executor& executor, bool backward) const {
  StepWorkspaces workspaces;
  const WorkMemory works = executor.CountWorks(&workspaces);
  return CountMemory(wiring_, *rooms_.gradients, executor.plan(), executor.array_blobs(),
                     executor.arena(), works, workspaces, backward);
}

MemoryNeeds Plans::Needs() const {
  return Count(*whole_, wiring_.phase == TRAIN || wiring_.parameter->force_backward() ||
                            !rooms_.gradients->requested().empty());
}

MemoryNeeds Plans::NeedsByLayer(bool backward) const { return Count(*by_layer_, backward); }

}  // namespace caffe
