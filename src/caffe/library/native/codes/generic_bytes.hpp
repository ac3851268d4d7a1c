// Products of bytes where no wider instructions are known, see generic.hpp.
#pragma once

namespace caffe {
namespace {

// Sums of products have 32 bits over this depth: 255 * 128 * 2^15 is below 2^31.
constexpr long kNarrowSlice = 1 << 15;

// Sums of the products of a row with a block of channels.
void Dots(long used, const u8* a, const signed char* b, i32* sums) {
  constexpr int kVectors = kByteChannels / 2;
  Ints c[kVectors] = {};
  for (long k = 0; k < used; k += 4, a += 4, b += 4 * kByteChannels) {
    const Words x = LoadFour(a);
    for (int j = 0; j < kVectors; ++j) c[j] += Pairs(x, LoadBytes(b + 8 * j));
  }
  for (int j = 0; j < kByteChannels; ++j) sums[j] = c[j / 2][j % 2 * 2] + c[j / 2][j % 2 * 2 + 1];
}

// Sums of 64 bits.
void WideTileOf(const ByteTile& t) {
  const ByteOutput& o = t.output;
  for (long c = 0; c < o.channels; c += kByteChannels) {
    const long count = o.channels - c < kByteChannels ? o.channels - c : kByteChannels;
    for (long r = 0; r < t.rows; ++r) {
      i64 wide[kByteChannels] = {};
      for (long k = 0; k < t.used; k += kNarrowSlice) {
        i32 sums[kByteChannels];
        Dots(t.used - k < kNarrowSlice ? t.used - k : kNarrowSlice, t.a + r * t.a_stride + k,
             t.b + c * t.depth + k * kByteChannels, sums);
        for (long j = 0; j < kByteChannels; ++j) wide[j] += sums[j];
      }
      u8* y = o.y + r * o.y_stride + c;
      for (long j = 0; j < count; ++j) {
        y[j] = static_cast<u8>(Code(o, wide[j] + o.bias[c + j], c + j));
      }
    }
  }
}

void TileOf(const ByteTile& t) {
  if (t.depth > kNarrowSlice) return WideTileOf(t);
  // Sums between the products and their requantization.
  constexpr long kRows = 32;
  alignas(64) i32 sums[kRows * kByteChannels];
  for (long c = 0; c < t.output.channels; c += kByteChannels) {
    for (long r = 0; r < t.rows; r += kRows) {
      const long rows = t.rows - r < kRows ? t.rows - r : kRows;
      for (long i = 0; i < rows; ++i) {
        Dots(t.used, t.a + (r + i) * t.a_stride, t.b + c * t.depth, sums + i * kByteChannels);
      }
      StoreOneByOne(t.output, c, r, rows, sums, kByteChannels);
    }
  }
}

// The functions of these instructions, for windows.hpp.
struct GenericBytes {
  static constexpr auto kStore = &StoreOneByOne;
  static bool FastWindows(const ByteWindows&) { return false; }
  static bool FastWindows(const ByteWindows&, long, long) { return false; }
};

}  // namespace
}  // namespace caffe
