// Sums of products of codes on the CPU. Operands are packed to i16 first: weights as code - zero
// point, activations as codes, those of 16 bits as two planes of bytes. So every product of i16 is
// exact in i32 and two of them are one instruction.
//
// Free of standard headers and of inline functions: the steps are compiled once per instruction
// level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

inline constexpr long kQuantTile = 64;   // most rows and columns of a tile
inline constexpr long kQuantDepth = 32;  // packed rows have a multiple of this many elements

// Rows [rows] of k codes, `row_step` and `k_step` apart, to rows of i16 `target_step` apart, with
// zeros behind the last code. `high` > 0: the bytes above the lowest go that many elements behind.
struct QuantizedPack {
  long rows, k, row_step, k_step;
  const void* source;
  int bytes, zero;
  short* target;
  long target_step, high;
};

// A block [m, n] of y = requantized sums of a[i] b[j] over k, a multiple of kQuantDepth.
struct QuantizedTile {
  long m, n, k;
  const short *a, *b;
  long a_step, b_step;
  long high;       // from the low to the high bytes of the activations; 0 for codes of 8 bits
  bool a_weights;  // channels are rows, and b are the activations; else the other way round
  bool wide;
  const long* bias;  // of the first channel
  const int *multiplier, *shift;
  const int *negative_multiplier, *negative_shift;  // of sums below 0; null if they have no slope
  int zero_y, lowest, highest;                      // codes
  void* y;                                          // u8, or u16 where there are high bytes
  long ldc;
};

struct QuantizedSteps {
  void (*pack)(const QuantizedPack&);
  void (*tile)(const QuantizedTile&);
};

}  // namespace caffe
