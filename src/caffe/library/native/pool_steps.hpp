// Pooling of codes whose channels are neighbours, for one window.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

// y [channels] = the largest or the mean code of rows x columns taps, each of which is [channels].
struct CodeWindow {
  long channels;
  long rows, columns;              // at least one
  long row_stride, column_stride;  // elements from one to the next
  int bytes;                       // of a code
  const void* x;                   // the first tap
  void* y;
  // Of means: y = clamp(round((sum - offset) multiplier / 2^shift) + zero_y). Sums fit 32 bits.
  int offset, multiplier, shift, zero_y;
};

struct PoolSteps {
  void (*max)(const CodeWindow&);
  void (*mean)(const CodeWindow&);
};

}  // namespace caffe
