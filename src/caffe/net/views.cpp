#include "views.hpp"

#include <algorithm>

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

void Views::ForgetOverwritten() const {
  for (const Node& node : wiring_.nodes) {
    if (node.bottom.empty()) continue;
    for (BlobBase* top : node.top) {
      const auto same_memory = [top](BlobBase* bottom) {
        return bottom->data_memory() == top->data_memory();
      };
      if (std::none_of(node.bottom.begin(), node.bottom.end(), same_memory)) {
        top->data_memory()->ForgetHostWrites();
      }
    }
  }
}

void Views::Update() const {
  ForEachVisible(wiring_, [](BlobBase& blob) {
    if (blob.data_memory()->has_view()) blob.data_memory()->host_data();
    if (blob.has_diff() && blob.diff_memory()->has_view()) blob.diff_memory()->host_data();
  });
}

}  // namespace caffe
