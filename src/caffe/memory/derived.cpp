#include "caffe/memory/derived.hpp"

#include <pthread.h>

#include <mutex>

namespace caffe {
namespace {

// Held while data are built: nets on several threads may share parameters, which have one host copy
// and one device copy. A forked child gets a new one, because a thread that is not there may have
// held it.
std::recursive_mutex* building = new std::recursive_mutex;
[[maybe_unused]] const int at_fork =
    pthread_atfork(nullptr, nullptr, [] { building = new std::recursive_mutex; });

}  // namespace

bool Derived::Stale() const {
  if (!built_) return true;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!(made_of_[i] == DataStamp(*sources_[i]))) return true;
  }
  return false;
}

bool Derived::Refresh() {
  if (!Stale()) return false;
  const std::lock_guard lock(*building);
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
