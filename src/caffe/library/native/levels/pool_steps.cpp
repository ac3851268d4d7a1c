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

template <class Element, long bytes> struct VectorOf {
  typedef Element Type __attribute__((vector_size(bytes), aligned(1), may_alias));
};

// Elements in the form in which they are compared.
template <class Code> struct CodeOrder {
  using Element = Code;
  static constexpr Code kLeast = 0;
  template <class V> static V From(V v) { return v; }
  template <class V> static V To(V v) { return v; }
};

struct FloatOrder : CodeOrder<float> {
  static constexpr float kLeast = -3.402823466e+38f;
};

// The bits of a half kind as integers of the same order: those of negative numbers are inverted.
// NaN becomes the least number or less.
template <i16 infinity> struct HalfOrder {
  using Element = i16;
  static constexpr i16 kLeast = ~infinity;
  template <class V> static V From(V v) {
    const V ordered = To(v);
    return ordered > infinity ? V{} + kLeast : ordered;
  }
  template <class V> static V To(V v) { return v ^ ((v >> 15) & 0x7fff); }
};

// Channels from `c` on, as many as fit `count` vectors of `bytes` bytes; then fewer and smaller
// vectors.
template <class Order, long bytes, long count> void MaxFrom(const PoolWindow& w, long c) {
  using Element = typename Order::Element;
  using V = typename VectorOf<Element, bytes>::Type;
  constexpr long kLanes = bytes / static_cast<long>(sizeof(Element));
  const Element* x = static_cast<const Element*>(w.x);
  for (; c + count * kLanes <= w.channels; c += count * kLanes) {
    V best[count];
    for (long k = 0; k < count; ++k) best[k] = V{} + Order::kLeast;
    for (long h = 0; h < w.rows; ++h) {
      const Element* tap = x + h * w.row_stride + c;
      for (long i = 0; i < w.columns; ++i, tap += w.column_stride) {
        for (long k = 0; k < count; ++k) {
          const V v = Order::From(*reinterpret_cast<const V*>(tap + k * kLanes));
          best[k] = v > best[k] ? v : best[k];
        }
      }
    }
    Element* y = static_cast<Element*>(w.y) + c;
    for (long k = 0; k < count; ++k) *reinterpret_cast<V*>(y + k * kLanes) = Order::To(best[k]);
  }
  if (c == w.channels) return;
  if constexpr (count > 1) {
    MaxFrom<Order, bytes, 1>(w, c);
  } else if constexpr (bytes > sizeof(Element)) {
    MaxFrom<Order, bytes / 2, 1>(w, c);
  }
}

// The largest codes of rows, from code `i` on, as many as fit vectors of `bytes` bytes; then
// smaller vectors.
template <class Code, long bytes> void RowsFrom(const PoolLine& p, long i, Code* line) {
  using V = typename VectorOf<Code, bytes>::Type;
  constexpr long kLanes = bytes / static_cast<long>(sizeof(Code));
  const Code* x = static_cast<const Code*>(p.x);
  const long count = p.width * p.channels;
  for (; i + kLanes <= count; i += kLanes) {
    V best = *reinterpret_cast<const V*>(x + i);
    for (long h = 1; h < p.rows; ++h) {
      const V v = *reinterpret_cast<const V*>(x + h * p.row_stride + i);
      best = v > best ? v : best;
    }
    *reinterpret_cast<V*>(line + i) = best;
  }
  if constexpr (bytes > sizeof(Code)) {
    if (i < count) RowsFrom<Code, bytes / 2>(p, i, line);
  }
}

// Channels in vectors of `bytes` bytes: those behind a window are overwritten by the next one.
template <class Code, long bytes> void MaxLineOf(const PoolLine& p) {
  using V = typename VectorOf<Code, bytes>::Type;
  constexpr long kSize = static_cast<long>(sizeof(Code)), kSlack = kPoolLinePixel / kSize;
  alignas(64) Code line[kPoolLineBytes / kSize + kSlack], out[kPoolLineBytes / kSize + kSlack];
  const long count = p.width * p.channels;
  RowsFrom<Code, kBytes>(p, 0, line);
  for (long j = 0; j < kSlack; ++j) line[count + j] = 0;
  for (long w = 0; w < p.windows; ++w) {
    const long from = w * p.stride - p.pad, to = from + p.kernel;
    const long begin = from < 0 ? 0 : from, end = to < p.width ? to : p.width;
    V best = V{};
    for (long c = begin; c < end; ++c) {
      const V v = *reinterpret_cast<const V*>(line + c * p.channels);
      best = v > best ? v : best;
    }
    *reinterpret_cast<V*>(out + w * p.channels) = best;
  }
  __builtin_memcpy(p.y, out, p.windows * p.channels * kSize);
}

template <class Code> void MaxLineOf(const PoolLine& p) {
  const long bytes = p.channels * static_cast<long>(sizeof(Code));
  if (bytes <= 16) return MaxLineOf<Code, 16>(p);
  if (bytes <= 32) return MaxLineOf<Code, 32>(p);
  MaxLineOf<Code, 64>(p);
}

template <class Code> void MeanOf(const PoolWindow& w) {
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

void Max(const PoolWindow& w) {
  switch (w.element) {
    case PoolElement::kCode8: return MaxFrom<CodeOrder<u8>, kBytes, 4>(w, 0);
    case PoolElement::kCode16: return MaxFrom<CodeOrder<u16>, kBytes, 4>(w, 0);
    case PoolElement::kFloat: return MaxFrom<FloatOrder, kBytes, 4>(w, 0);
    case PoolElement::kHalf: return MaxFrom<HalfOrder<0x7c00>, kBytes, 4>(w, 0);
    case PoolElement::kBfloat16: return MaxFrom<HalfOrder<0x7f80>, kBytes, 4>(w, 0);
  }
}
void MaxLine(const PoolLine& p) {
  p.element == PoolElement::kCode8 ? MaxLineOf<u8>(p) : MaxLineOf<u16>(p);
}
void Mean(const PoolWindow& w) {
  w.element == PoolElement::kCode8 ? MeanOf<u8>(w) : MeanOf<u16>(w);
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const PoolSteps CAFFE_JOIN(pool_steps_, CAFFE_HOST_LEVEL);
constinit const PoolSteps CAFFE_JOIN(pool_steps_, CAFFE_HOST_LEVEL){&Max, &MaxLine, &Mean};

}  // namespace caffe
