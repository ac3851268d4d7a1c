#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// The end of a kernel for codes: bounds of the operator's own codes, and the sum with a residual
// behind them, if there is one (kernels/epilogue/residual_code.h). Kernels have the define RESIDUAL
// for it.
class ResidualStage {
 public:
  ResidualStage(const Epilogue& epilogue, DataType type, const QuantArguments& quant);
  // The least value of the operator's own code minus its zero point.
  int32_t low() const { return low_; }
  int32_t high() const { return high_; }
  // The zero point of y.
  int32_t zero() const { return zero_; }
  // Adds residual, factor, residual_factor, sum_shift, sum_low, sum_high, relu, rescale. `y`
  // replaces a residual that there is not.
  void AddArguments(DevicePtr residual, DevicePtr y, KernelArguments* arguments) const;

 private:
  const bool adds_, relu_;
  const CodeSum sum_;
  int32_t low_, high_, zero_, most_;
};

}  // namespace caffe
