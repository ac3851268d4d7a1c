#pragma once

#include <atomic>
#include <string>

namespace caffe {

// Remembers the process in which an object was made. A child of fork() has a copy of all objects
// but no other threads, and drivers do not work in it. The check is one comparison.
class ProcessMark {
 public:
  bool inherited() const noexcept { return depth_ != forks_.load(std::memory_order_relaxed); }
  // Throws if the object was inherited; `what` names the device.
  void Check(const std::string& what) const {
    if (inherited()) [[unlikely]] {
      Refuse(what);
    }
  }

 private:
  [[noreturn]] static void Refuse(const std::string& what);
  static void CountFork() noexcept;
  static bool Register();

  static std::atomic<int> forks_;  // between the first process and this one
  static const bool registered_;
  int depth_ = forks_.load(std::memory_order_relaxed);
};

}  // namespace caffe
