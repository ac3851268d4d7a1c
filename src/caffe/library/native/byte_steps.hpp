// Products of codes of 8 bits on the CPU: u8 activations, s8 weights (code - 128), sums in i32,
// requantized while they are in the first cache.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

inline constexpr long kByteChannels = 16;  // channels of a block of packed weights
inline constexpr long kByteDepth = 64;     // packed rows have a multiple of this many products
inline constexpr long kByteTaps = 4;       // taps of depthwise weights that are multiplied at once
inline constexpr long kByteLanes = 64;     // channels of a block of depthwise weights

// The requantization of the channels of a product, for all its rows.
struct ByteOutput {
  long channels;
  const long* bias;
  const int *multiplier, *shift;
  const int *negative_multiplier, *negative_shift;  // of sums below 0; null if they have no slope
  int zero_y, lowest, highest;                      // codes
  unsigned char* y;
  long y_stride;
  // If not null, the codes of a sum: y = residual_y + ((code - zero_y) own + (residual -
  // residual_zero) other) / 2^sum_shift, rounded once, between sum_lowest and sum_highest.
  const unsigned char* residual;
  long residual_stride;
  int residual_zero, own, other, sum_shift, sum_zero, sum_lowest, sum_highest;
};

// y [rows, channels] = requantized products of rows of codes with packed weights.
struct ByteTile {
  long rows;
  long depth;  // of packed weights and of rows of a, a multiple of kByteDepth
  const unsigned char* a;
  long a_stride;
  const signed char* b;  // [channels / kByteChannels][depth / 4][kByteChannels][4]
  ByteOutput output;
};

// Positions of a depthwise convolution. Position i and tap t read `channels` codes from
// taps[i * tap_stride + t] on; tap_stride is a multiple of kByteTaps.
struct ByteWindows {
  long positions, tap_stride;
  const unsigned char* const* taps;
  const signed char* w;  // [channels / kByteLanes][tap_stride / 4][kByteLanes][4]
  ByteOutput output;
};

struct ByteSteps {
  const char* name;
  void (*tile)(const ByteTile&);
  void (*windows)(const ByteWindows&);
  // A thread calls these before and after its tiles; null if there is nothing to do.
  void (*begin)();
  void (*end)();
};

}  // namespace caffe
