// Vectors of AVX512.
#pragma once

#include <immintrin.h>

namespace caffe {
namespace {

using V = __m512i;
constexpr long kLanes = 16;
constexpr int kTileRows = 12;       // whose sums of bytes are in registers
constexpr int kRunRows = 8;         // whose sums of words are
constexpr int kFewRunRows = 8;      // the same if the first cache keeps their weights
constexpr long kTileChannels = 32;  // that are requantized together

#define CAFFE_OP(name) _mm512_##name

// Lanes of 64 bits: values below 2^63, at most `most`; the magnitude; r with the sign of v.
DEVICE_FN V Least64(V v, V most) { return _mm512_min_epu64(v, most); }
DEVICE_FN V Abs64(V v) { return _mm512_abs_epi64(v); }
DEVICE_FN V WithSign64(V r, V v) {
  return _mm512_mask_sub_epi64(r, _mm512_movepi64_mask(v), V{}, r);
}
DEVICE_FN V Abs(V v) { return _mm512_abs_epi32(v); }
DEVICE_FN V WithSign(V r, V v) { return _mm512_mask_sub_epi32(r, _mm512_movepi32_mask(v), V{}, r); }
// The low halves of lanes of 64 bits in turns.
DEVICE_FN V Join(V even, V odd) {
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}
// Four vectors of 32 bits, packed to bytes, in the order of their elements.
DEVICE_FN V Ordered(V bytes) {
  const V order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_permutexvar_epi32(order, bytes);
}
// The lower half of a vector, twice.
DEVICE_FN V Repeated(V v) { return _mm512_shuffle_i64x2(v, v, 0x44); }
// Keeps a sum in its register: GCC would compute several products first, and spill them.
DEVICE_FN void Keep(V& v) { asm volatile("" : "+v"(v)); }

// Elements [0, count) of a vector, in 32 bits, and `rest`.
DEVICE_FN V LoadSome(const int* p, long count, int rest) {
  const __mmask16 mask = static_cast<__mmask16>(count < kLanes ? (1u << count) - 1 : 0xffff);
  return _mm512_mask_loadu_epi32(_mm512_set1_epi32(rest), mask, p);
}
DEVICE_FN V LoadSome(const long* p, long count, int rest) {
  const V all = _mm512_set1_epi64(rest);
  const unsigned mask = count < kLanes ? (1u << count) - 1 : 0xffff;
  const V low = _mm512_mask_loadu_epi64(all, static_cast<__mmask8>(mask), p);
  const V high = _mm512_mask_loadu_epi64(all, static_cast<__mmask8>(mask >> 8), p + 8);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(low)),
                            _mm512_cvtepi64_epi32(high), 1);
}

DEVICE_FN V Widened(const u8* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
DEVICE_FN V Widened(const u16* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
DEVICE_FN void StoreCodes(u8* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
DEVICE_FN void StoreCodes(u16* p, V v, long count = kLanes) {
  const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1);
  _mm256_mask_storeu_epi16(p, mask, _mm512_cvtepi32_epi16(v));
}

// Some of the bytes of a vector, in steps of kMaskBytes.
using Mask = __mmask64;
constexpr long kMaskBytes = 1;
DEVICE_FN Mask MaskOf(long count) { return count == 64 ? ~0ull : (1ull << count) - 1; }
DEVICE_FN V LoadBytes(const u8* p, Mask mask) { return _mm512_maskz_loadu_epi8(mask, p); }
DEVICE_FN void StoreBytes(u8* p, V v, Mask mask) { _mm512_mask_storeu_epi8(p, mask, v); }
// 32 bytes of each.
DEVICE_FN V LoadHalves(const u8* low, const u8* high) {
  const __m256i part = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low));
  return _mm512_inserti64x4(_mm512_castsi256_si512(part),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)), 1);
}
// The first `count` of the kBytes of part kPart of a vector.
template <int kBytes, int kPart> DEVICE_FN void StorePart(u8* p, V v, long count = kBytes) {
  if constexpr (kBytes == 32) {
    const __m256i part = _mm512_extracti64x4_epi64(v, kPart);
    if (count == 32) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), part);
    _mm256_mask_storeu_epi8(p, (1u << count) - 1, part);
  } else {
    const __m128i part = _mm512_extracti32x4_epi32(v, kPart);
    if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), part);
    _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << count) - 1), part);
  }
}

}  // namespace
}  // namespace caffe

#include "caffe/library/native/codes/vectors.hpp"
