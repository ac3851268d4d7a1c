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

// The forms of packed weights: for ByteTile, and the three of WordTile.
enum class CodeForm { kBytes, kWordBytes, kWords, kWordParts };

// The requantization of the channels of a product, for all its rows.
struct ByteOutput {
  long channels;
  const long* bias;
  const int *multiplier, *shift;
  const int *negative_multiplier, *negative_shift;  // of sums below 0; null if they have no slope
  int zero_y, lowest, highest;                      // codes
  unsigned char* y;
  long y_stride;
};

// y [rows, channels] = requantized products of rows of codes with packed weights.
struct ByteTile {
  long rows;
  // For packed weights a multiple of kByteDepth. The generic steps alone know more than 2^15.
  long depth;
  // The products in a sum, a multiple of 4. In matrix units a multiple of kByteDepth, or less than
  // that.
  long used;
  const unsigned char* a;
  long a_stride;
  const signed char* b;  // [channels / kByteChannels][depth / 4][kByteChannels][4]
  ByteOutput output;
  // Windows of an image, if ByteSteps::reads_windows. There are `lines` times `rows` rows, which
  // follow each other in y. A row is `runs` equal parts of `used` bytes.
  long lines = 1, line_stride = 0;
  long runs = 1, run_stride = 0;
};

// Positions of a depthwise convolution. Position i and tap t read `channels` codes from
// taps[i * tap_stride + t] on; tap_stride is a multiple of kByteTaps.
struct ByteWindows {
  long positions, tap_stride;
  const unsigned char* const* taps;
  const signed char* w;  // [channels / kByteLanes][tap_stride / 4][kByteLanes][4]
  ByteOutput output;
};

// Windows of 3x3 of a depthwise convolution, in an image with its padding. The weights are those of
// ByteWindows for the taps [column][row] of 3 columns and 4 rows; the 4th row is 0.
struct ByteLines {
  long lines, width;         // of outputs; lines follow each other in y
  long line_stride, stride;  // of windows: in bytes, and in pixels, 1 or 2
  const unsigned char* x;
  long pitch;  // bytes of a row of the image
  const signed char* w;
  ByteOutput output;
};

// Products of codes of 16 bits with weights of 16 bits. The sums have 64 bits. There are three
// forms of operands:
// * kWordBytes: the products of the bytes of codes and weights are summed in 32 bits.
// * kWords: codes - 32768 are multiplied with weights. A sum of two products fits 32 bits, and one
//   of a run of 4 or 8 products where weights are small enough.
// * kWordParts: the products of codes - 32768 and weights are summed modulo 2^32, and those of
//   their upper bytes in 32 bits. The second sum is so close to the first one, in a slice, that it
//   has its upper bits.
struct WordTile {
  long rows;
  // Elements of a row or plane, a multiple of kByteDepth or kPairDepth. kWords alone knows more
  // than 2^15.
  long depth;
  // kWords: rows of codes - 32768. kWordParts: the same, followed by the high bytes of the codes.
  // kWordBytes: rows of two planes, the low bytes of the codes, then the high ones.
  const unsigned char* a;
  long a_stride;  // in bytes
  // kWordBytes: [channels / kByteChannels][low, high][depth / 4][kByteChannels][4], where weight =
  // 256 high + low; high has a sign. kWords: [channels / kByteChannels][depth /
  // 2][kByteChannels][2] of 16 bits, with a WordHeader before each block of channels. kWordParts:
  // [channels / kByteChannels][depth / 4], each two pairs [2][kByteChannels][2] and the upper bytes
  // [kByteChannels][4], with a WordPartsHeader before each block.
  const unsigned char* b;
  // The y of `output` is not used.
  ByteOutput output;
  unsigned short* y;
  long y_stride;
  // Windows of an image like those of ByteTile, if `upper` is not null, for kWordParts and
  // ByteSteps::reads_windows. `a` are the codes - 32768 of the image, `upper` their high bytes. A
  // row has `used` products in `runs` equal parts; a_stride, line_stride and run_stride are in
  // codes.
  const unsigned char* upper = nullptr;
  long used = 0;
  long lines = 1, line_stride = 0;
  long runs = 1, run_stride = 0;
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
  // What the sums of the products of upper bytes begin with, slice by slice.
  int starts[205][kByteChannels];
};
constexpr long WordPartsHeaderBytes(long depth) {
  const long slices = (depth + kLeastSlice - 1) / kLeastSlice;
  return kByteChannels * static_cast<long>(sizeof(long)) + 64 +
         slices * kByteChannels * static_cast<long>(sizeof(int));
}

// ByteWindows for codes and weights (code - 32768) of 16 bits.
struct WordWindows {
  long positions, tap_stride;
  const unsigned short* const* taps;
  const short* w;     // [tap_stride][channels]
  ByteOutput output;  // its y is not used
  unsigned short* y;
  long y_stride;
};

// ByteLines for codes - 32768 of 16 bits. The weights are those of WordWindows for the taps of
// ByteLines. Rows of the image have one more column, whose content does not matter.
struct WordLines {
  long lines, width;
  long line_stride, stride, pitch;  // in codes; `stride` in pixels, 1 or 2
  const short *x, *w;
  ByteOutput output;  // its y is not used
  unsigned short* y;
  long y_stride;
};

struct ByteSteps {
  const char* name;
  bool matrix;         // `tile` uses matrix units
  bool reads_windows;  // `tile` knows lines and runs, and `words` of kWordParts
  void (*tile)(const ByteTile&);
  void (*windows)(const ByteWindows&);
  // Returns false if the factors of the output need `windows`. Channels are a multiple of
  // line_channels.
  bool (*lines)(const ByteLines&);
  long line_channels;
  void (*words)(const WordTile&);
  CodeForm word_form;  // of the operands of `words`
  // Elements [begin, begin + count) of a row of a WordTile from codes; those up to `end` are 0.
  void (*split)(const unsigned short* from, long count, long begin, long end, long depth,
                void* row);
  void (*word_windows)(const WordWindows&);
  bool (*word_lines)(const WordLines&);  // like `lines`
  long word_line_channels;
  // A thread calls these before and after its tiles; null if there is nothing to do.
  void (*begin)();
  void (*end)();
  // Codes of 8 bits, y [m, n], from sums [m, n] of 32 bits.
  void (*requantize)(const ByteOutput& output, bool rows_are_channels, long m, long n,
                     const int* sums);
};

}  // namespace caffe
