#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// Adds a residual to rows of codes that an operator has just written, if its epilogue has a sum.
// Codes of both begin at element `first` of their arrays, whose rows are `y_stride` and
// `residual_stride` elements apart.
class ResidualCodes {
 public:
  ResidualCodes(const Epilogue& epilogue, DataType type, const QuantArguments& quant,
                DevicePtr residual, DevicePtr y);
  void Add(int64_t rows, int64_t n, int64_t first_of_y, int64_t y_stride, int64_t first_of_residual,
           int64_t residual_stride) const;

 private:
  const bool adds_, relu_;
  const int64_t bytes_;
  const CodeSum sum_;
  const int32_t zero_own_;
  char *residual_ = nullptr, *y_;
};

}  // namespace caffe
