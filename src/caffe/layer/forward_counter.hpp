#pragma once

#include <memory>

#include "caffe/device/program.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// Counts a layer's forward passes. Its random numbers depend only on this count and the layer's
// seed. The count lives on the device, so that a replayed run of launches draws new numbers; a
// backward pass uses the numbers of the last forward again.
class ForwardCounter {
 public:
  // Creates it, at 0, or moves it to another device. Call this first.
  void Place(Device* device);
  // Enqueues one launch; call this before the launches of a forward.
  void Advance();
  // An argument IN(i32, counters): element 0 is the count.
  KernelArgument counters() const { return count_->Data(); }
  // For run states. Get waits for the device.
  uint32_t Get() const;
  void Set(uint32_t value);

 private:
  std::unique_ptr<Blob<float>> count_;  // holds i32 bits
  std::unique_ptr<Kernel> advance_;
};

}  // namespace caffe
