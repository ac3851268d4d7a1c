#pragma once

#include <cstdint>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

// The state for which work was recorded: addresses, versions and epochs, in a fixed order. After
// the first passes it allocates nothing.
class GraphEpoch {
 public:
  void Begin();
  void Add(uint64_t value) { now_.push_back(value); }
  void Add(const void* address) { Add(uint64_t{reinterpret_cast<uintptr_t>(address)}); }
  // A null pointer marks the state as incomplete: it never equals another one.
  void Add(DevicePtr pointer);
  void MarkIncomplete() { complete_ = false; }
  // How many times in a row, before this time, the state was the same.
  int End();

 private:
  std::vector<uint64_t> now_, before_;
  bool complete_ = true;
  int same_ = 0;
};

}  // namespace caffe
