#include "caffe/memory/memory_watch.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace caffe {
namespace {

// Nets of several threads may share parameters. Recursive, because a watcher that computes a blob
// reads and writes memories.
std::recursive_mutex& Mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

std::unordered_map<SyncedMemory*, std::vector<MemoryWatcher*>>& Watchers() {
  static auto& watchers = *new std::unordered_map<SyncedMemory*, std::vector<MemoryWatcher*>>;
  return watchers;
}

}  // namespace

std::atomic<int> MemoryWatcher::watched{0};
thread_local int MemoryWatcher::quiet = 0;

std::unique_lock<std::recursive_mutex> MemoryWatcher::Lock() { return std::unique_lock(Mutex()); }

void MemoryWatcher::Watch(SyncedMemory* memory) {
  const auto lock = Lock();
  if (!own_.insert(memory).second) return;
  Watchers()[memory].push_back(this);
  ++watched;
}

void MemoryWatcher::UnwatchAll() {
  if (own_.empty()) return;
  const auto lock = Lock();
  for (SyncedMemory* memory : own_) {
    const auto found = Watchers().find(memory);
    std::erase(found->second, this);
    if (found->second.empty()) Watchers().erase(found);
    --watched;
  }
  own_.clear();
}

void MemoryWatcher::NoteWatched(SyncedMemory* memory, bool view) {
  const auto lock = Lock();
  const auto found = Watchers().find(memory);
  if (found == Watchers().end()) return;
  const std::vector<MemoryWatcher*> watchers = found->second;  // they may stop watching
  for (MemoryWatcher* watcher : watchers) watcher->BeforeChange(memory, view);
}

}  // namespace caffe
