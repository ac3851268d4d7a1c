// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/quantized_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

namespace caffe {
namespace {

#include "math/requantize.h"

#if defined(__AVX512F__)
constexpr int kRows = 4, kColumns = 4;
#else
constexpr int kRows = 3, kColumns = 3;
#endif
// Elements of a row that stay in the first cache during a loop over the rows of the other operand.
constexpr i64 kBlock = 1024;
// Sums of products fit i32 over this depth: 255 * 127 * 2^15 and 255 * 32767 * 2^8 are below 2^31.
constexpr i64 kNarrowSlice = 1 << 15, kByteSlice = 1 << 8;

// c[i, j] += the sum of a[i, p] b[j, p], which GCC compiles to multiply-add of pairs.
template <int R, int C>
DEVICE_FN void Dots(i64 k, const i16* a, i64 a_stride, const i16* b, i64 b_stride, i32* c,
                    i64 ldc) {
  i32 sum[R][C] = {};
  for (i64 p = 0; p < k; ++p) {
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) {
        sum[i][j] += static_cast<i32>(a[i * a_stride + p]) * static_cast<i32>(b[j * b_stride + p]);
      }
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) c[i * ldc + j] += sum[i][j];
  }
}

template <int R>
DEVICE_FN void Row(i64 n, i64 k, const i16* a, i64 a_stride, const i16* b, i64 b_stride, i32* c) {
  i64 j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    Dots<R, kColumns>(k, a, a_stride, b + j * b_stride, b_stride, c + j, kQuantTile);
  }
  for (; j < n; ++j) Dots<R, 1>(k, a, a_stride, b + j * b_stride, b_stride, c + j, kQuantTile);
}

void Block(i64 m, i64 n, i64 k, const i16* a, i64 a_stride, const i16* b, i64 b_stride, i32* c) {
  i64 i = 0;
  for (; i + kRows <= m; i += kRows) {
    Row<kRows>(n, k, a + i * a_stride, a_stride, b, b_stride, c + i * kQuantTile);
  }
  for (; i < m; ++i) Row<1>(n, k, a + i * a_stride, a_stride, b, b_stride, c + i * kQuantTile);
}

// wide += narrow * factor, narrow = 0.
void Flush(i64 m, i64 n, i64 factor, i32* narrow, i64* wide) {
  for (i64 i = 0; i < m; ++i) {
    for (i64 j = 0; j < n; ++j) {
      wide[i * kQuantTile + j] += narrow[i * kQuantTile + j] * factor;
      narrow[i * kQuantTile + j] = 0;
    }
  }
}

void Clear(i64 m, i64 n, i32* narrow, i64* wide) {
  for (i64 i = 0; i < m; ++i) {
    for (i64 j = 0; j < n; ++j) narrow[i * kQuantTile + j] = 0;
    for (i64 j = 0; j < n; ++j) wide[i * kQuantTile + j] = 0;
  }
}

// Rows of both sums are `stride` apart.
template <class Code, bool kSlope>
void StoreCodes(const QuantizedOutput& t, const i32* narrow, const i64* wide, i64 stride) {
  for (i64 i = 0; i < t.m; ++i) {
    Code* y = static_cast<Code*>(t.y) + i * t.ldc;
    for (i64 j = 0; j < t.n; ++j) {
      const i64 at = i * stride + j, c = t.rows_are_channels ? i : j;
      const i64 sum =
          t.wide ? wide[at] + t.bias[c]
                 : static_cast<i32>(static_cast<u32>(narrow[at]) + static_cast<u32>(t.bias[c]));
      const i64 r = kSlope ? requantize_slope(sum, t.multiplier[c], t.shift[c],
                                              t.negative_multiplier[c], t.negative_shift[c])
                           : requantize_i64(sum, t.multiplier[c], t.shift[c]);
      const i64 v = r + t.zero_y;
      y[j] = static_cast<Code>(v < t.lowest ? t.lowest : v > t.highest ? t.highest : v);
    }
  }
}

template <class Code>
void StoreTile(const QuantizedOutput& t, const i32* narrow, const i64* wide, i64 stride) {
  if (t.negative_multiplier) {
    StoreCodes<Code, true>(t, narrow, wide, stride);
  } else {
    StoreCodes<Code, false>(t, narrow, wide, stride);
  }
}

void TileOf(const QuantizedTile& t) {
  alignas(64) i32 narrow[kQuantTile * kQuantTile];
  alignas(64) i64 wide[kQuantTile * kQuantTile];
  Clear(t.m, t.n, narrow, wide);
  if (t.high > 0) {
    const i64 a_high = t.rows_are_channels ? 0 : t.high, b_high = t.rows_are_channels ? t.high : 0;
    for (i64 k0 = 0; k0 < t.k; k0 += kByteSlice) {
      const i64 k = t.k - k0 < kByteSlice ? t.k - k0 : kByteSlice;
      Block(t.m, t.n, k, t.a + k0, t.a_stride, t.b + k0, t.b_stride, narrow);
      Flush(t.m, t.n, 1, narrow, wide);
      Block(t.m, t.n, k, t.a + a_high + k0, t.a_stride, t.b + b_high + k0, t.b_stride, narrow);
      Flush(t.m, t.n, 256, narrow, wide);
    }
    StoreTile<u16>(t, narrow, wide, kQuantTile);
    return;
  }
  for (i64 k0 = 0; k0 < t.k; k0 += kBlock) {
    const i64 k = t.k - k0 < kBlock ? t.k - k0 : kBlock;
    Block(t.m, t.n, k, t.a + k0, t.a_stride, t.b + k0, t.b_stride, narrow);
    const bool full = (k0 + k) % kNarrowSlice == 0 || k0 + k == t.k;
    if (t.wide && full) Flush(t.m, t.n, 1, narrow, wide);
  }
  StoreTile<u8>(t, narrow, wide, kQuantTile);
}

void RequantizeOf(const QuantizedOutput& t, const i32* sums, i64 stride) {
  StoreTile<u8>(t, sums, nullptr, stride);
}

template <class Code> void PackRows(const QuantizedPack& p) {
  const i64 end = (p.k + kQuantDepth - 1) / kQuantDepth * kQuantDepth;
  for (i64 row = 0; row < p.rows; ++row) {
    const Code* source = static_cast<const Code*>(p.source) + row * p.row_stride;
    i16* target = p.target + row * p.target_stride;
    if (p.high > 0) {
      for (i64 i = 0; i < p.k; ++i) {
        const i32 code = source[i * p.k_stride];
        target[i] = static_cast<i16>(code & 255);
        target[p.high + i] = static_cast<i16>(code >> 8);
      }
    } else if (p.k_stride == 1) {
      for (i64 i = 0; i < p.k; ++i) target[i] = static_cast<i16>(source[i] - p.zero);
    } else {
      for (i64 i = 0; i < p.k; ++i) target[i] = static_cast<i16>(source[i * p.k_stride] - p.zero);
    }
    for (i64 i = p.k; i < end; ++i) {
      target[i] = 0;
      if (p.high > 0) target[p.high + i] = 0;
    }
  }
}

void PackOf(const QuantizedPack& p) {
  if (p.bytes == 1) {
    PackRows<u8>(p);
  } else {
    PackRows<u16>(p);
  }
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const QuantizedSteps CAFFE_JOIN(quantized_steps_, CAFFE_HOST_LEVEL);
constinit const QuantizedSteps CAFFE_JOIN(quantized_steps_, CAFFE_HOST_LEVEL){&PackOf, &TileOf,
                                                                              &RequantizeOf};

}  // namespace caffe
