#include "views.hpp"

#include <algorithm>
#include <set>

namespace caffe {
namespace {

// All blobs of which a caller can have a view.
template <class Visit> void ForEachVisible(const Wiring& wiring, const Visit& visit) {
  for (const auto& blob : wiring.user_blobs) visit(*blob);
  for (const auto& blob : wiring.parameters) visit(*blob);
}

}  // namespace

void Views::TakeData() const {
  ForEachVisible(wiring_, [](BlobBase& blob) {
    if (blob.data_memory()->has_view()) blob.data_memory()->MarkHostWritten();
  });
}

void Views::TakeDiffs() const {
  ForEachVisible(wiring_, [](BlobBase& blob) {
    if (blob.has_diff() && blob.diff_memory()->has_view()) blob.diff_memory()->MarkHostWritten();
  });
}

void Views::ForgetOverwritten(int first, int last, bool whole) const {
  std::set<const SyncedMemory*> read;
  for (int n = first; n <= last; ++n) {
    const Node& node = wiring_.nodes[n];
    if (!whole) {
      for (const BlobBase* bottom : node.bottom) read.insert(bottom->data_memory().get());
    }
    if (node.bottom.empty()) continue;
    for (BlobBase* top : node.top) {
      SyncedMemory& memory = *top->data_memory();
      const auto same_memory = [&memory](BlobBase* bottom) {
        return bottom->data_memory().get() == &memory;
      };
      if (std::any_of(node.bottom.begin(), node.bottom.end(), same_memory)) continue;
      if (whole || (!memory.stored() && !read.count(&memory))) memory.Discard();
    }
  }
}

const BlobBase* Views::Viewed() const {
  const BlobBase* viewed = nullptr;
  ForEachVisible(wiring_, [&viewed](const BlobBase& blob) {
    if (blob.data_memory()->has_view() || (blob.has_diff() && blob.diff_memory()->has_view())) {
      viewed = &blob;
    }
  });
  return viewed;
}

void Views::Update() const {
  ForEachVisible(wiring_, [](BlobBase& blob) {
    if (blob.data_memory()->has_view()) blob.data_memory()->host_data();
    if (blob.has_diff() && blob.diff_memory()->has_view()) blob.diff_memory()->host_data();
  });
}

}  // namespace caffe
