// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/pool_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

namespace caffe {
namespace {

#include "math/requantize.h"

#if defined(__AVX512BW__)
constexpr long kBytes = 64;
#elif defined(__AVX2__)
constexpr long kBytes = 32;
#else
constexpr long kBytes = 16;
#endif
// Channels whose sums stay in registers or in the first cache.
constexpr long kSums = 64;

template <class Code, long bytes> struct VectorOf {
  typedef Code Type __attribute__((vector_size(bytes), aligned(1), may_alias));
};

// Channels from `c` on, as many as fit vectors of `bytes` bytes; then smaller vectors.
template <class Code, long bytes> void MaxFrom(const CodeWindow& w, long c) {
  using V = typename VectorOf<Code, bytes>::Type;
  constexpr long kLanes = bytes / static_cast<long>(sizeof(Code));
  const Code* x = static_cast<const Code*>(w.x);
  for (; c + kLanes <= w.channels; c += kLanes) {
    V best = *reinterpret_cast<const V*>(x + c);
    for (long h = 0; h < w.rows; ++h) {
      const Code* tap = x + h * w.row_stride + c;
      for (long i = 0; i < w.columns; ++i, tap += w.column_stride) {
        const V v = *reinterpret_cast<const V*>(tap);
        best = v > best ? v : best;
      }
    }
    *reinterpret_cast<V*>(static_cast<Code*>(w.y) + c) = best;
  }
  if constexpr (bytes > sizeof(Code)) {
    if (c < w.channels) MaxFrom<Code, bytes / 2>(w, c);
  }
}

template <class Code> void MaxOf(const CodeWindow& w) { MaxFrom<Code, kBytes>(w, 0); }

template <class Code> void MeanOf(const CodeWindow& w) {
  const i32 most = static_cast<Code>(~Code{0});
  Code* y = static_cast<Code*>(w.y);
  for (long begin = 0; begin < w.channels; begin += kSums) {
    const long count = w.channels - begin < kSums ? w.channels - begin : kSums;
    i32 sums[kSums];
    for (long c = 0; c < kSums; ++c) sums[c] = -w.offset;
    for (long h = 0; h < w.rows; ++h) {
      const Code* x = static_cast<const Code*>(w.x) + h * w.row_stride + begin;
      for (long i = 0; i < w.columns; ++i, x += w.column_stride) {
        if (count == kSums) {
          for (long c = 0; c < kSums; ++c) sums[c] += x[c];
        } else {
          for (long c = 0; c < count; ++c) sums[c] += x[c];
        }
      }
    }
    i32 codes[kSums];
    for (long c = 0; c < kSums; ++c) {
      // The result may be near the limits of 32 bits.
      const i32 r = requantize_i32(sums[c], w.multiplier, w.shift);
      const i32 bounded = r < -most ? -most : r > most ? most : r;
      const i32 code = bounded + w.zero_y;
      codes[c] = code < 0 ? 0 : code > most ? most : code;
    }
    for (long c = 0; c < count; ++c) y[begin + c] = static_cast<Code>(codes[c]);
  }
}

void Max(const CodeWindow& w) { w.bytes == 1 ? MaxOf<u8>(w) : MaxOf<u16>(w); }
void Mean(const CodeWindow& w) { w.bytes == 1 ? MeanOf<u8>(w) : MeanOf<u16>(w); }

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const PoolSteps CAFFE_JOIN(pool_steps_, CAFFE_HOST_LEVEL);
constinit const PoolSteps CAFFE_JOIN(pool_steps_, CAFFE_HOST_LEVEL){&Max, &Mean};

}  // namespace caffe
