// Sums of codes and a residual on the CPU, for rows of codes that an operator has just written.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

// y [rows, n] = the sums of the codes of y and of the residual; see CodeSum.
struct CodeSumRows {
  long rows, n;
  int bytes;  // of a code
  const void* residual;
  long residual_stride;
  void* y;
  long y_stride;
  int zero_own;  // of the codes in y
  int own, factor, shift, zero_residual, zero_sum;
  bool relu;
  int multiplier, rescale_shift, zero_result;  // with relu
};

struct CodeSumSteps {
  void (*add)(const CodeSumRows&);
};

}  // namespace caffe
