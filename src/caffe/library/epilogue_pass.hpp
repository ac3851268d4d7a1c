#pragma once

#include <cstdint>
#include <memory>

#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue_stages.hpp"

namespace caffe {

class Device;

// Bias and stages as a separate launch, for libraries without epilogues: y = epilogue(x), in place
// or from sums of another type. Not thread-safe.
class EpiloguePass {
 public:
  // Element (r, i) of [rows, columns] is at (r / per) * outer + (r % per) * stride + i, for x and
  // for y; the residual has the layout of y. Bias and slopes per row are those of r % per.
  struct Layout {
    int64_t rows, columns, per, x_outer, x_stride, y_outer, y_stride;
  };
  // Types: equal float kinds, or float to half or bfloat16.
  EpiloguePass(Device* device, DataType x, DataType y, const Epilogue& epilogue);
  void Run(const Layout& layout, DevicePtr x, DevicePtr y, DevicePtr bias,
           const EpilogueOperands& operands) const;

 private:
  const EpilogueStages stages_;
  const Epilogue::Bias bias_;
  const bool by_arguments_;  // the stages are arguments of the kernel
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
