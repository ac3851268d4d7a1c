#pragma once

#include <atomic>
#include <mutex>
#include <set>

namespace caffe {

class SyncedMemory;

// Is called before the content of the memories that it watches changes.
class MemoryWatcher {
 public:
  MemoryWatcher(const MemoryWatcher&) = delete;
  MemoryWatcher& operator=(const MemoryWatcher&) = delete;

  // SyncedMemory calls it before the content is changed or replaced. `view`: nothing changes yet,
  // but the caller gets a view through which it may write.
  static void Note(SyncedMemory* memory, bool view) {
    if (watched.load(std::memory_order_relaxed) > 0 && quiet == 0) NoteWatched(memory, view);
  }

  // While it exists, Note does nothing on this thread.
  class Quiet {
   public:
    explicit Quiet(bool yes = true) : yes_(yes) { quiet += yes_; }
    ~Quiet() { quiet -= yes_; }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

   private:
    const bool yes_;
  };

 protected:
  MemoryWatcher() = default;
  ~MemoryWatcher() { UnwatchAll(); }
  // May read the memory. It may be another memory at the address of one that was destroyed.
  virtual void BeforeChange(SyncedMemory* memory, bool view) = 0;
  void Watch(SyncedMemory* memory);
  void UnwatchAll();
  // BeforeChange is called under this lock, also by threads of other nets that share parameters.
  static std::unique_lock<std::recursive_mutex> Lock();

 private:
  static void NoteWatched(SyncedMemory* memory, bool view);
  static std::atomic<int> watched;  // memories, of all threads
  static thread_local int quiet;
  std::set<SyncedMemory*> own_;
};

}  // namespace caffe
