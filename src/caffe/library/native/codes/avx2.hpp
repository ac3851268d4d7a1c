// Vectors of AVX2, see avx512.hpp.
#pragma once

#include <immintrin.h>

namespace caffe {
namespace {

using V = __m256i;
constexpr long kLanes = 8;
constexpr int kTileRows = 12;
constexpr int kRunRows = 4;
constexpr int kFewRunRows = 2;
constexpr long kTileChannels = 32;

#define CAFFE_OP(name) _mm256_##name

DEVICE_FN V Sign64(V v) { return _mm256_cmpgt_epi64(V{}, v); }
DEVICE_FN V Least64(V v, V most) {
  return _mm256_blendv_epi8(v, most, _mm256_cmpgt_epi64(v, most));
}
DEVICE_FN V WithSign64(V r, V v) {
  const V sign = Sign64(v);
  return _mm256_sub_epi64(r ^ sign, sign);
}
DEVICE_FN V Abs64(V v) { return WithSign64(v, v); }
DEVICE_FN V Abs(V v) { return _mm256_abs_epi32(v); }
DEVICE_FN V WithSign(V r, V v) { return _mm256_sign_epi32(r, v); }
DEVICE_FN V Join(V even, V odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
DEVICE_FN V Ordered(V bytes) {
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
DEVICE_FN V Repeated(V v) { return _mm256_permute2x128_si256(v, v, 0); }
DEVICE_FN void Keep(V& v) { asm volatile("" : "+x"(v)); }

DEVICE_FN V Widened(const u8* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
DEVICE_FN V Widened(const u16* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
DEVICE_FN __m128i Narrowed(V v) {
  return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
DEVICE_FN void StoreCodes(u8* p, V v) {
  const __m128i words = Narrowed(v);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
DEVICE_FN void StoreCodes(u16* p, V v, long count = kLanes) {
  const __m128i words = Narrowed(v);
  if (count == kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
  u16 all[kLanes];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(all), words);
  for (long i = 0; i < count; ++i) p[i] = all[i];
}

using Mask = V;
constexpr long kMaskBytes = 4;
DEVICE_FN Mask MaskOf(long count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count / 4)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
DEVICE_FN V LoadBytes(const u8* p, Mask mask) {
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), mask);
}
DEVICE_FN void StoreBytes(u8* p, V v, Mask mask) {
  _mm256_maskstore_epi32(reinterpret_cast<int*>(p), mask, v);
}
DEVICE_FN V LoadHalves(const u8* low, const u8* high) {
  const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(part),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}
template <int kBytes, int kPart> DEVICE_FN void StorePart(u8* p, V v, long count = kBytes) {
  if constexpr (kBytes == 32) {
    if (count == 32) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  } else {
    const __m128i part = _mm256_extracti128_si256(v, kPart);
    if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), part);
  }
  u8 all[32];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(all), v);
  for (long i = 0; i < count; ++i) p[i] = all[kPart * kBytes + i];
}

}  // namespace
}  // namespace caffe

#include "caffe/library/native/codes/vectors.hpp"
