#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "gil.hpp"

namespace caffe {
class BlobBase;
class Net;
}  // namespace caffe

// The lock of a net, or of a solver and its nets: one thread at a time holds it, recursively, also
// from callbacks and Python layers. Other threads wait in the order in which they came; Ctrl-C ends
// the waiting. The GIL protects all members, and no thread waits while it holds the GIL: a thread
// that computes in a net has released it, and another one may access blobs only while no thread
// computes.
class NetLock {
 public:
  explicit NetLock(std::string name) : name_(std::move(name)) {}

  // Both with the GIL.
  void Acquire();
  void Release() noexcept;
  // Returns when no thread computes; none begins to as long as the caller keeps the GIL. So
  // threads that a Python layer waits for can still read and write its blobs.
  void WaitUntilIdle();
  // Between two iterations of the thread that computes, without the GIL: lets those in who wait.
  void Yield();

 private:
  friend class Computing;
  friend class InPython;
  bool is_mine() const { return owner_ == std::this_thread::get_id(); }
  template <class Ready> void WaitInLine(const Ready& ready);
  void CheckProcess();

  const std::string name_;
  std::thread::id owner_;
  int depth_ = 0;
  bool computing_ = false;
  std::deque<uint64_t> line_;
  std::atomic<int> waiting_{0};  // the line's length, for Yield
  caffe::ProcessMark process_;
  bool broken_ = false;  // forked while another thread was at work
};

// Registers a net and its blobs, or takes them out, with the GIL. Nets of one solver share a lock.
void AddNet(caffe::Net& net, const std::shared_ptr<NetLock>& lock);
void RemoveNet(const caffe::Net& net) noexcept;
// Throws if the net was never made (a subclass that forgot __init__).
std::shared_ptr<NetLock> LockOf(const caffe::Net& net);
// Call this before access to a blob: waits until its net is idle. Returns at once for other blobs.
void WaitUntilIdle(const caffe::BlobBase& blob);
// The net that a blob was registered with; null if there is none.
caffe::Net* NetOf(const caffe::BlobBase& blob);

// Holds a net, with the GIL.
class HeldNet {
 public:
  explicit HeldNet(const caffe::Net& net) : lock_(LockOf(net)) { lock_->Acquire(); }
  ~HeldNet() { lock_->Release(); }
  HeldNet(const HeldNet&) = delete;
  HeldNet& operator=(const HeldNet&) = delete;
  NetLock* lock() const { return lock_.get(); }

 private:
  friend class HeldNets;
  explicit HeldNet(std::shared_ptr<NetLock> lock) : lock_(std::move(lock)) { lock_->Acquire(); }
  const std::shared_ptr<NetLock> lock_;
};

// Holds two, in an order that does not depend on that of the arguments.
class HeldNets {
 public:
  HeldNets(const caffe::Net& a, const caffe::Net& b)
      : first_(std::min(LockOf(a), LockOf(b))), second_(std::max(LockOf(a), LockOf(b))) {}

 private:
  const HeldNet first_, second_;
};

// Holds a net and computes in it, without the GIL.
class Computing {
 public:
  explicit Computing(const caffe::Net& net);

 private:
  // Marks the lock, and this thread's list, while the GIL is held.
  class Mark {
   public:
    explicit Mark(NetLock* lock);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    NetLock* lock_;
    const bool before_;
  };

  const HeldNet held_;
  const Mark mark_;
  const WithoutGil without_gil_;
};

// Takes the GIL to run Python code from within a net: meanwhile nothing computes there.
class InPython {
 public:
  InPython();
  ~InPython();
  InPython(const InPython&) = delete;
  InPython& operator=(const InPython&) = delete;

 private:
  const WithGil gil_;
  std::vector<NetLock*> paused_;
};
