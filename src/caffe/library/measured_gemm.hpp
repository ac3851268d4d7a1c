#pragma once

#include <string>
#include <vector>

#include "caffe/library/device_array.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {

// Memory for measurements of float products.
class GemmScratch {
 public:
  // Throws OutOfMemory.
  GemmScratch(Device* device, const GemmDescriptor& descriptor);
  // The time of the operator, of the same descriptor, in milliseconds, see MeasureMilliseconds.
  double Measure(GemmOp* op, double best) const;

 private:
  Device* device_;
  DeviceArray a_, b_, c_, along_, residual_;
};

// The name of the one of `rows` that computes a product fastest: measured, or known from earlier.
// Processors compile for seconds: there, only `caffe tune` measures, and otherwise the result is
// the name of the first row unless another one is known.
std::string FastestProduct(Device* device, const GemmDescriptor& descriptor,
                           const std::vector<GemmLibrary>& rows);

}  // namespace caffe
