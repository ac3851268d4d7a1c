#include "caffe/memory/derived.hpp"

#include <mutex>

namespace caffe {

bool Derived::Stale() const {
  if (!built_) return true;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!(made_of_[i] == DataStamp(*sources_[i]))) return true;
  }
  return false;
}

bool Derived::Refresh() {
  if (!Stale()) return false;
  // Nets on several threads may share parameters, which have one host copy and one device copy.
  static auto* const mutex = new std::recursive_mutex;
  const std::lock_guard lock(*mutex);
  built_ = false;
  Build();
  made_of_.clear();
  for (const BlobBase* source : sources_) made_of_.emplace_back(*source);
  built_ = true;
  return true;
}

void Derived::SetKey(std::string_view key) {
  if (key == key_) return;
  key_ = key;
  built_ = false;
}

}  // namespace caffe
