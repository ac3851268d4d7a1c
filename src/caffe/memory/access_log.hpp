#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "caffe/memory/synced_memory.hpp"

namespace caffe {

// While it exists, lists the memories that the calling thread uses on their devices. With this list
// a recorded graph can be replayed: what must be on the device before it, and what it writes. A
// thread has at most one log at a time.
class AccessLog {
 public:
  // The first use of a memory.
  struct Use {
    SyncedMemory* memory = nullptr;
    std::weak_ptr<SyncedMemory> alive;
    bool writes = false;    // it is written before it is read
    bool borrowed = false;  // it lies in a slice that other memories use at other times
    // Where the device copy was at the end of the log; null if it had moved by then.
    DevicePtr pointer;
  };

  AccessLog();
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // The memories written since the last call, in the order of their first writes.
  std::vector<SyncedMemory*> TakeWritten();
  // Ends the log.
  std::vector<Use> End();
  // Ends the log, and gives every memory the state that it had before its first entry in the log:
  // which copy is current, where the device copy lies, and the version.
  void Undo();

 private:
  friend class SyncedMemory;
  enum class Kind { kRead, kWrite, kMove };
  // SyncedMemory calls it at the beginning of every change and every use on the device.
  static void Note(SyncedMemory* memory, Kind kind) {
    if (logs.load(std::memory_order_relaxed) > 0) NoteInLog(memory, kind);
  }
  static void NoteInLog(SyncedMemory* memory, Kind kind);
  void Stop();

  struct Before {
    std::weak_ptr<SyncedMemory> memory;
    SyncedMemory::State state;
  };
  static std::atomic<int> logs;  // of all threads
  std::vector<Use> uses_;
  std::vector<SyncedMemory*> written_;
  std::unordered_map<SyncedMemory*, size_t> use_of_;
  std::vector<bool> listed_;  // of uses_: whether written_ has the memory
  std::unordered_map<SyncedMemory*, Before> before_;
  bool ended_ = false;
};

}  // namespace caffe
