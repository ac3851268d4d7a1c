#pragma once

#include <cstdint>
#include <memory>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/core/shape.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/device/kernel.hpp"

namespace caffe {

class Device;

// Copies arrays of shape (n, c, spatial axes…) from one layout to the other. Allocates nothing.
class LayoutConverter {
 public:
  // `type` is a float kind, or a quantized type on the CPU.
  LayoutConverter(Device* device, DataType type);
  // y, in layout `to`, = x, in the other layout. The arrays must not overlap. `pitch`: the elements
  // from one position of the array in kNHWC to the next, if it is a part of the channels of a
  // larger one; 0: `channels`.
  void Run(const Shape& shape, DevicePtr x, DevicePtr y, Layout to, int64_t pitch = 0);
  void Run(int64_t batch, int64_t channels, int64_t positions, DevicePtr x, DevicePtr y, Layout to,
           int64_t pitch = 0);

 private:
  Device* device_;
  int64_t element_bytes_;
  std::unique_ptr<Kernel> transpose_, few_;
};

}  // namespace caffe
