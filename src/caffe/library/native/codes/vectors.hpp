// The operations on vectors of 32 bits that all instructions have alike. The file before this one
// defines V, kLanes, and CAFFE_OP(name): the one of its width that x86-64 calls so.
#pragma once

namespace caffe {
namespace {

// A vector in memory. GCC keeps sums in registers that it would spill for __builtin_memcpy.
typedef V Anywhere __attribute__((aligned(1), may_alias));
typedef int Ints __attribute__((vector_size(sizeof(V))));
typedef short Words __attribute__((vector_size(sizeof(V))));
typedef unsigned short UnsignedWords __attribute__((vector_size(sizeof(V))));
typedef unsigned UnsignedInts __attribute__((vector_size(sizeof(V))));
typedef unsigned long Longs __attribute__((vector_size(sizeof(V))));

DEVICE_FN V Zero() { return V{}; }
DEVICE_FN V Set(int v) { return CAFFE_OP(set1_epi32)(v); }
DEVICE_FN V SetWords(int v) { return CAFFE_OP(set1_epi16)(static_cast<short>(v)); }
DEVICE_FN V Set64(i64 v) { return (V)(Longs{} + static_cast<unsigned long>(v)); }
DEVICE_FN V Load(const void* p) { return *static_cast<const Anywhere*>(p); }
DEVICE_FN void Store(void* p, V v) { *static_cast<Anywhere*>(p) = v; }
// The same 4 bytes in all lanes.
DEVICE_FN V SetFour(const void* p) {
  int four;
  __builtin_memcpy(&four, p, 4);
  return Set(four);
}

// Elements [0, count) of a vector, in 32 bits, and `rest`.
template <class T> DEVICE_FN V LoadSome(const T* p, long count, int rest) {
  alignas(64) i32 all[kLanes];
  if (count >= kLanes) {
    for (long i = 0; i < kLanes; ++i) all[i] = static_cast<i32>(p[i]);
  } else {
    for (long i = 0; i < kLanes; ++i) all[i] = i < count ? static_cast<i32>(p[i]) : rest;
  }
  return Load(all);
}

DEVICE_FN V And(V a, V b) { return a & b; }
DEVICE_FN V Flip(V v, V bits) { return v ^ bits; }
DEVICE_FN V Add(V a, V b) { return (V)((UnsignedInts)a + (UnsignedInts)b); }
DEVICE_FN V Sub(V a, V b) { return (V)((UnsignedInts)a - (UnsignedInts)b); }
DEVICE_FN V Most(V a, V b) { return CAFFE_OP(max_epi32)(a, b); }
DEVICE_FN V Between(V v, V low, V high) { return CAFFE_OP(min_epi32)(Most(v, low), high); }
template <int kBits> DEVICE_FN V Right(V v) { return (V)((Ints)v >> kBits); }
template <int kBits> DEVICE_FN V Left(V v) { return (V)((UnsignedInts)v << kBits); }
DEVICE_FN V Right(V v, int bits) { return (V)((Ints)v >> bits); }

// Lanes of 64 bits, which hold the even or the odd elements of a vector. Shifts are below 64.
DEVICE_FN V Add64(V a, V b) { return (V)((Longs)a + (Longs)b); }
DEVICE_FN V Sub64(V a, V b) { return (V)((Longs)a - (Longs)b); }
DEVICE_FN V Odd(V v) { return (V)((Longs)v >> 32); }
DEVICE_FN V Even(V v) { return v & Set64(0xffffffff); }
DEVICE_FN V Product(V a, V b) { return CAFFE_OP(mul_epi32)(a, b); }
DEVICE_FN V ProductU(V a, V b) { return CAFFE_OP(mul_epu32)(a, b); }
DEVICE_FN V Right64(V v, V bits) { return (V)((Longs)v >> (Longs)bits); }
DEVICE_FN V Left64(V v, V bits) { return (V)((Longs)v << (Longs)bits); }

// Lanes of 16 bits.
DEVICE_FN V Pairs(V a, V b) { return CAFFE_OP(madd_epi16)(a, b); }
DEVICE_FN V SubWords(V a, V b) { return (V)((UnsignedWords)a - (UnsignedWords)b); }
DEVICE_FN V AddSaturated(V a, V b) { return CAFFE_OP(adds_epi16)(a, b); }
DEVICE_FN V BetweenWords(V v, V low, V high) {
  return CAFFE_OP(min_epi16)(CAFFE_OP(max_epi16)(v, low), high);
}
DEVICE_FN V LeastUnsigned(V a, V b) { return CAFFE_OP(min_epu16)(a, b); }
DEVICE_FN V UpperProduct(V a, V b) { return CAFFE_OP(mulhi_epu16)(a, b); }
template <int kBits> DEVICE_FN V RightWords(V v) { return (V)((Words)v >> kBits); }
template <int kBits> DEVICE_FN V RightUnsignedWords(V v) { return (V)((UnsignedWords)v >> kBits); }
template <int kBits> DEVICE_FN V LeftWords(V v) { return (V)((UnsignedWords)v << kBits); }

// Elements of both in turns, and two vectors in one, within each 128 bits.
DEVICE_FN V LowBytes(V a, V b) { return CAFFE_OP(unpacklo_epi8)(a, b); }
DEVICE_FN V HighBytes(V a, V b) { return CAFFE_OP(unpackhi_epi8)(a, b); }
DEVICE_FN V LowWords(V a, V b) { return CAFFE_OP(unpacklo_epi16)(a, b); }
DEVICE_FN V HighWords(V a, V b) { return CAFFE_OP(unpackhi_epi16)(a, b); }
DEVICE_FN V PackedWords(V low, V high) { return CAFFE_OP(packs_epi32)(low, high); }
DEVICE_FN V PackedUnsigned(V low, V high) { return CAFFE_OP(packus_epi32)(low, high); }
DEVICE_FN V PackedBytes(V low, V high) { return CAFFE_OP(packus_epi16)(low, high); }

}  // namespace
}  // namespace caffe
