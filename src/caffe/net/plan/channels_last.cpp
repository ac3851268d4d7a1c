#include "channels_last.hpp"

namespace caffe {

ChannelsLast MakeChannelsLast(const Wiring& wiring, const Plan& plan) {
  ChannelsLast arrays(wiring.blobs.size());
  for (const Step& step : plan.steps) {
    ForEachArray(wiring.nodes[step.nodes[0]].bottom_ids, step, Layout::kNHWC, [&](int id, bool) {
      const BlobBase& blob = *wiring.blobs[id];
      std::shared_ptr<BlobBase>& array = arrays[plan.channels_last[id]];
      if (!array) {
        array = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name() + " (NHWC)");
      }
    });
  }
  for (const Step& step : plan.steps) ShareChannelsLast(wiring, step, arrays);
  return arrays;
}

void ShareChannelsLast(const Wiring& wiring, const Step& step, const ChannelsLast& arrays) {
  if (!step.channels_last() || step.gradients.empty()) return;
  for (const auto& [top, bottom] : step.shared) arrays[top]->ShareData(*arrays[bottom]);
  for (const int bottom : wiring.nodes[step.nodes[0]].bottom_ids) {
    for (const int top : step.tops) {
      if (bottom == top || !arrays[bottom] || !arrays[top]) continue;
      const BlobBase &from = *wiring.blobs[bottom], &to = *wiring.blobs[top];
      if (from.diff_memory() == to.diff_memory()) arrays[top]->ShareDiff(*arrays[bottom]);
    }
  }
}

void ReshapeChannelsLast(const Wiring& wiring, const ChannelsLast& arrays) {
  for (size_t id = 0; id < arrays.size(); ++id) {
    if (arrays[id] && arrays[id]->shape() != wiring.blobs[id]->shape()) {
      arrays[id]->ReshapeLike(*wiring.blobs[id]);
    }
  }
}

int64_t PitchOf(const Wiring& wiring, const Part& part) {
  return wiring.nodes[part.node].top[0]->shape()[1];
}

int64_t OffsetOf(const Wiring& wiring, const Part& part) {
  int64_t offset = 0;
  for (int b = 0; b < part.bottom; ++b) offset += wiring.nodes[part.node].bottom[b]->shape(1);
  return offset;
}

}  // namespace caffe
