#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bindings.hpp"
#include "caffe/core/process_mark.hpp"
#include "gil.hpp"

namespace caffe {
class BlobBase;
class Net;
}  // namespace caffe

// Lets one thread at a time use a net, or a solver with its nets. The owner may lock it again, also
// in callbacks and Python layers. A thread that comes while others wait, waits, too: so no thread
// takes the lock again and again.
//
// The GIL protects the members, so it is also the mutex of the condition variable. No deadlock with
// the GIL is possible: a thread releases it before it waits for a lock and before it computes, and
// a thread that computes waits for nothing but the GIL. While it runs Python code, which may wait
// for other threads, the net counts as idle, so that these threads can use its blobs.
class NetLock {
 public:
  explicit NetLock(std::string name) : name_(std::move(name)) {}

  // Files that the net, or the nets of the solver, were read from, as absolute paths.
  std::vector<std::string> files;
  void AddFiles(const std::vector<std::string>& paths);

  // While a thread waits, it calls `check` every 50 ms or sooner; an exception ends the waiting.
  void lock(const std::function<void()>& check = &CheckSignals);
  void unlock() noexcept;
  // Waits until no thread computes. None can start before the caller releases the GIL.
  void WaitUntilIdle();
  // Called without the GIL by the thread that computes: gives the lock to the threads that wait and
  // locks again. If `check` throws, the thread no longer owns the lock.
  void Yield(const std::function<void()>& check);

 private:
  friend class Computing;
  friend class InPython;
  bool is_mine() const { return owner_ == std::this_thread::get_id(); }
  void SetComputing(bool computing) noexcept;
  void CheckProcess();
  template <class Ready> void Wait(const Ready& ready, const std::function<void()>& check);
  void Notify();
  void ForgetParent();

  // The event that waiting threads wait for. A child of fork() makes its own; that of the parent
  // stays, because the copies of the parent's threads hold it.
  struct Change {
    caffe::ProcessMark process;
    std::condition_variable_any happened;
  };

  const std::string name_;
  std::thread::id owner_;
  caffe::ProcessMark owner_process_;
  int depth_ = 0;                // how often the owner has locked
  bool computing_ = false;       // the owner runs C++ code without the GIL
  std::atomic<int> waiting_{0};  // the threads that wait; Yield reads it without the GIL
  std::shared_ptr<Change> change_ = std::make_shared<Change>();
};

// The lock of a net is found by the net and by its blobs. The nets of a solver have one lock.
void AddNet(caffe::Net& net, const std::shared_ptr<NetLock>& lock);
void RemoveNet(const caffe::Net& net) noexcept;
// Throws if the net was never made (a subclass that does not call __init__).
std::shared_ptr<NetLock> LockOf(const caffe::Net& net);
// The net of a blob, or null.
caffe::Net* NetOf(const caffe::BlobBase& blob);
// Waits until the net of a blob is idle.
void WaitUntilIdle(const caffe::BlobBase& blob);

// Locks a net and releases the GIL.
class Computing {
 public:
  explicit Computing(const caffe::Net& net);
  ~Computing();

 private:
  const std::shared_ptr<NetLock> lock_;
  std::optional<WithoutGil> without_gil_;
};

// Takes the GIL to run Python code. If this thread computes in a net, the net is idle meanwhile.
class InPython {
 public:
  InPython();
  ~InPython();

 private:
  const WithGil gil_;
  NetLock* const lock_;
};
