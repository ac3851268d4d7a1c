#pragma once

#include <memory>
#include <vector>

#include "caffe/net/plan.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// The arrays in kNHWC of a net's blobs, as blobs of the same shapes, by Plan::channels_last; null for
// blobs that have none.
using ChannelsLast = std::vector<std::shared_ptr<BlobBase>>;

// Those that the steps of the plan read or write. Nothing is allocated.
ChannelsLast MakeChannelsLast(const Wiring& wiring, const Plan& plan);
// For training: the arrays that a step reads and writes share data and diffs as their blobs do. Call it
// again when one of them was reshaped.
void ShareChannelsLast(const Wiring& wiring, const Step& step, const ChannelsLast& arrays);
// Gives them the shapes of their blobs.
void ReshapeChannelsLast(const Wiring& wiring, const ChannelsLast& arrays);

// The elements of a part of a top in kNHWC, from one position to the next.
int64_t PitchOf(const Wiring& wiring, const Part& part);
// The first element of a part in the top of its node, in kNHWC.
int64_t OffsetOf(const Wiring& wiring, const Part& part);

// Calls use(blob, written) for each array in `layout` that the step reads or writes, in order.
template <class Use>
void ForEachArray(const std::vector<int>& bottoms, const Step& step, Layout layout,
                  const Use& use) {
  const auto convert = [&](const std::vector<Conversion>& conversions) {
    for (const Conversion& conversion : conversions) {
      use(conversion.blob, conversion.to == layout);
    }
  };
  convert(step.before);
  for (size_t b = 0; b < bottoms.size(); ++b) {
    if (step.bottom_layout(b) == layout) use(bottoms[b], false);
  }
  if (step.layouts.y == layout) {
    for (int id : step.summands) use(id, false);
    for (int id : step.tops) use(id, true);
  }
  convert(step.after);
}

}  // namespace caffe
