#pragma once

#include <memory>

#include "caffe/device/program.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// Counts the forwards of a layer that draws random numbers, besides its seed all that these depend on.
// It lives on the device, so that a replayed run of launches draws new numbers; a backward pass draws
// those of the last forward once more.
class ForwardCounter {
 public:
  // Makes it, at 0, or moves it to another device. Before anything else.
  void Place(Device* device);
  // One launch, before those of a forward.
  void Advance();
  // An argument IN(i32, counters): element 0 counts.
  KernelArgument counters() const { return count_->Data(); }
  // For run states. Get waits for the device.
  uint32_t Get() const;
  void Set(uint32_t value);

 private:
  std::unique_ptr<Blob<float>> count_;  // holds i32 bits
  std::unique_ptr<Kernel> advance_;
};

}  // namespace caffe
