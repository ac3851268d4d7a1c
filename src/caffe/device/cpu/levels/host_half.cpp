// The scalar and vector forms of the half conversions that kernels/dialect/host.h declares with
// `omp declare simd`, under the names of the x86 vector function ABI. Compiled once per instruction
// level; those without F16C have none.
#ifdef CAFFE_HALF_DECODE
#include <immintrin.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define DECODE TEXT(CAFFE_HALF_DECODE)
#define ENCODE TEXT(CAFFE_HALF_ENCODE)

float Decode1(unsigned bits) asm(DECODE);
float Decode1(unsigned bits) { return _cvtsh_ss(static_cast<unsigned short>(bits)); }
unsigned Encode1(float v) asm(ENCODE);
unsigned Encode1(float v) { return _cvtss_sh(v, 0); }

static __m128i Narrow8(__m256i bits) {
  return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}

// b: SSE (4 lanes), c: AVX (8 lanes, integers in two halves), d: AVX2, e: AVX-512.
__m128 Decode4(__m128i bits) asm("_ZGVbN4v_" DECODE);
__m128 Decode4(__m128i bits) { return _mm_cvtph_ps(_mm_packus_epi32(bits, bits)); }
__m128i Encode4(__m128 v) asm("_ZGVbN4v_" ENCODE);
__m128i Encode4(__m128 v) { return _mm_cvtepu16_epi32(_mm_cvtps_ph(v, 0)); }
// GCC calls these for four lanes when it compiles for AVX.
__m128 Decode4Avx(__m128i bits) asm("_ZGVcN4v_" DECODE);
__m128 Decode4Avx(__m128i bits) { return Decode4(bits); }
__m128i Encode4Avx(__m128 v) asm("_ZGVcN4v_" ENCODE);
__m128i Encode4Avx(__m128 v) { return Encode4(v); }
__m256 Decode8(__m256i bits) asm("_ZGVdN8v_" DECODE);
__m256 Decode8(__m256i bits) { return _mm256_cvtph_ps(Narrow8(bits)); }
__m256i Encode8(__m256 v) asm("_ZGVdN8v_" ENCODE);
__m256i Encode8(__m256 v) { return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(v, 0)); }
#ifdef __AVX512F__
__m512 Decode16(__m512i bits) asm("_ZGVeN16v_" DECODE);
__m512 Decode16(__m512i bits) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits)); }
__m512i Encode16(__m512 v) asm("_ZGVeN16v_" ENCODE);
__m512i Encode16(__m512 v) { return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(v, 0)); }
#endif
#endif
