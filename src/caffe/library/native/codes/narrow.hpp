// Vectors of 128 bits, see avx512.hpp. The file before this one defines V and CAFFE_OP.
#pragma once

namespace caffe {
namespace {

constexpr long kLanes = 4;
constexpr int kTileRows = 2;
constexpr int kRunRows = 2;
constexpr int kFewRunRows = 2;
constexpr long kTileChannels = 16;

}  // namespace
}  // namespace caffe

#include "caffe/library/native/codes/vectors.hpp"

namespace caffe {
namespace {

DEVICE_FN V Sign64(V v) { return (V)(v < V{}); }
DEVICE_FN V Least64(V v, V most) {
  const V more = (V)(v > most);
  return (v & ~more) | (most & more);
}
DEVICE_FN V WithSign64(V r, V v) { return Sub64(Flip(r, Sign64(v)), Sign64(v)); }
DEVICE_FN V Abs64(V v) { return WithSign64(v, v); }
DEVICE_FN V WithSign(V r, V v) { return Sub(Flip(r, Right<31>(v)), Right<31>(v)); }
DEVICE_FN V Abs(V v) { return WithSign(v, v); }
DEVICE_FN V Join(V even, V odd) { return Even(even) | Left64(odd, Set64(32)); }
DEVICE_FN V Ordered(V bytes) { return bytes; }
DEVICE_FN V Repeated(V v) { return V{v[0], v[0]}; }
DEVICE_FN void Keep(V&) {}

template <class Code> DEVICE_FN V Widened(const Code* p) {
  const Ints v = {p[0], p[1], p[2], p[3]};
  return (V)v;
}
DEVICE_FN void StoreCodes(u16* p, V v, long count = kLanes) {
  const V words = PackedUnsigned(v, v);
  if (count == kLanes) {
    __builtin_memcpy(p, &words, 2 * kLanes);
    return;
  }
  u16 all[2 * kLanes];
  Store(all, words);
  for (long i = 0; i < count; ++i) p[i] = all[i];
}
DEVICE_FN void StoreCodes(u8* p, V v) {
  const V words = PackedUnsigned(v, v), bytes = PackedBytes(words, words);
  __builtin_memcpy(p, &bytes, kLanes);
}

struct Mask {};
constexpr long kMaskBytes = 16;
DEVICE_FN Mask MaskOf(long) { return {}; }
DEVICE_FN V LoadBytes(const u8* p, Mask) { return Load(p); }
DEVICE_FN void StoreBytes(u8* p, V v, Mask) { Store(p, v); }
DEVICE_FN V LoadHalves(const u8* low, const u8* high) {
  u8 all[16];
  __builtin_memcpy(all, low, 8);
  __builtin_memcpy(all + 8, high, 8);
  return Load(all);
}
template <int kBytes, int kPart> DEVICE_FN void StorePart(u8* p, V v, long count = kBytes) {
  u8 all[16];
  Store(all, v);
  if (count == kBytes) {
    __builtin_memcpy(p, all + kPart * kBytes, kBytes);
    return;
  }
  for (long i = 0; i < count; ++i) p[i] = all[kPart * kBytes + i];
}

}  // namespace
}  // namespace caffe
