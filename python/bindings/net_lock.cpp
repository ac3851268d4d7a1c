#include "net_lock.hpp"

#include <chrono>
#include <filesystem>
#include <unordered_map>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/net/net.hpp"

namespace py = pybind11;

namespace {

// The lock under which this thread computes.
thread_local NetLock* computes_under = nullptr;

struct Entry {
  caffe::Net* net;
  std::shared_ptr<NetLock> lock;
};

// By the addresses of nets and blobs. Never destroyed, because nets may outlive static objects.
std::unordered_map<const void*, Entry>& Entries() {
  static auto* const entries = new std::unordered_map<const void*, Entry>;
  return *entries;
}

}  // namespace

void NetLock::lock(const std::function<void()>& check) {
  CheckProcess();
  if (!is_mine() && (owner_ != std::thread::id() || waiting_ > 0)) {
    Wait([this] { return owner_ == std::thread::id(); }, check);
  }
  if (++depth_ > 1) return;
  owner_ = std::this_thread::get_id();
  owner_process_ = caffe::ProcessMark();
}

void NetLock::unlock() noexcept {
  if (!is_mine() || --depth_ > 0) return;
  owner_ = std::thread::id();
  Notify();
}

void NetLock::WaitUntilIdle() {
  CheckProcess();
  if (computing_) Wait([this] { return !computing_; }, &CheckSignals);
}

void NetLock::Yield(const std::function<void()>& check) {
  if (waiting_ == 0) return;
  const InPython python;
  unlock();
  lock(check);
}

void NetLock::SetComputing(bool computing) noexcept {
  computes_under = computing ? this : nullptr;
  if (!is_mine()) return;  // Yield was interrupted
  computing_ = computing;
  if (!computing) Notify();
}

void NetLock::CheckProcess() {
  ForgetParent();
  CAFFE_CHECK(is_mine() || owner_ == std::thread::id() || !owner_process_.inherited(), name_,
              " was in use by another thread when this process was forked: make it again in the "
              "child, or start the child with multiprocessing.get_context('spawn')");
}

// Lets others run until `ready` returns true, at least once, because others may have come earlier.
template <class Ready> void NetLock::Wait(const Ready& ready, const std::function<void()>& check) {
  struct Gil {
    std::optional<WithoutGil> others_run;
    void unlock() { others_run.emplace(); }
    void lock() { others_run.reset(); }
  } gil;
  struct Waiting {
    NetLock* const lock;
    explicit Waiting(NetLock* net) : lock(net) { ++lock->waiting_; }
    ~Waiting() {
      --lock->waiting_;
      lock->Notify();  // those that came later
    }
  } const waiting(this);
  const auto change = change_;
  do {
    change->happened.wait_for(gil, std::chrono::milliseconds(50));
    check();
  } while (!ready());
}

void NetLock::Notify() {
  ForgetParent();
  change_->happened.notify_all();
}

// The threads that waited when a process was forked are not in the child.
void NetLock::ForgetParent() {
  if (!change_->process.inherited()) return;
  change_ = std::make_shared<Change>();
  waiting_ = 0;
}

void NetLock::AddFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    if (!path.empty() && !error) files.push_back(absolute.string());
  }
}

void AddNet(caffe::Net& net, const std::shared_ptr<NetLock>& lock) {
  const auto add = [&](const void* key) { Entries()[key] = {&net, lock}; };
  add(&net);
  for (const auto& blob : net.blobs()) add(blob.get());
  for (const auto& layer : net.layers()) {
    for (const auto& blob : layer->blobs()) add(blob.get());
  }
}

void RemoveNet(const caffe::Net& net) noexcept {
  std::erase_if(Entries(), [&](const auto& entry) { return entry.second.net == &net; });
}

std::shared_ptr<NetLock> LockOf(const caffe::Net& net) {
  const auto found = Entries().find(&net);
  if (found == Entries().end()) {
    throw py::type_error("this net was not made: call its class's __init__ first");
  }
  return found->second.lock;
}

caffe::Net* NetOf(const caffe::BlobBase& blob) {
  const auto found = Entries().find(&blob);
  return found == Entries().end() ? nullptr : found->second.net;
}

void WaitUntilIdle(const caffe::BlobBase& blob) {
  if (const caffe::Net* net = NetOf(blob)) LockOf(*net)->WaitUntilIdle();
}

Computing::Computing(const caffe::Net& net) : lock_(LockOf(net)) {
  lock_->lock();
  lock_->SetComputing(true);
  without_gil_.emplace();
}

Computing::~Computing() {
  without_gil_.reset();
  lock_->SetComputing(false);
  lock_->unlock();
}

InPython::InPython() : lock_(computes_under) {
  if (lock_) lock_->SetComputing(false);
}

InPython::~InPython() {
  if (lock_) lock_->SetComputing(true);
}
