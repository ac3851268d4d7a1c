#include "net_lock.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/net/net.hpp"

namespace py = pybind11;

namespace {

// Where all who wait for any net sleep.
struct Bed {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0;
};

// A forked child gets a new one: threads that are not here may sleep in the old one.
Bed& TheBed() {
  static Bed* bed = new Bed;
  static caffe::ProcessMark made_in;
  if (made_in.inherited()) {
    bed = new Bed;
    made_in = caffe::ProcessMark();
  }
  return *bed;
}

void WakeAll() {
  Bed& bed = TheBed();
  {
    const std::lock_guard lock(bed.mutex);
    ++bed.changes;
  }
  bed.changed.notify_all();
}

// With the GIL, which others have meanwhile. Throws what Ctrl-C left behind.
void SleepUntilWoken() {
  Bed& bed = TheBed();
  {
    const uint64_t seen = bed.changes;  // changes with the GIL only
    const WithoutGil release;
    std::unique_lock lock(bed.mutex);
    bed.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return bed.changes != seen; });
  }
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

struct Registry {
  std::unordered_map<const caffe::Net*, std::shared_ptr<NetLock>> nets;
  struct Entry {
    caffe::Net* net;
    std::shared_ptr<NetLock> lock;
  };
  std::unordered_map<const caffe::BlobBase*, Entry> blobs;
};

// Never destroyed: nets may go when the process ends.
Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

// The locks that this thread computes under, the outermost first.
thread_local std::vector<NetLock*> own_locks;

}  // namespace

// The GIL is held whenever ready is asked.
template <class Ready> void NetLock::WaitInLine(const Ready& ready) {
  static uint64_t tickets = 0;
  const uint64_t ticket = ++tickets;
  line_.push_back(ticket);
  ++waiting_;
  const auto leave = [&] {
    if (const auto place = std::find(line_.begin(), line_.end(), ticket); place != line_.end()) {
      line_.erase(place);
      --waiting_;
    }
    WakeAll();
  };
  try {
    while (!ready(line_.front() == ticket)) SleepUntilWoken();
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void NetLock::CheckProcess() {
  if (process_.inherited()) {
    process_ = caffe::ProcessMark();
    line_.clear();
    waiting_ = 0;
    if (owner_ != std::thread::id() && !is_mine()) broken_ = true;
  }
  CAFFE_CHECK(!broken_, name_,
              " was in use by another thread when this process was forked: make it again in the "
              "child, or start the child with multiprocessing.get_context('spawn')");
}

void NetLock::Acquire() {
  CheckProcess();
  if (!is_mine()) {
    if (owner_ != std::thread::id() || !line_.empty()) {
      WaitInLine([&](bool first) { return first && owner_ == std::thread::id(); });
    }
    owner_ = std::this_thread::get_id();
    depth_ = 0;
  }
  ++depth_;
}

void NetLock::Release() noexcept {
  if (!is_mine() || --depth_ > 0) return;
  owner_ = std::thread::id();
  if (!line_.empty()) WakeAll();
}

void NetLock::WaitUntilIdle() {
  CheckProcess();
  if (!computing_) return;
  WaitInLine([&](bool first) { return !computing_ && (first || owner_ != std::thread::id()); });
}

void NetLock::Yield() {
  if (waiting_ == 0) return;
  const InPython python;
  if (!is_mine() || depth_ != 1 || line_.empty()) return;
  owner_ = std::thread::id();
  WakeAll();
  WaitInLine([&](bool first) { return first && owner_ == std::thread::id(); });
  owner_ = std::this_thread::get_id();
  depth_ = 1;
}

void AddNet(caffe::Net& net, const std::shared_ptr<NetLock>& lock) {
  Registry& registry = TheRegistry();
  registry.nets[&net] = lock;
  const auto add = [&](const std::shared_ptr<caffe::BlobBase>& blob) {
    registry.blobs[blob.get()] = {&net, lock};
  };
  for (const auto& blob : net.blobs()) add(blob);
  for (const auto& layer : net.layers()) {
    for (const auto& blob : layer->blobs()) add(blob);
  }
}

void RemoveNet(const caffe::Net& net) noexcept {
  Registry& registry = TheRegistry();
  registry.nets.erase(&net);
  std::erase_if(registry.blobs, [&](const auto& entry) { return entry.second.net == &net; });
}

std::shared_ptr<NetLock> LockOf(const caffe::Net& net) {
  const auto found = TheRegistry().nets.find(&net);
  if (found == TheRegistry().nets.end()) {
    throw py::type_error("this net was not made: call its class's __init__ first");
  }
  return found->second;
}

void WaitUntilIdle(const caffe::BlobBase& blob) {
  const auto found = TheRegistry().blobs.find(&blob);
  if (found == TheRegistry().blobs.end()) return;
  const std::shared_ptr<NetLock> lock = found->second.lock;
  lock->WaitUntilIdle();
}

caffe::Net* NetOf(const caffe::BlobBase& blob) {
  const auto found = TheRegistry().blobs.find(&blob);
  return found == TheRegistry().blobs.end() ? nullptr : found->second.net;
}

Computing::Computing(const caffe::Net& net) : held_(net), mark_(held_.lock()) {}

Computing::Mark::Mark(NetLock* lock) : lock_(lock), before_(lock->computing_) {
  lock->computing_ = true;
  own_locks.push_back(lock);
}

Computing::Mark::~Mark() {
  if (lock_->is_mine()) lock_->computing_ = before_;
  own_locks.pop_back();
}

InPython::InPython() {
  bool awaited = false;
  for (NetLock* lock : own_locks) {
    if (!lock->computing_ || !lock->is_mine()) continue;
    lock->computing_ = false;
    paused_.push_back(lock);
    awaited |= !lock->line_.empty();
  }
  if (awaited) WakeAll();
}

InPython::~InPython() {
  for (NetLock* lock : paused_) {
    if (lock->is_mine()) lock->computing_ = true;  // unless Yield was interrupted
  }
}
