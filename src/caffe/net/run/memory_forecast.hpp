#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "caffe/device/available_memory.hpp"
#include "caffe/net/memory_needs.hpp"
#include "caffe/net/wiring.hpp"
#include "node_runner.hpp"

namespace caffe {

// Compares what a net needs with what its device has, before the memory is taken: Linux promises
// more memory than there is, and kills a process that uses it.
class MemoryForecast {
 public:
  // Passes that need different memory.
  enum class Pass { kArena = 1, kForward = 2, kBackward = 4 };

  MemoryForecast(const Wiring& wiring, NodeRunner* runner) : wiring_(wiring), runner_(*runner) {}

  // At the first pass of its kind with these shapes: throws OutOfMemory if the net needs more than
  // the device has. Brings the shapes of all nodes up to date. `cure` is appended to the message.
  void Check(Pass pass, const std::function<MemoryNeeds()>& needs,
             const std::function<std::string(const MemoryNeeds&)>& cure);
  // The needs may have changed, though shapes did not.
  void Forget() { checked_ = 0; }

 private:
  bool ShapesChanged() const;
  int64_t Epochs() const;
  int64_t MostNeeded() const;
  int64_t Held() const;

  const Wiring& wiring_;
  NodeRunner& runner_;
  int checked_ = 0;  // a sum of passes
  int64_t epochs_ = -1;
  int64_t last_total_ = 0;  // what the last pass needed
  // Read at most once in a second, as long as nets are small.
  AvailableMemory available_;
  std::chrono::steady_clock::time_point read_at_{};
};

}  // namespace caffe
