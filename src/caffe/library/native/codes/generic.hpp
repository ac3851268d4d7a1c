// Products of codes where no wider instructions are known: on x86-64 at level v2, and on other
// processors, where the compiler finds its own instructions for the loops. Needs <immintrin.h> on
// x86-64.
#pragma once

namespace caffe {
namespace {

// Eight numbers of 16 bits, and four of 32 bits.
typedef short Words __attribute__((vector_size(16)));
typedef int Ints __attribute__((vector_size(16)));

DEVICE_FN Words LoadWords(const void* p) {
  Words v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

// Eight bytes with a sign, widened.
DEVICE_FN Words LoadBytes(const signed char* p) {
#if defined(__SSE4_1__)
  return (Words)_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  Words v;
  for (int i = 0; i < 8; ++i) v[i] = p[i];
  return v;
#endif
}

// Four codes, twice, widened.
DEVICE_FN Words LoadFour(const unsigned char* p) {
#if defined(__SSE4_1__)
  int four;
  __builtin_memcpy(&four, p, 4);
  return (Words)_mm_cvtepu8_epi16(_mm_set1_epi32(four));
#else
  return Words{p[0], p[1], p[2], p[3], p[0], p[1], p[2], p[3]};
#endif
}

// The sums of the products of neighbours.
DEVICE_FN Ints Pairs(Words a, Words b) {
#if defined(__SSE4_1__)
  return (Ints)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  Ints v;
  for (int i = 0; i < 4; ++i) v[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return v;
#endif
}

}  // namespace
}  // namespace caffe
