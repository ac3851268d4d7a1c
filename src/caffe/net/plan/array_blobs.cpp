#include "array_blobs.hpp"

#include <algorithm>
#include <set>

namespace caffe {

ArrayBlobs MakeArrayBlobs(const Wiring& wiring, const Plan& plan) {
  ArrayBlobs blobs;
  for (const Array& array : plan.arrays) {
    const std::shared_ptr<BlobBase>& blob = wiring.blobs[array.blob];
    if (array.in_c_order()) {
      blobs.push_back(blob);
    } else if (array.kind == Array::Kind::kDiff) {
      blobs.push_back(blobs[plan.arrays.Find(Array::Kind::kData, array.blob, array.layout)]);
    } else {
      blobs.push_back(MakeBlob(blob->type(), blob->device(), blob->shape(),
                               blob->name() + " (" + LayoutName(array.layout) + ")"));
    }
  }
  for (const Step& step : plan.steps) ShareArrays(wiring, plan.arrays, step, blobs);
  return blobs;
}

void ShareArrays(const Wiring& wiring, const Arrays& arrays, const Step& step,
                 const ArrayBlobs& blobs) {
  if (step.request.gradients.empty()) return;
  for (const int read : step.reads) {
    for (const int written : step.writes) {
      if (read == written || arrays[read].layout != arrays[written].layout) continue;
      const BlobBase& from = *wiring.blobs[arrays[read].blob];
      const BlobBase& to = *wiring.blobs[arrays[written].blob];
      if (from.data_memory() == to.data_memory()) blobs[written]->ShareData(*blobs[read]);
      if (from.diff_memory() == to.diff_memory()) blobs[written]->ShareDiff(*blobs[read]);
    }
  }
}

void ReshapeArrays(const Wiring& wiring, const Arrays& arrays, const ArrayBlobs& blobs) {
  for (size_t i = wiring.blobs.size(); i < blobs.size(); ++i) {
    const BlobBase& blob = *wiring.blobs[arrays[static_cast<int>(i)].blob];
    if (blobs[i]->shape() != blob.shape()) blobs[i]->ReshapeLike(blob);
  }
}

std::vector<int> HiddenBlobs(const Wiring& wiring, const Step& step) {
  std::vector<int> hidden;
  if (step.converts()) return hidden;
  const auto has = [](const std::vector<int>& list, int id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  for (const int node : step.nodes) {
    for (const int top : wiring.nodes[node].top_ids) {
      // The data of a blob in C order is the array of its index.
      if (!has(step.writes, top) && !has(hidden, top)) hidden.push_back(top);
    }
  }
  return hidden;
}

std::vector<std::vector<int>> UnwrittenBlobs(const Wiring& wiring, const Plan& plan) {
  const auto memory_of = [&](int id) { return wiring.blobs[id]->data_memory().get(); };
  std::set<const SyncedMemory*> converted;  // to C order
  for (const Step& step : plan.steps) {
    const Array& array = plan.arrays[step.writes.empty() ? 0 : step.writes[0]];
    if (step.converts() && array.in_c_order()) converted.insert(memory_of(array.blob));
  }
  std::vector<std::vector<int>> blobs;
  for (const Step& step : plan.steps) {
    blobs.push_back(HiddenBlobs(wiring, step));
    const std::vector<int>& bottoms = wiring.nodes[step.nodes[0]].bottom_ids;
    std::erase_if(blobs.back(), [&](int id) {
      const bool alias = std::any_of(bottoms.begin(), bottoms.end(), [&](int bottom) {
        return bottom != id && memory_of(bottom) == memory_of(id);
      });
      return alias || converted.count(memory_of(id)) > 0;
    });
  }
  return blobs;
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
