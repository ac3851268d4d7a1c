#pragma once

#include <memory>

#include "caffe/device/kernel.hpp"
#include "caffe/library/gemm.hpp"

namespace caffe {

class Device;

// The epilogue of a product as a launch of its own, for libraries that have none.
class GemmEpilogue {
 public:
  GemmEpilogue(Device* device, const GemmDescriptor& descriptor);
  // In place on C; nothing if the epilogue is empty.
  void Run(DevicePtr c, DevicePtr bias);

 private:
  GemmDescriptor d_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
