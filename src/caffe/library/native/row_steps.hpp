// Inner loops over rows of weights and of results.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

constexpr int kMostPlanes = 4;

// y[i, j] = sum of x[i, p] w[j, p] over p for j in [begin, end), with strides between rows. w has
// float or 16-bit elements, which are widened in registers.
struct RowProducts {
  long m, k, begin, end;
  const float* x;
  long x_stride;
  const void* w;
  long w_stride;
  float* y;
  long y_stride;
};

struct RowSteps {
  void (*dots_float)(const RowProducts&);
  void (*dots_half)(const RowProducts&);  // null if the level has no instruction that widens half
  void (*dots_bfloat16)(const RowProducts&);
  // Clamps elements of bfloat16 to [0, high]; `high` is the code of a number that is not negative.
  // NaN and -0 stay as they are.
  void (*clip_bfloat16)(unsigned short* values, long count, unsigned short high);
  // y[p * planes + c] = x[c * size + p] for p in [begin, end) and 1 to kMostPlanes planes of `size`
  // elements of 16 or 32 bits.
  void (*interleave_16)(const void* x, void* y, int planes, long size, long begin, long end);
  void (*interleave_32)(const void* x, void* y, int planes, long size, long begin, long end);
};

// The steps of the instruction level in use.
const RowSteps& HostRowSteps();

}  // namespace caffe
