#include "caffe/memory/access_log.hpp"

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
  const auto [use, first] = log.use_of_.emplace(memory, log.uses_.size());
  if (first) {
    log.uses_.push_back({memory, memory->weak_from_this(), writes, memory->borrowed(), {}});
    log.listed_.push_back(false);
  }
  if (!writes || log.listed_[use->second]) return;
  log.listed_[use->second] = true;
  log.written_.push_back(memory);
}

std::vector<SyncedMemory*> AccessLog::TakeWritten() {
  listed_.assign(listed_.size(), false);
  return std::exchange(written_, {});
}

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
