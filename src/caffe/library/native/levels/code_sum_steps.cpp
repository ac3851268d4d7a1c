// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/code_sum_steps.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

namespace caffe {
namespace {

// clang-format off
#include "math/requantize.h"
#include "epilogue/residual_code.h"
// clang-format on

// Beyond all codes, as in epilogue/code_sum.h.
constexpr int kBeyond = 1 << 20;

template <class Code>
void AddSome(const CodeSumRows& r, const Code* residual, Code* y, long begin, long end) {
  const i32 most = static_cast<Code>(~Code{0});
  for (long i = begin; i < end; ++i) {
    const i64 v =
        residual_code(y[i] - r.zero_own, residual[i] - r.zero_residual, r.own, r.factor, r.shift,
                      -r.zero_sum, most - r.zero_sum, r.relu, r.multiplier, r.rescale_shift) +
        (r.relu ? r.zero_result : r.zero_sum);
    y[i] = static_cast<Code>(v < 0 ? 0 : v > most ? most : v);
  }
}

#if defined(__AVX512F__)

struct Vectors {
  static constexpr long kLanes = 16;
  using V = __m512i;
  static V Set(int v) { return _mm512_set1_epi32(v); }
  static V Set64(long v) { return _mm512_set1_epi64(v); }
  static V Load(const u8* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V Load(const u16* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void Store(u8* p, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
  static void Store(u16* p, V v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
  }
  static V Add(V a, V b) { return _mm512_add_epi32(a, b); }
  static V Sub(V a, V b) { return _mm512_sub_epi32(a, b); }
  static V Add64(V a, V b) { return _mm512_add_epi64(a, b); }
  static V Product(V a, V b) { return _mm512_mul_epi32(a, b); }
  static V Odd(V a) { return _mm512_srli_epi64(a, 32); }
  static V Between(V v, V low, V high) { return _mm512_min_epi32(_mm512_max_epi32(v, low), high); }
  // round(|v| / 2^shift), at most kBeyond, with the sign of v. `half` is 2^shift / 2.
  static V Shifted(V v, V half, __m128i shift) {
    const V a = _mm512_srl_epi64(_mm512_add_epi64(_mm512_abs_epi64(v), half), shift);
    const V r = _mm512_min_epu64(a, Set64(kBeyond));
    return _mm512_mask_sub_epi64(r, _mm512_movepi64_mask(v), _mm512_setzero_si512(), r);
  }
  // The low halves of the lanes of 64 bits.
  static V Joined(V even, V odd) {
    return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
  }
  // Codes of 8 bits, and lanes of 16 bits.
  static constexpr long kBytes = 64;
  static V SetWords(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
  static V LoadBytes(const u8* p) { return _mm512_loadu_si512(p); }
  static void StoreBytes(u8* p, V v) { _mm512_storeu_si512(p, v); }
  static V LowBytes(V a, V b) { return _mm512_unpacklo_epi8(a, b); }
  static V HighBytes(V a, V b) { return _mm512_unpackhi_epi8(a, b); }
  static V LowWords(V a, V b) { return _mm512_unpacklo_epi16(a, b); }
  static V HighWords(V a, V b) { return _mm512_unpackhi_epi16(a, b); }
  static V SubWords(V a, V b) { return _mm512_sub_epi16(a, b); }
  static V AddSaturated(V a, V b) { return _mm512_adds_epi16(a, b); }
  static V LeastUnsigned(V a, V b) { return _mm512_min_epu16(a, b); }
  static V Words(V low, V high) { return _mm512_packs_epi32(low, high); }
  static V PositiveWords(V low, V high) { return _mm512_packus_epi32(low, high); }
  static V Bytes(V low, V high) { return _mm512_packus_epi16(low, high); }
  static V Pairs(V a, V b) { return _mm512_madd_epi16(a, b); }
  static V UpperProduct(V a, V b) { return _mm512_mulhi_epu16(a, b); }
  template <int kBits> static V Right(V v) { return _mm512_srai_epi32(v, kBits); }
  static V Right(V v, __m128i bits) { return _mm512_sra_epi32(v, bits); }
};

#elif defined(__AVX2__)

struct Vectors {
  static constexpr long kLanes = 8;
  using V = __m256i;
  static V Set(int v) { return _mm256_set1_epi32(v); }
  static V Set64(long v) { return _mm256_set1_epi64x(v); }
  static V Load(const u8* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static V Load(const u16* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m128i Words(V v) {
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  }
  static void Store(u8* p, V v) {
    const __m128i words = Words(v);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
  }
  static void Store(u16* p, V v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Words(v)); }
  static V Add(V a, V b) { return _mm256_add_epi32(a, b); }
  static V Sub(V a, V b) { return _mm256_sub_epi32(a, b); }
  static V Add64(V a, V b) { return _mm256_add_epi64(a, b); }
  static V Product(V a, V b) { return _mm256_mul_epi32(a, b); }
  static V Odd(V a) { return _mm256_srli_epi64(a, 32); }
  static V Between(V v, V low, V high) { return _mm256_min_epi32(_mm256_max_epi32(v, low), high); }
  static V Shifted(V v, V half, __m128i shift) {
    const V sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), v), most = Set64(kBeyond);
    const V magnitude = _mm256_sub_epi64(_mm256_xor_si256(v, sign), sign);
    const V a = _mm256_srl_epi64(_mm256_add_epi64(magnitude, half), shift);
    const V r = _mm256_blendv_epi8(a, most, _mm256_cmpgt_epi64(a, most));
    return _mm256_sub_epi64(_mm256_xor_si256(r, sign), sign);
  }
  static V Joined(V even, V odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  }
  static constexpr long kBytes = 32;
  static V SetWords(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
  static V LoadBytes(const u8* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void StoreBytes(u8* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V LowBytes(V a, V b) { return _mm256_unpacklo_epi8(a, b); }
  static V HighBytes(V a, V b) { return _mm256_unpackhi_epi8(a, b); }
  static V LowWords(V a, V b) { return _mm256_unpacklo_epi16(a, b); }
  static V HighWords(V a, V b) { return _mm256_unpackhi_epi16(a, b); }
  static V SubWords(V a, V b) { return _mm256_sub_epi16(a, b); }
  static V AddSaturated(V a, V b) { return _mm256_adds_epi16(a, b); }
  static V LeastUnsigned(V a, V b) { return _mm256_min_epu16(a, b); }
  static V Words(V low, V high) { return _mm256_packs_epi32(low, high); }
  static V PositiveWords(V low, V high) { return _mm256_packus_epi32(low, high); }
  static V Bytes(V low, V high) { return _mm256_packus_epi16(low, high); }
  static V Pairs(V a, V b) { return _mm256_madd_epi16(a, b); }
  static V UpperProduct(V a, V b) { return _mm256_mulhi_epu16(a, b); }
  template <int kBits> static V Right(V v) { return _mm256_srai_epi32(v, kBits); }
  static V Right(V v, __m128i bits) { return _mm256_sra_epi32(v, bits); }
};

#endif

#if defined(__AVX2__)

// Whether the shifts have a rounding term, or need none. Products have less than 2^49.
bool Fast(const CodeSumRows& r) {
  return r.shift >= 0 && (!r.relu || (r.rescale_shift >= 0 && r.rescale_shift <= 62));
}

// A factor as 2^16 upper + lower, both with a sign.
int Lower(int factor) { return static_cast<i16>(factor); }
int Upper(int factor) { return static_cast<int>((static_cast<i64>(factor) - Lower(factor)) >> 16); }

// Whether AddBytes computes the sums of codes of 8 bits.
bool FastBytes(const CodeSumRows& r) {
  const auto fits = [](int factor) { return Upper(factor) <= 32767; };
  const auto between = [](int shift) { return shift >= 17 && shift <= 46; };
  return r.bytes == 1 && fits(r.own) && fits(r.factor) && between(r.shift) &&
         (!r.relu || (r.multiplier >= 0 && between(r.rescale_shift)));
}

// floor((2^16 upper + lower) / 2^shift), rounded half away from zero: floor((x + half - (x < 0)) /
// 2^shift). `half` is 2^shift / 2^17. kPositive: results below 0 need not be exact.
template <bool kPositive, class V> V Quotient(V upper, V lower, V half, __m128i upper_shift) {
  using T = Vectors;
  V carry = T::template Right<16>(lower);
  if (!kPositive) {
    const V sign = T::template Right<31>(T::Add(upper, carry));
    carry = T::template Right<16>(T::Add(lower, sign));
  }
  return T::Right(T::Add(T::Add(upper, half), carry), upper_shift);
}

// Codes of 8 bits. Pairs of them are multiplied with the upper and the lower halves of both
// factors.
template <bool kReLU> void AddBytes(const CodeSumRows& r) {
  using T = Vectors;
  using V = T::V;
  const auto factors = [](int first, int second) {
    return T::Set(static_cast<int>(static_cast<u32>(second) << 16 | static_cast<u16>(first)));
  };
  const auto half = [](int shift) { return T::Set(static_cast<int>(1L << (shift - 17))); };
  const V zeros = factors(r.zero_own, r.zero_residual);
  const V upper = factors(Upper(r.own), Upper(r.factor));
  const V lower = factors(Lower(r.own), Lower(r.factor));
  const V half_sum = half(r.shift);
  const __m128i shift = _mm_cvtsi32_si128(r.shift - 16);
  const V none = T::Set(0), zero_sum = T::SetWords(r.zero_sum);
  const V most = T::SetWords(255 - r.zero_sum), zero_result = T::SetWords(r.zero_result);
  // Values without a sign times a multiplier: 2^16 (v upper + the upper half of v lower) + less.
  const V rescale_lower = T::SetWords(r.multiplier & 0xffff);
  const V rescale_upper = factors(r.multiplier >> 16, 1);
  const V half_rescale = kReLU ? half(r.rescale_shift) : none;
  const __m128i rescale_shift = _mm_cvtsi32_si128(r.rescale_shift - 16);
  const auto quotient = [&](V codes) {
    const V pairs = T::SubWords(codes, zeros);
    return Quotient<kReLU>(T::Pairs(pairs, upper), T::Pairs(pairs, lower), half_sum, shift);
  };
  const auto rescaled = [&](V pairs) {
    return T::Right(T::Add(T::Pairs(pairs, rescale_upper), half_rescale), rescale_shift);
  };
  // The results, in lanes of 16 bits, for bytes of y and of the residual in turns. Bytes() bounds
  // them.
  const auto sums = [&](V bytes) {
    const V low = quotient(T::LowBytes(bytes, none)), high = quotient(T::HighBytes(bytes, none));
    if (!kReLU) return T::AddSaturated(T::Words(low, high), zero_sum);
    const V v = T::LeastUnsigned(T::PositiveWords(low, high), most);
    const V less = T::UpperProduct(v, rescale_lower);
    return T::AddSaturated(
        T::Words(rescaled(T::LowWords(v, less)), rescaled(T::HighWords(v, less))), zero_result);
  };
  const auto add = [&](const u8* residual, u8* y) {
    const V own = T::LoadBytes(y), other = T::LoadBytes(residual);
    T::StoreBytes(y, T::Bytes(sums(T::LowBytes(own, other)), sums(T::HighBytes(own, other))));
  };
  for (long row = 0; row < r.rows; ++row) {
    const u8* residual = static_cast<const u8*>(r.residual) + row * r.residual_stride;
    u8* y = static_cast<u8*>(r.y) + row * r.y_stride;
    long i = 0;
    for (; i + T::kBytes <= r.n; i += T::kBytes) add(residual + i, y + i);
    if (i == r.n) continue;
    u8 own[T::kBytes] = {}, other[T::kBytes] = {};
    __builtin_memcpy(own, y + i, r.n - i);
    __builtin_memcpy(other, residual + i, r.n - i);
    add(other, own);
    __builtin_memcpy(y + i, own, r.n - i);
  }
}

template <class Code> void AddRow(const CodeSumRows& r, const Code* residual, Code* y) {
  using T = Vectors;
  using V = T::V;
  const int most = static_cast<Code>(~Code{0});
  const V zero_own = T::Set(r.zero_own), zero_residual = T::Set(r.zero_residual);
  const V own = T::Set(r.own), factor = T::Set(r.factor), zero_sum = T::Set(r.zero_sum);
  const V half = T::Set64(1L << r.shift >> 1), none = T::Set(0), all = T::Set(most);
  const V multiplier = T::Set(r.multiplier), zero_result = T::Set(r.zero_result);
  const V rescale_half = T::Set64(r.relu ? 1L << r.rescale_shift >> 1 : 0);
  const __m128i shift = _mm_cvtsi32_si128(r.shift);
  const __m128i rescale_shift = _mm_cvtsi32_si128(r.rescale_shift);
  long i = 0;
  for (; i + T::kLanes <= r.n; i += T::kLanes) {
    const V a = T::Sub(T::Load(y + i), zero_own);
    const V b = T::Sub(T::Load(residual + i), zero_residual);
    const V even = T::Add64(T::Product(a, own), T::Product(b, factor));
    const V odd = T::Add64(T::Product(T::Odd(a), own), T::Product(T::Odd(b), factor));
    V s = T::Joined(T::Shifted(even, half, shift), T::Shifted(odd, half, shift));
    s = T::Between(T::Add(s, zero_sum), none, all);
    if (r.relu) {
      const V v = T::Between(T::Sub(s, zero_sum), none, all);
      const V v_even = T::Shifted(T::Product(v, multiplier), rescale_half, rescale_shift);
      const V v_odd = T::Shifted(T::Product(T::Odd(v), multiplier), rescale_half, rescale_shift);
      s = T::Between(T::Add(T::Joined(v_even, v_odd), zero_result), none, all);
    }
    T::Store(y + i, s);
  }
  AddSome(r, residual, y, i, r.n);
}

#endif

template <class Code> void AddRows(const CodeSumRows& r) {
  for (long i = 0; i < r.rows; ++i) {
    const Code* residual = static_cast<const Code*>(r.residual) + i * r.residual_stride;
    Code* y = static_cast<Code*>(r.y) + i * r.y_stride;
#if defined(__AVX2__)
    if (Fast(r)) {
      AddRow(r, residual, y);
      continue;
    }
#endif
    AddSome(r, residual, y, 0, r.n);
  }
}

void AddOf(const CodeSumRows& r) {
  // Rows without gaps are one row.
  if (r.y_stride == r.n && r.residual_stride == r.n && r.rows > 1) {
    CodeSumRows one = r;
    one.n = r.rows * r.n;
    one.rows = 1;
    return AddOf(one);
  }
#if defined(__AVX2__)
  if (FastBytes(r)) return r.relu ? AddBytes<true>(r) : AddBytes<false>(r);
#endif
  r.bytes == 1 ? AddRows<u8>(r) : AddRows<u16>(r);
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const CodeSumSteps CAFFE_JOIN(code_sum_steps_, CAFFE_HOST_LEVEL);
constinit const CodeSumSteps CAFFE_JOIN(code_sum_steps_, CAFFE_HOST_LEVEL){&AddOf};

}  // namespace caffe
