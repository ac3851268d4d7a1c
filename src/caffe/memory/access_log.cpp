#include "caffe/memory/access_log.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

thread_local AccessLog* current = nullptr;

}  // namespace

std::atomic<int> AccessLog::logs{0};

AccessLog::AccessLog() {
  CAFFE_CHECK(!current, "this thread has a log of memories already");
  current = this;
  ++logs;
}

AccessLog::~AccessLog() { Stop(); }

void AccessLog::Stop() {
  if (ended_) return;
  ended_ = true;
  current = nullptr;
  --logs;
}

void AccessLog::NoteInLog(SyncedMemory* memory, Kind kind) {
  if (!current) return;
  AccessLog& log = *current;
  if (!log.before_.count(memory)) {
    log.before_[memory] = {memory->weak_from_this(), memory->Save()};
  }
  if (kind == Kind::kMove) return;
  const bool writes = kind == Kind::kWrite;
  if (log.use_of_.emplace(memory, log.uses_.size()).second) {
    log.uses_.push_back({memory, memory->weak_from_this(), writes, memory->borrowed(), {}});
  }
  if (!writes) return;
  if (std::find(log.written_.begin(), log.written_.end(), memory) == log.written_.end()) {
    log.written_.push_back(memory);
  }
}

std::vector<SyncedMemory*> AccessLog::TakeWritten() { return std::exchange(written_, {}); }

std::vector<AccessLog::Use> AccessLog::End() {
  Stop();
  for (Use& use : uses_) {
    const std::shared_ptr<SyncedMemory> memory = use.alive.lock();
    if (memory && !use.borrowed && !memory->borrowed() && memory->buffer()) {
      use.pointer = memory->buffer()->pointer() + memory->offset();
    }
  }
  return std::move(uses_);
}

void AccessLog::Undo() {
  Stop();
  for (auto& [address, before] : before_) {
    if (const auto memory = before.memory.lock()) memory->Restore(before.state);
  }
}

}  // namespace caffe
