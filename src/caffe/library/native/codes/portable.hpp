// Vectors of 128 bits in the language of GCC and clang, which find their own instructions for them,
// as those of NEON. The operations have the names of SSE4.2.
#pragma once

namespace caffe {
namespace {

typedef long V __attribute__((vector_size(16)));

#define CAFFE_OP(name) portable::name

namespace portable {

template <class T> struct Elements {
  static constexpr int kCount = 16 / sizeof(T);
  T v[kCount];
};

template <class T, class F> DEVICE_FN V Each(V a, V b, const F& f) {
  auto x = __builtin_bit_cast(Elements<T>, a), y = __builtin_bit_cast(Elements<T>, b);
  for (int i = 0; i < x.kCount; ++i) x.v[i] = static_cast<T>(f(x.v[i], y.v[i]));
  return __builtin_bit_cast(V, x);
}
template <class T> DEVICE_FN V Filled(T v) {
  Elements<T> x;
  for (T& element : x.v) element = v;
  return __builtin_bit_cast(V, x);
}
// Elements of both in turns, from element `first` on.
template <class T, int kFirst> DEVICE_FN V InTurns(V a, V b) {
  const auto x = __builtin_bit_cast(Elements<T>, a), y = __builtin_bit_cast(Elements<T>, b);
  Elements<T> r;
  for (int i = 0; i < r.kCount; ++i) r.v[i] = (i % 2 ? y : x).v[kFirst + i / 2];
  return __builtin_bit_cast(V, r);
}
// Elements of both as smaller ones between limits.
template <class From, class To> DEVICE_FN V Packed(V a, V b, int least, int most) {
  const auto x = __builtin_bit_cast(Elements<From>, a), y = __builtin_bit_cast(Elements<From>, b);
  Elements<To> r;
  for (int i = 0; i < r.kCount; ++i) {
    const int v = (i < x.kCount ? x : y).v[i % x.kCount];
    r.v[i] = static_cast<To>(v < least ? least : v > most ? most : v);
  }
  return __builtin_bit_cast(V, r);
}

DEVICE_FN V set1_epi32(int v) { return Filled<i32>(v); }
DEVICE_FN V set1_epi16(short v) { return Filled<i16>(v); }
DEVICE_FN V max_epi32(V a, V b) {
  return Each<i32>(a, b, [](i32 x, i32 y) { return x > y ? x : y; });
}
DEVICE_FN V min_epi32(V a, V b) {
  return Each<i32>(a, b, [](i32 x, i32 y) { return x < y ? x : y; });
}
DEVICE_FN V max_epi16(V a, V b) {
  return Each<i16>(a, b, [](i16 x, i16 y) { return x > y ? x : y; });
}
DEVICE_FN V min_epi16(V a, V b) {
  return Each<i16>(a, b, [](i16 x, i16 y) { return x < y ? x : y; });
}
DEVICE_FN V min_epu16(V a, V b) {
  return Each<u16>(a, b, [](u16 x, u16 y) { return x < y ? x : y; });
}
DEVICE_FN V adds_epi16(V a, V b) {
  return Each<i16>(a, b, [](int x, int y) {
    const int sum = x + y;
    return sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum;
  });
}
DEVICE_FN V mulhi_epu16(V a, V b) {
  return Each<u16>(a, b, [](u32 x, u32 y) { return x * y >> 16; });
}
DEVICE_FN V mul_epi32(V a, V b) {
  return Each<i64>(a, b,
                   [](i64 x, i64 y) { return i64{static_cast<i32>(x)} * static_cast<i32>(y); });
}
DEVICE_FN V mul_epu32(V a, V b) {
  return Each<u64>(a, b, [](u64 x, u64 y) { return (x & 0xffffffff) * (y & 0xffffffff); });
}
// The sums of the products of neighbours.
DEVICE_FN V madd_epi16(V a, V b) {
  return Each<u32>(a, b, [](u32 x, u32 y) {
    const i32 low = static_cast<i16>(x) * static_cast<i16>(y);
    return static_cast<u32>(low) +
           static_cast<u32>(static_cast<i16>(x >> 16) * static_cast<i16>(y >> 16));
  });
}
DEVICE_FN V unpacklo_epi8(V a, V b) { return InTurns<u8, 0>(a, b); }
DEVICE_FN V unpackhi_epi8(V a, V b) { return InTurns<u8, 8>(a, b); }
DEVICE_FN V unpacklo_epi16(V a, V b) { return InTurns<u16, 0>(a, b); }
DEVICE_FN V unpackhi_epi16(V a, V b) { return InTurns<u16, 4>(a, b); }
DEVICE_FN V packs_epi32(V a, V b) { return Packed<i32, i16>(a, b, -32768, 32767); }
DEVICE_FN V packus_epi32(V a, V b) { return Packed<i32, u16>(a, b, 0, 65535); }
DEVICE_FN V packus_epi16(V a, V b) { return Packed<i16, u8>(a, b, 0, 255); }

}  // namespace portable
}  // namespace
}  // namespace caffe

#include "caffe/library/native/codes/narrow.hpp"
