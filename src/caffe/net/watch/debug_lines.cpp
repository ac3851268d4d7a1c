#include "debug_lines.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/layer/sub_net.hpp"

namespace caffe {
namespace {

double MeanAbs(double sum, int64_t count) { return count ? sum / static_cast<double>(count) : 0; }

}  // namespace

bool DebugLines::Asks(const LayerBase& layer) const {
  const auto* composite = dynamic_cast<const CompositeLayer*>(&layer);
  return composite && composite->debug_info();
}

bool DebugLines::any() const {
  return all_ || std::any_of(wiring_.layers.begin(), wiring_.layers.end(),
                             [this](const auto& layer) { return Asks(*layer); });
}

bool DebugLines::Shows(const Node& node) const {
  return all_ || (node.nested_in >= 0 && Asks(*wiring_.layers[node.nested_in]));
}

void DebugLines::AfterForward(const Node& node) {
  if (!Shows(node)) return;
  for (size_t t = 0; t < node.top.size(); ++t) {
    const BlobBase* const top = node.top[t];
    if (!top->type().is_float()) continue;
    log::Info(Concat("    [Forward] Layer ", node.layer->name(), ", top blob ",
                     wiring_.ShownName(node.top_ids[t]),
                     " data: ", MeanAbs(top->asum_data(), top->count())));
  }
  for (size_t i = 0; i < node.layer->blobs().size(); ++i) {
    const BlobBase& blob = *node.layer->blobs()[i];
    log::Info(Concat("    [Forward] Layer ", node.layer->name(), ", param blob ", i,
                     " data: ", MeanAbs(blob.asum_data(), blob.count())));
  }
}

void DebugLines::AfterBackward(const Node& node) {
  if (!Shows(node)) return;
  const std::vector<bool>& gradients =
      gradients_.bottoms(static_cast<int>(&node - wiring_.nodes.data()));
  for (size_t b = 0; b < node.bottom.size(); ++b) {
    if (!gradients[b]) continue;
    log::Info(Concat("    [Backward] Layer ", node.layer->name(), ", bottom blob ",
                     wiring_.ShownName(node.bottom_ids[b]),
                     " diff: ", MeanAbs(node.bottom[b]->asum_diff(), node.bottom[b]->count())));
  }
  for (size_t i = 0; i < node.layer->blobs().size(); ++i) {
    if (!node.layer->param_propagate_down(static_cast<int>(i))) continue;
    const BlobBase& blob = *node.layer->blobs()[i];
    log::Info(Concat("    [Backward] Layer ", node.layer->name(), ", param blob ", i,
                     " diff: ", MeanAbs(blob.asum_diff(), blob.count())));
  }
}

void DebugLines::AfterBackwardPass() {
  if (!all_) return;
  double asum_data = 0, asum_diff = 0, sumsq_data = 0, sumsq_diff = 0;
  for (const BlobBase* blob : wiring_.learnable) {
    asum_data += blob->asum_data();
    asum_diff += blob->asum_diff();
    sumsq_data += blob->sumsq_data();
    sumsq_diff += blob->sumsq_diff();
  }
  // At this level in BVLC's Caffe.
  log::Error(Concat("    [Backward] All net params (data, diff): L1 norm = (", asum_data, ", ",
                    asum_diff, "); L2 norm = (", std::sqrt(sumsq_data), ", ", std::sqrt(sumsq_diff),
                    ")"));
}

}  // namespace caffe
