// Pooling of codes, float and half kinds whose channels are neighbours, for one window or a line of
// them.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

enum class PoolElement { kCode8, kCode16, kFloat, kHalf, kBfloat16 };

// y [channels] = the largest or the mean element of rows x columns taps, each of which is
// [channels]. Float and half kinds have maxima only. They ignore NaN. If there is nothing else,
// they are the lowest float or -infinity.
struct PoolWindow {
  PoolElement element;
  long channels;
  long rows, columns;              // at least one
  long row_stride, column_stride;  // elements from one to the next
  const void* x;                   // the first tap
  void* y;
  // For means: y = clamp(round((sum - offset) multiplier / 2^shift) + zero_y). Sums fit 32 bits.
  int offset, multiplier, shift, zero_y;
};

// The largest codes of a line of windows with few channels: `windows` times `channels` codes follow
// each other in y. Each window has columns of the image.
struct PoolLine {
  PoolElement element;  // a code
  long channels;
  long rows, row_stride;  // in elements
  const void* x;          // column 0 of the first row
  long width;             // columns of the image
  long windows, kernel, stride, pad;
  void* y;
};

// Bytes of a line of x or y, and of the channels, that `max_line` computes at most.
inline constexpr long kPoolLineBytes = 4096, kPoolLinePixel = 64;

struct PoolSteps {
  void (*max)(const PoolWindow&);
  void (*max_line)(const PoolLine&);
  void (*mean)(const PoolWindow&);
};

}  // namespace caffe
