// Sums of products of codes on the CPU. Operands are first packed to i16: weights as code - zero
// point, activations as codes, 16-bit codes as two planes of bytes. So every product of i16 is
// exact in i32, and one instruction computes two of them.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

inline constexpr long kQuantTile = 64;   // most rows and columns of a tile
inline constexpr long kQuantDepth = 32;  // packed rows have a multiple of this many elements

// Packs `rows` rows of k codes, whose strides are `row_stride` and `k_stride`, to rows of i16 with
// stride `target_stride`, with zeros after the last code. `high` > 0: the upper bytes are written
// at this offset.
struct QuantizedPack {
  long rows, k, row_stride, k_stride;
  const void* source;
  int bytes, zero;
  short* target;
  long target_stride, high;
};

// A block [m, n] of y = requantized sums.
struct QuantizedOutput {
  long m, n;
  bool rows_are_channels;  // else columns are
  bool wide;               // sums have 64 bits
  const long* bias;        // of the first channel
  const int *multiplier, *shift;
  const int *negative_multiplier, *negative_shift;  // of sums below 0; null if they have no slope
  int zero_y, lowest, highest;                      // codes
  void* y;
  long ldc;
};

// The sums are those of a[i] b[j] over k, a multiple of kQuantDepth. y is u8, or u16 where there are
// high bytes.
struct QuantizedTile : QuantizedOutput {
  long k;
  const short *a, *b;  // the weights are those of channels
  long a_stride, b_stride;
  long high;  // offset from the low to the high bytes of the activations; 0 for codes of 8 bits
};

struct QuantizedSteps {
  void (*pack)(const QuantizedPack&);
  void (*tile)(const QuantizedTile&);
  // Requantizes sums [m, n] of 32 bits, whose rows are `stride` apart, to u8.
  void (*requantize)(const QuantizedOutput&, const int* sums, long stride);
};

}  // namespace caffe
