#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// The connection between the replicas of a net that train together. Each replica has a communicator
// of its own, with its rank. All ranks call the same functions in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  // The text that rank 0 gives. Waits for rank 0 if that runs elsewhere; ranks of one thread call
  // this in their order.
  virtual std::string Broadcast(const std::string& text) = 0;
  // Adds the arrays of all ranks, element by element, and writes the sum to all of them. It
  // enqueues the work on the calling thread's stream, and does nothing else: a Capture can record
  // it. Notes the buffers that it uses, and their extents. The type is float or double.
  virtual void AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) = 0;
};

}  // namespace caffe
