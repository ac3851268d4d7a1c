// The codes of sums, one by one, for all instructions.
#pragma once

namespace caffe {
namespace {

#include "math/requantize.h"
#include "math/sum_value.h"

int Bounded(i64 v, int low, int high) {
  return static_cast<int>(v < low ? low : v > high ? high : v);
}

// The code of a sum that includes the bias.
int Code(const ByteOutput& o, i64 sum, long channel) {
  const i64 r = o.negative_multiplier
                    ? requantize_slope(sum, o.multiplier[channel], o.shift[channel],
                                       o.negative_multiplier[channel], o.negative_shift[channel])
                    : requantize_i64(sum, o.multiplier[channel], o.shift[channel]);
  return Bounded(r + o.zero_y, o.lowest, o.highest);
}

i32 Sum(i32 products, i64 bias) {
  return static_cast<i32>(static_cast<u32>(products) + static_cast<u32>(bias));
}

// The codes of sums [m, n], whose rows are `stride` apart. Rows or columns are the channels from
// `channel` on.
template <bool kRowsAreChannels>
void StoreAll(const ByteOutput& o, long channel, long m, long n, const i32* sums, long stride,
              u8* y) {
  for (long i = 0; i < m; ++i, sums += stride, y += o.y_stride) {
    for (long j = 0; j < n && o.negative_multiplier; ++j) {
      const long c = channel + (kRowsAreChannels ? i : j);
      y[j] = static_cast<u8>(Code(o, Sum(sums[j], o.bias[c]), c));
    }
    if (o.negative_multiplier) continue;
    for (long j = 0; j < n; ++j) {
      const long c = channel + (kRowsAreChannels ? i : j);
      // The result may be near the limits of 32 bits.
      const i64 r = requantize_i32(Sum(sums[j], o.bias[c]), o.multiplier[c], o.shift[c]);
      y[j] = static_cast<u8>(Bounded(r + o.zero_y, o.lowest, o.highest));
    }
  }
}

void RequantizeOf(const ByteOutput& o, bool rows_are_channels, long m, long n, const i32* sums) {
  if (rows_are_channels) {
    StoreAll<true>(o, 0, m, n, sums, n, static_cast<u8*>(o.y));
  } else {
    StoreAll<false>(o, 0, m, n, sums, n, static_cast<u8*>(o.y));
  }
}

void StoreValues(const ByteOutput& o, long channel, long count, long rows, const i32* sums,
                 long stride, float* y) {
  constexpr long kPart = 16;
  for (long first = 0; first < count; first += kPart) {
    const long part = count - first < kPart ? count - first : kPart;
    i32 bias[kPart] = {};
    float scale[kPart] = {};
    for (long j = 0; j < part; ++j) {
      const long c = channel + first + j;
      bias[j] = static_cast<i32>(o.bias[c]);
      scale[j] = sum_scale(o.multiplier[c], o.shift[c]);
    }
    for (long i = 0; i < rows; ++i) {
      const i32* from = sums + i * stride + first;
      float* to = y + i * o.y_stride + first;
      const auto store = [&](long end) {
        for (long j = 0; j < end; ++j) to[j] = static_cast<float>(Sum(from[j], bias[j])) * scale[j];
      };
      part == kPart ? store(kPart) : store(part);
    }
  }
}

// Stores rows [row, row + rows) of `count` channels from `channel` on.
void StoreOneByOne(const ByteOutput& o, long channel, long count, long row, long rows,
                   const i32* sums, long stride) {
  if (o.result == ByteResult::kValues) {
    return StoreValues(o, channel, count, rows, sums, stride,
                       static_cast<float*>(o.y) + row * o.y_stride + channel);
  }
  if (o.result == ByteResult::kSums) {
    i32* y = static_cast<i32*>(o.y) + row * o.y_stride + channel;
    for (long i = 0; i < rows; ++i, sums += stride, y += o.y_stride) {
      for (long j = 0; j < count; ++j) y[j] = sums[j];
    }
    return;
  }
  StoreAll<false>(o, channel, rows, count, sums, stride,
                  static_cast<u8*>(o.y) + row * o.y_stride + channel);
}

}  // namespace
}  // namespace caffe
