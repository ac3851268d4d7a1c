// Products of codes on the CPU. Of 8 bits: u8 activations, s8 weights (code - 128), sums in i32,
// requantized while they are in the first cache.
//
// Uses no standard headers and no inline functions, because the file is compiled once per
// instruction level, see kernels/dialect/host.h.
#pragma once

namespace caffe {

inline constexpr long kByteChannels = 16;  // channels of a block of packed weights
inline constexpr long kByteDepth = 64;     // packed rows have a multiple of this many products
inline constexpr long kPairDepth = 16;     // the same of pairs of 16 bits
inline constexpr long kRunDepth = 16;      // products of 16 bits that have one length of runs
inline constexpr long kByteTaps = 4;       // taps of depthwise weights that are multiplied at once
inline constexpr long kByteLanes = 64;     // channels of a block of depthwise weights

// The forms of packed weights: for codes of 8 bits, and three for 16 bits.
enum class CodeForm { kBytes, kWordBytes, kWords, kWordParts };

// The results of a product of codes of 8 bits: codes; the sums, i32, without a bias; or their real
// values with the bias, float (math/sum_value.h). Products of 16 bits have codes.
enum class ByteResult { kCodes, kSums, kValues };

// The requantization of the channels of a product, for all its rows.
struct ByteOutput {
  long channels;
  const long* bias;
  const int *multiplier, *shift;
  const int *negative_multiplier, *negative_shift;  // of sums below 0; null if they have no slope
  int zero_y, lowest, highest;                      // codes
  void* y;
  long y_stride;  // in elements
  ByteResult result = ByteResult::kCodes;
};

// y [rows, channels] = requantized products of rows of codes with packed weights. Sums of 8 bits
// have 32 bits, those of 16 bits 64. There are three forms of operands of 16 bits:
// * kWordBytes: the products of the bytes of codes and weights are summed in 32 bits.
// * kWords: codes - 32768 are multiplied with weights. A sum of two products fits 32 bits, and one
//   of a run of 4 or 8 products where weights are small enough.
// * kWordParts: the products of codes - 32768 and weights are summed modulo 2^32, and those of
//   their upper bytes in 32 bits. The second sum is so close to the first one, in a slice, that it
//   has its upper bits.
struct CodeTile {
  long rows;
  // Elements of a row or plane, a multiple of kByteDepth (kBytes, kWordBytes) or kPairDepth. The
  // generic steps alone know more than 2^15.
  long depth;
  // kBytes: the products in a sum, a multiple of 4. In matrix units a multiple of kByteDepth, or
  // less than that.
  long used;
  // kWords: rows of codes - 32768. kWordParts: the same, followed by the high bytes of the codes.
  // kWordBytes: rows of two planes, the low bytes of the codes, then the high ones.
  const unsigned char* a;
  long a_stride;  // in bytes
  // kBytes: [channels / kByteChannels][depth / 4][kByteChannels][4]. kWordBytes: the same for
  // [channels / kByteChannels][low, high], where weight = 256 high + low; high has a sign. kWords:
  // [channels / kByteChannels][depth / 2][kByteChannels][2] of 16 bits, with a WordHeader before
  // each block of channels. kWordParts: [channels / kByteChannels][depth / 4], each two pairs
  // [2][kByteChannels][2] and the upper bytes [kByteChannels][4], with a WordPartsHeader before
  // each block.
  const void* b;
  ByteOutput output;
  // Windows of an image, if ByteSteps::reads_windows, for kBytes, and for kWordParts if `upper` is
  // not null: `a` are then the codes - 32768 of the image, `upper` their high bytes. There are
  // `lines` times `rows` rows, which follow each other in y. A row is `runs` equal parts of `used`
  // products; strides are in codes.
  const unsigned char* upper = nullptr;
  long lines = 1, line_stride = 0;
  long runs = 1, run_stride = 0;
};

// Positions of a depthwise convolution. Position i and tap t read `channels` codes from
// taps[i * tap_stride + t] on; tap_stride is a multiple of kByteTaps.
struct CodeWindows {
  long positions, tap_stride;
  const void* const* taps;
  // 8 bits: [channels / kByteLanes][tap_stride / 4][kByteLanes][4]; 16 bits: code - 32768,
  // [tap_stride][channels].
  const void* w;
  ByteOutput output;
};

// Windows of 3x3 of a depthwise convolution, in an image with its padding. The weights are those of
// CodeWindows for the taps [column][row] of 3 columns and 4 rows; the 4th row is 0. Images of 16
// bits have codes - 32768, and one more column, whose content does not matter.
struct CodeLines {
  long lines, width;                // of outputs; lines follow each other in y
  long line_stride, stride, pitch;  // in codes; `stride` of windows in pixels, 1 or 2
  const void *x, *w;
  ByteOutput output;
};

// Before a block of weights of kWords. Only WordHeaderBytes(depth) are stored.
struct WordHeader {
  long sums[kByteChannels];  // of the weights of a channel
  // For each kRunDepth products: how many pairs of products with any codes fit 32 bits, 1, 2 or 4.
  unsigned char runs[];
};
constexpr long WordHeaderBytes(long depth) {
  const long runs = (depth + kRunDepth - 1) / kRunDepth;
  return kByteChannels * static_cast<long>(sizeof(long)) + (runs + 63) / 64 * 64;
}

constexpr long kLeastSlice = 160;  // of kWordParts

// Before a block of weights of kWordParts. Only WordPartsHeaderBytes(depth) are stored. Where
// weight = 256 upper + lower, the magnitudes of all `upper` and `lower` of a slice have a sum below
// 2^16 - 1. The difference of the two sums of products is at most 2^15 times that.
struct WordPartsHeader {
  long sums[kByteChannels];  // of the weights of a channel
  long slice;                // products, a multiple of kPairDepth; the same in all blocks
  long unused[7];
  // The values that the sums of the products of upper bytes begin with, slice by slice.
  int starts[205][kByteChannels];
};
constexpr long WordPartsHeaderBytes(long depth) {
  const long slices = (depth + kLeastSlice - 1) / kLeastSlice;
  return kByteChannels * static_cast<long>(sizeof(long)) + 64 +
         slices * kByteChannels * static_cast<long>(sizeof(int));
}

// The functions for codes of 8 or of 16 bits.
struct TypeSteps {
  void (*tile)(const CodeTile&);
  CodeForm form;  // of the operands of `tile`
  void (*windows)(const CodeWindows&);
  // Returns false if the factors of the output need `windows`. Channels are a multiple of
  // line_channels.
  bool (*lines)(const CodeLines&);
  long line_channels;
};

struct ByteSteps {
  const char* name;
  bool matrix;         // tiles of 8 bits use matrix units
  bool reads_windows;  // tiles of kBytes and kWordParts know lines and runs
  TypeSteps bytes, words;
  // Elements [begin, begin + count) of a row of a tile of 16 bits from codes; those up to `end` are
  // 0.
  void (*split)(const unsigned short* from, long count, long begin, long end, long depth,
                void* row);
  // A thread calls these before and after its tiles; null if there is nothing to do.
  void (*begin)();
  void (*end)();
  // Codes of 8 bits, y [m, n], from sums [m, n] of 32 bits.
  void (*requantize)(const ByteOutput& output, bool rows_are_channels, long m, long n,
                     const int* sums);
};

}  // namespace caffe
