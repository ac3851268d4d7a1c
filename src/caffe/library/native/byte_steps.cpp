// Compiled once per instruction level, as CAFFE_HOST_LEVEL, and once with the instructions for
// products of bytes (AVX512-VNNI, AMX), as v4_bytes.
#include "caffe/library/native/byte_steps.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX2__) && !defined(__AVX512VNNI__)
#define CAFFE_WIDENS_BYTES
#endif

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

#if !defined(__AVX2__)
#include "caffe/library/native/codes/generic.hpp"
#endif

namespace caffe {
namespace {

#include "math/requantize.h"

// Rows of sums between the products and their requantization.
constexpr long kRows = 32;
// Positions of a depthwise convolution whose sums stay in the first cache.
constexpr long kWindowRows = 16;

int Bounded(i64 v, int low, int high) {
  return static_cast<int>(v < low ? low : v > high ? high : v);
}

// The code of a sum that includes the bias.
int Code(const ByteOutput& o, i64 sum, long channel) {
  const i64 r = o.negative_multiplier
                    ? requantize_slope(sum, o.multiplier[channel], o.shift[channel],
                                       o.negative_multiplier[channel], o.negative_shift[channel])
                    : requantize_i64(sum, o.multiplier[channel], o.shift[channel]);
  return Bounded(r + o.zero_y, o.lowest, o.highest);
}

i32 Sum(i32 products, i64 bias) {
  return static_cast<i32>(static_cast<u32>(products) + static_cast<u32>(bias));
}

#if defined(__AVX512VNNI__)

constexpr long kColumns = 2 * kByteChannels;  // of sums

// Factors of 16 channels. Even and odd channels are multiplied separately, in 64 bits.
struct Factors {
  __m512i multiplier, even_shift, odd_shift, even_half, odd_half;
};

bool Fast(const int* shift, __mmask16 mask) {
  const __m512i n = _mm512_maskz_loadu_epi32(mask, shift);
  return _mm512_mask_cmplt_epi32_mask(mask, n, _mm512_set1_epi32(32)) == 0;
}

Factors MakeFactors(__m512i multiplier, __m512i shift) {
  Factors f;
  const __m512i one = _mm512_set1_epi64(1);
  f.multiplier = multiplier;
  f.even_shift = _mm512_and_epi64(shift, _mm512_set1_epi64(0xffffffff));
  f.odd_shift = _mm512_srli_epi64(shift, 32);
  f.even_half = _mm512_sllv_epi64(one, _mm512_sub_epi64(f.even_shift, one));
  f.odd_half = _mm512_sllv_epi64(one, _mm512_sub_epi64(f.odd_shift, one));
  return f;
}

// a * multiplier / 2^shift, rounded, see Requantized.
__m512i Magnitude(__m512i a, const Factors& f) {
  __m512i even = _mm512_mul_epu32(a, f.multiplier);
  __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(f.multiplier, 32));
  even = _mm512_srlv_epi64(_mm512_add_epi64(even, f.even_half), f.even_shift);
  odd = _mm512_srlv_epi64(_mm512_add_epi64(odd, f.odd_half), f.odd_shift);
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}

// The same for shifts of at most 53, with AVX512-IFMA: 2^53 / 2^shift times the multipliers.
struct UpperFactors {
  __m512i even, odd;
};

constexpr int kMostUpperShift = 53;

// sum + the bits of a * b from 2^52 on. The statement lets processors without the instruction have the
// other functions of this file.
__m512i AddUpper(__m512i sum, __m512i a, __m512i b) {
  asm("vpmadd52huq %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

// Twice the quotient, rounded down, is halved and rounded.
__m512i Magnitude(__m512i a, const UpperFactors& f) {
  const __m512i one = _mm512_set1_epi64(1);
  const __m512i even = AddUpper(one, _mm512_and_epi64(a, _mm512_set1_epi64(0xffffffff)), f.even);
  const __m512i odd = AddUpper(one, _mm512_srli_epi64(a, 32), f.odd);
  return _mm512_srli_epi32(_mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA), 1);
}

void MakeFactors(__m512i multiplier, __m512i shift, Factors* f) {
  *f = MakeFactors(multiplier, shift);
}

void MakeFactors(__m512i multiplier, __m512i shift, UpperFactors* f) {
  const __m512i left = _mm512_sub_epi32(_mm512_set1_epi32(kMostUpperShift), shift);
  const __m512i low = _mm512_set1_epi64(0xffffffff);
  f->even = _mm512_sllv_epi64(_mm512_and_epi64(multiplier, low), _mm512_and_epi64(left, low));
  f->odd = _mm512_sllv_epi64(_mm512_srli_epi64(multiplier, 32), _mm512_srli_epi64(left, 32));
}

bool FitsUpper(const int* shift, long count) {
  for (long i = 0; i < count; ++i) {
    if (shift[i] > kMostUpperShift) return false;
  }
  return true;
}

// sum * multiplier / 2^shift for shifts of at least 32, rounded half away from zero. A shift of more
// than 63 yields 0, because both shift instructions do.
template <class F> __m512i Requantized(__m512i sum, const F& f) {
  const __m512i r = Magnitude(_mm512_abs_epi32(sum), f);
  return _mm512_mask_sub_epi32(r, _mm512_movepi32_mask(sum), _mm512_setzero_si512(), r);
}

__m512i Bounded(__m512i v, __m512i low, __m512i high) {
  return _mm512_min_epi32(_mm512_max_epi32(v, low), high);
}

__m512i Bias(const long* bias, __mmask16 mask) {
  const __m512i low = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask), bias);
  const __m512i high = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask >> 8), bias + 8);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(low)),
                            _mm512_cvtepi64_epi32(high), 1);
}

// The requantization of a block of channels, or of a part of one. F: Factors or UpperFactors.
template <class F> struct SingleFactors {
  __mmask16 mask;
  F f;
  __m512i bias;
};

template <class F> void MakeSingle(const ByteOutput& o, long channel, SingleFactors<F>* s) {
  const long count = o.channels - channel < kByteChannels ? o.channels - channel : kByteChannels;
  s->mask = static_cast<__mmask16>((1u << count) - 1);
  MakeFactors(_mm512_maskz_loadu_epi32(s->mask, o.multiplier + channel),
              _mm512_maskz_loadu_epi32(s->mask, o.shift + channel), &s->f);
  s->bias = Bias(o.bias + channel, s->mask);
}

template <class F>
void StoreSingle(const ByteOutput& o, const SingleFactors<F>& s, long channel, long row, long rows,
                 const i32* sums, long stride) {
  const __m512i zero = _mm512_set1_epi32(o.zero_y);
  const __m512i low = _mm512_set1_epi32(o.lowest), high = _mm512_set1_epi32(o.highest);
  unsigned char* y = o.y + row * o.y_stride + channel;
  for (long i = 0; i < rows; ++i) {
    const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + i * stride), s.bias);
    const __m512i code = Bounded(_mm512_add_epi32(Requantized(sum, s.f), zero), low, high);
    // A store that narrows has more steps than both.
    _mm_mask_storeu_epi8(y + i * o.y_stride, s.mask, _mm512_cvtepi32_epi8(code));
  }
}

// Whether the factors of the block that begins at `channel` are fast.
bool FastSingle(const ByteOutput& o, long channel) {
  const long count = o.channels - channel < kByteChannels ? o.channels - channel : kByteChannels;
  return !o.negative_multiplier &&
         Fast(o.shift + channel, static_cast<__mmask16>((1u << count) - 1));
}

bool StoreFast(const ByteOutput& o, long channel, long row, long rows, const i32* sums,
               long stride) {
  if (!FastSingle(o, channel)) return false;
  SingleFactors<Factors> s;
  MakeSingle(o, channel, &s);
  StoreSingle(o, s, channel, row, rows, sums, stride);
  return true;
}

// The requantization of two blocks of channels. F: Factors or UpperFactors.
template <class F> struct PairFactors {
  F f[2];
  __m512i bias[2], zero, low, high;
};

template <class F> void MakePair(const ByteOutput& o, long channel, PairFactors<F>* p) {
  for (int j = 0; j < 2; ++j) {
    const long at = channel + j * kByteChannels;
    MakeFactors(_mm512_loadu_si512(o.multiplier + at), _mm512_loadu_si512(o.shift + at), &p->f[j]);
    p->bias[j] = Bias(o.bias + at, 0xffff);
  }
  p->zero = _mm512_set1_epi16(static_cast<short>(o.zero_y));
  p->low = _mm512_set1_epi16(static_cast<short>(o.lowest));
  p->high = _mm512_set1_epi16(static_cast<short>(o.highest));
}

bool FastPair(const ByteOutput& o, long channel) {
  return channel + kColumns <= o.channels && !o.negative_multiplier &&
         Fast(o.shift + channel, 0xffff) && Fast(o.shift + channel + kByteChannels, 0xffff);
}

// The codes of a row, as 16 bits. kPositive: no code is below the zero point, as behind ReLU, so that
// sums below 0 count as 0. kBias: the sums have no bias yet.
template <class F, bool kPositive, bool kBias>
__m512i PairCodes(const PairFactors<F>& p, const i32* sums) {
  __m512i v[2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    __m512i sum = _mm512_load_si512(sums + j * kByteChannels);
    if (kBias) sum = _mm512_add_epi32(sum, p.bias[j]);
    v[j] = kPositive ? Magnitude(_mm512_max_epi32(sum, _mm512_setzero_si512()), p.f[j])
                     : Requantized(sum, p.f[j]);
  }
  // Saturation keeps values beyond the codes.
  const __m512i codes = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), p.zero);
  return _mm512_min_epi16(_mm512_max_epi16(codes, p.low), p.high);
}

template <bool kPositive, bool kBias, class F>
void StoreTwo(const ByteOutput& o, const PairFactors<F>& p, long channel, long row, long rows,
              const i32* sums) {
  // 128 bits have 4 bytes of each block of the first row, then those of the second row.
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  unsigned char* y = o.y + row * o.y_stride + channel;
  for (long i = 0; i < rows; i += 2) {
    const long second = i + 1 < rows ? i + 1 : i;
    const __m512i both =
        _mm512_packus_epi16(PairCodes<F, kPositive, kBias>(p, sums + i * kColumns),
                            PairCodes<F, kPositive, kBias>(p, sums + second * kColumns));
    const __m512i codes = _mm512_permutexvar_epi32(order, both);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i * o.y_stride),
                        _mm512_castsi512_si256(codes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + second * o.y_stride),
                        _mm512_extracti64x4_epi64(codes, 1));
  }
}

template <bool kBias, class F>
void StoreTwo(const ByteOutput& o, const PairFactors<F>& p, long channel, long row, long rows,
              const i32* sums) {
  if (o.lowest >= o.zero_y) return StoreTwo<true, kBias>(o, p, channel, row, rows, sums);
  StoreTwo<false, kBias>(o, p, channel, row, rows, sums);
}

#elif defined(CAFFE_WIDENS_BYTES)

// The factors of 8 channels. Even and odd channels are multiplied separately, in 64 bits.
struct Eight {
  __m256i bias, even, odd, even_shift, odd_shift, even_half, odd_half;
};

// Lane i is that of channel order[i]; lanes of -1 are not used.
Eight MakeEight(const ByteOutput& o, const long* order) {
  alignas(32) i32 bias[8], multiplier[8], shift[8];
  for (long i = 0; i < 8; ++i) {
    const long c = order[i];
    bias[i] = c < 0 ? 0 : static_cast<i32>(o.bias[c]);
    multiplier[i] = c < 0 ? 0 : o.multiplier[c];
    shift[i] = c < 0 ? 32 : o.shift[c];
  }
  const auto load = [](const i32* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  };
  const __m256i one = _mm256_set1_epi64x(1);
  Eight f;
  f.bias = load(bias);
  f.even = load(multiplier);
  f.odd = _mm256_srli_epi64(f.even, 32);
  f.even_shift = _mm256_and_si256(load(shift), _mm256_set1_epi64x(0xffffffff));
  f.odd_shift = _mm256_srli_epi64(load(shift), 32);
  f.even_half = _mm256_sllv_epi64(one, _mm256_sub_epi64(f.even_shift, one));
  f.odd_half = _mm256_sllv_epi64(one, _mm256_sub_epi64(f.odd_shift, one));
  return f;
}

// (products + bias) * multiplier / 2^shift for shifts of at least 32, rounded half away from zero. A
// shift of more than 63 yields 0, because both shift instructions do.
__m256i Requantized(__m256i products, const Eight& f) {
  const __m256i sum = _mm256_add_epi32(products, f.bias), a = _mm256_abs_epi32(sum);
  __m256i even = _mm256_mul_epu32(a, f.even);
  __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), f.odd);
  even = _mm256_srlv_epi64(_mm256_add_epi64(even, f.even_half), f.even_shift);
  odd = _mm256_srlv_epi64(_mm256_add_epi64(odd, f.odd_half), f.odd_shift);
  const __m256i r = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  return _mm256_sign_epi32(r, sum);
}

bool Fast(const ByteOutput& o, long channel, long count) {
  if (o.negative_multiplier) return false;
  for (long c = channel; c < channel + count; ++c) {
    if (o.shift[c] < 32) return false;
  }
  return true;
}

// The requantization of 16 channels, whose sums are in two vectors: channels 0 to 3 and 8 to 11 of them,
// and the others.
struct Factors {
  long count;
  bool fast;
  Eight first, second;
  __m256i zero, low, high;
};

// Of the block that begins at `channel`.
Factors MakeFactors(const ByteOutput& o, long channel) {
  const long count = o.channels - channel < kByteChannels ? o.channels - channel : kByteChannels;
  long order[16];
  for (long i = 0; i < 16; ++i) {
    const long c = i / 8 * 4 + i % 4 + i % 8 / 4 * 8;
    order[i] = c < count ? channel + c : -1;
  }
  return {count,
          Fast(o, channel, count),
          MakeEight(o, order),
          MakeEight(o, order + 8),
          _mm256_set1_epi16(static_cast<short>(o.zero_y)),
          _mm256_set1_epi16(static_cast<short>(o.lowest)),
          _mm256_set1_epi16(static_cast<short>(o.highest))};
}

__m128i Codes(__m256i first, __m256i second, const Factors& f) {
  // Saturation keeps values beyond the codes.
  const __m256i r = _mm256_packs_epi32(Requantized(first, f.first), Requantized(second, f.second));
  __m256i codes = _mm256_adds_epi16(r, f.zero);
  codes = _mm256_min_epi16(_mm256_max_epi16(codes, f.low), f.high);
  return _mm_packus_epi16(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
}

void StoreFast(const ByteOutput& o, const Factors& f, long channel, long row, long rows,
               const i32* sums, long stride) {
  for (long i = 0; i < rows; ++i) {
    const __m256i* from = reinterpret_cast<const __m256i*>(sums + i * stride);
    const __m256i a = _mm256_load_si256(from), b = _mm256_load_si256(from + 1);
    const __m128i codes =
        Codes(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31), f);
    u8* y = o.y + (row + i) * o.y_stride + channel;
    if (f.count == kByteChannels) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), codes);
    } else {
      alignas(16) u8 all[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(all), codes);
      for (long j = 0; j < f.count; ++j) y[j] = all[j];
    }
  }
}

#endif

// The codes of sums [m, n], whose rows are `stride` apart. Rows or columns are the channels from
// `channel` on.
template <bool kRowsAreChannels>
void StoreAll(const ByteOutput& o, long channel, long m, long n, const i32* sums, long stride,
              u8* y) {
  for (long i = 0; i < m; ++i, sums += stride, y += o.y_stride) {
    for (long j = 0; j < n && o.negative_multiplier; ++j) {
      const long c = channel + (kRowsAreChannels ? i : j);
      y[j] = static_cast<u8>(Code(o, Sum(sums[j], o.bias[c]), c));
    }
    if (o.negative_multiplier) continue;
    for (long j = 0; j < n; ++j) {
      const long c = channel + (kRowsAreChannels ? i : j);
      // The result may be near the limits of 32 bits.
      const i64 r = requantize_i32(Sum(sums[j], o.bias[c]), o.multiplier[c], o.shift[c]);
      y[j] = static_cast<u8>(Bounded(r + o.zero_y, o.lowest, o.highest));
    }
  }
}

void RequantizeOf(const ByteOutput& o, bool rows_are_channels, long m, long n, const i32* sums) {
  if (rows_are_channels) {
    StoreAll<true>(o, 0, m, n, sums, n, o.y);
  } else {
    StoreAll<false>(o, 0, m, n, sums, n, o.y);
  }
}

// Stores rows [row, row + rows) of the block of channels that begins at `channel`.
void Store(const ByteOutput& o, long channel, long row, long rows, const i32* sums, long stride) {
#if defined(__AVX512VNNI__)
  if (StoreFast(o, channel, row, rows, sums, stride)) return;
#endif
  const long count = o.channels - channel < kByteChannels ? o.channels - channel : kByteChannels;
  StoreAll<false>(o, channel, rows, count, sums, stride, o.y + row * o.y_stride + channel);
}

#if defined(CAFFE_WIDENS_BYTES)
void Store(const ByteOutput& o, const Factors& f, long channel, long row, long rows,
           const i32* sums, long stride) {
  if (f.fast) return StoreFast(o, f, channel, row, rows, sums, stride);
  Store(o, channel, row, rows, sums, stride);
}
#endif

#if defined(__AVX512VNNI__)
// The same for two blocks of channels, or what there is of the second.
void StorePair(const ByteOutput& o, long channel, long row, long rows, const i32* sums) {
  if (FastPair(o, channel)) {
    PairFactors<Factors> p;
    MakePair(o, channel, &p);
    return StoreTwo<true>(o, p, channel, row, rows, sums);
  }
  Store(o, channel, row, rows, sums, kColumns);
  if (channel + kByteChannels >= o.channels) return;
  Store(o, channel + kByteChannels, row, rows, sums + kByteChannels, kColumns);
}
#endif

#if defined(__AVX512F__)

constexpr long kWordLanes = 8;

// The requantization of 8 channels, with sums of 64 bits. For shifts of at least 33,
// requantize_magnitude has one formula for sums of any size.
struct WordFactors {
  long channel, count;
  __mmask8 mask;
  bool fast;
  __m512i bias, multiplier, right, rounding;
};

WordFactors MakeWordFactors(const ByteOutput& o, long channel) {
  WordFactors f;
  f.channel = channel;
  f.count = o.channels - channel < kWordLanes ? o.channels - channel : kWordLanes;
  f.mask = static_cast<__mmask8>((1u << f.count) - 1);
  f.bias = _mm512_maskz_loadu_epi64(f.mask, o.bias + channel);
  f.multiplier = _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(f.mask, o.multiplier + channel));
  const __m512i shift = _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(f.mask, o.shift + channel));
  const __m512i least = _mm512_set1_epi64(33);
  f.fast = !o.negative_multiplier && _mm512_mask_cmplt_epi64_mask(f.mask, shift, least) == 0;
  f.right = _mm512_sub_epi64(shift, _mm512_set1_epi64(32));
  f.rounding = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_sub_epi64(shift, least));
  return f;
}

// `y` of channel 0.
void StoreWord(const ByteOutput& o, const WordFactors& f, __m512i products, u16* y) {
  const __m512i sum = _mm512_add_epi64(products, f.bias);
  if (!f.fast) {
    alignas(64) i64 all[kWordLanes];
    _mm512_store_si512(all, sum);
    for (long j = 0; j < f.count; ++j) {
      y[f.channel + j] = static_cast<u16>(Code(o, all[j], f.channel + j));
    }
    return;
  }
  const __m512i magnitude = _mm512_abs_epi64(sum);
  const __m512i upper = _mm512_mul_epu32(_mm512_srli_epi64(magnitude, 32), f.multiplier);
  const __m512i lower = _mm512_srli_epi64(_mm512_mul_epu32(magnitude, f.multiplier), 32);
  __m512i r = _mm512_add_epi64(_mm512_add_epi64(upper, lower), f.rounding);
  r = _mm512_srlv_epi64(r, f.right);
  r = _mm512_mask_sub_epi64(r, _mm512_movepi64_mask(sum), _mm512_setzero_si512(), r);
  r = _mm512_add_epi64(r, _mm512_set1_epi64(o.zero_y));
  r = _mm512_max_epi64(r, _mm512_set1_epi64(o.lowest));
  r = _mm512_min_epi64(r, _mm512_set1_epi64(o.highest));
  _mm_mask_storeu_epi16(y + f.channel, f.mask, _mm512_cvtepi64_epi16(r));
}

#endif

// --- Products ------------------------------------------------------------------------------------

#if defined(__AVX512VNNI__)

// The most rows whose sums with two blocks of channels are in registers.
constexpr int kDotRows = 14;

// Sums of R rows and C blocks of channels, added to `bias`. Another line of `next` is fetched for each
// four products.
template <int R, int C>
void Dots(const ByteTile& t, const u8* a, const signed char* b, const __m512i* bias,
          const signed char* next, i32* sums) {
  __m512i c[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) c[r][j] = bias[j];
  }
  const long block = t.depth * kByteChannels, used = t.used / t.runs, stride = t.a_stride;
  for (long run = 0; run < t.runs; ++run) {
    const u8* x = a + run * t.run_stride;
    for (const u8* const end = x + used; x < end; x += 4, b += 64, next += 64) {
      _mm_prefetch(next, _MM_HINT_T1);
      __m512i w[C];
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) w[j] = _mm512_loadu_si512(b + j * block);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        int four;
        __builtin_memcpy(&four, x + r * stride, 4);
        const __m512i v = _mm512_set1_epi32(four);
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) c[r][j] = _mm512_dpbusd_epi32(c[r][j], v, w[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      _mm512_store_si512(sums + r * kColumns + j * kByteChannels, c[r][j]);
    }
  }
}

template <int C>
void Products(long rows, const ByteTile& t, const u8* a, const signed char* b, const __m512i* bias,
              const signed char* next, i32* sums) {
  switch (rows) {
    case 1: return Dots<1, C>(t, a, b, bias, next, sums);
    case 2: return Dots<2, C>(t, a, b, bias, next, sums);
    case 3: return Dots<3, C>(t, a, b, bias, next, sums);
    case 4: return Dots<4, C>(t, a, b, bias, next, sums);
    case 5: return Dots<5, C>(t, a, b, bias, next, sums);
    case 6: return Dots<6, C>(t, a, b, bias, next, sums);
    case 7: return Dots<7, C>(t, a, b, bias, next, sums);
    case 8: return Dots<8, C>(t, a, b, bias, next, sums);
    case 9: return Dots<9, C>(t, a, b, bias, next, sums);
    case 10: return Dots<10, C>(t, a, b, bias, next, sums);
    case 11: return Dots<11, C>(t, a, b, bias, next, sums);
    case 12: return Dots<12, C>(t, a, b, bias, next, sums);
    case 13: return Dots<13, C>(t, a, b, bias, next, sums);
    default: return Dots<14, C>(t, a, b, bias, next, sums);
  }
}

// kUpper: the processor has AVX512-IFMA.
template <bool kUpper> void TileOf(const ByteTile& t) {
  alignas(64) i32 sums[kDotRows * kColumns];
  const ByteOutput& o = t.output;
  const long parts = (t.rows + kDotRows - 1) / kDotRows, block = t.depth * kByteChannels;
  for (long c = 0; c < o.channels; c += kColumns) {
    const bool two = c + kByteChannels < o.channels, fast = FastPair(o, c);
    // A single block, or a block and a part of one, has factors for each of them.
    const bool alone = !fast && FastSingle(o, c) && (!two || FastSingle(o, c + kByteChannels));
    const long count = o.channels - c < kColumns ? o.channels - c : kColumns;
    const bool upper = kUpper && (fast || alone) && FitsUpper(o.shift + c, count);
    PairFactors<Factors> p;
    PairFactors<UpperFactors> u;
    SingleFactors<Factors> single[2];
    SingleFactors<UpperFactors> single_upper[2];
    for (int j = 0; alone && j <= static_cast<int>(two); ++j) {
      MakeSingle(o, c + j * kByteChannels, &single[j]);
      if (upper) MakeSingle(o, c + j * kByteChannels, &single_upper[j]);
    }
    __m512i bias[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (fast) {
      MakePair(o, c, &p);
      if (upper) MakePair(o, c, &u);
      bias[0] = p.bias[0];
      bias[1] = p.bias[1];
    }
    const signed char* b = t.b + c * t.depth;
    for (long line = 0; line < t.lines; ++line) {
      // Equal parts, because few rows at once take longer.
      for (long i = 0; i < parts; ++i) {
        const long r = i * t.rows / parts, rows = (i + 1) * t.rows / parts - r;
        const long pass = line * parts + i, row = line * t.rows + r;
        const u8* a = t.a + line * t.line_stride + r * t.a_stride;
        // The first passes fetch the weights of the next channels.
        const bool fetches = pass < 2 && c + kColumns + pass * kByteChannels < o.channels;
        const signed char* next = fetches ? b + (2 + pass) * block : b;
        if (two) {
          Products<2>(rows, t, a, b, bias, next, sums);
        } else {
          Products<1>(rows, t, a, b, bias, next, sums);
        }
        if (alone) {
          for (int j = 0; j <= static_cast<int>(two); ++j) {
            const long channel = c + j * kByteChannels;
            const i32* from = sums + j * kByteChannels;
            if (upper) {
              StoreSingle(o, single_upper[j], channel, row, rows, from, kColumns);
            } else {
              StoreSingle(o, single[j], channel, row, rows, from, kColumns);
            }
          }
        } else if (upper) {
          StoreTwo<false>(o, u, c, row, rows, sums);
        } else if (fast) {
          StoreTwo<false>(o, p, c, row, rows, sums);
        } else {
          StorePair(o, c, row, rows, sums);
        }
      }
    }
  }
}

#elif defined(CAFFE_WIDENS_BYTES)

// Rows whose codes are widened to 16 bits, `kWide` at a time, and those of them that are multiplied at
// once. Their pitch keeps rows apart in the first cache.
constexpr long kWideRows = 12, kWide = 1024, kWidePitch = kWide + 16;
constexpr int kDotRows = 6;
// Channels whose sums stay in the first cache.
constexpr long kWideChannels = 256;

// `used` is a multiple of 4.
void Widen(const u8* from, long used, i16* to) {
  long k = 0;
  for (; k + 16 <= used; k += 16) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + k), _mm256_cvtepu8_epi16(v));
  }
  for (; k < used; ++k) to[k] = from[k];
}

// Products of R rows of widened codes with 4 V channels, added to `sums` or written. Pairs of products are
// added in 32 bits: a vector holds two sums for each of 4 channels.
template <int R, int V>
void Dots(long used, const i16* x, const signed char* b, bool first, i32* sums) {
  __m256i c[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) c[r][j] = _mm256_setzero_si256();
  }
  for (long k = 0; k < used; k += 4) {
    __m256i w[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      w[j] = _mm256_cvtepi8_epi16(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + k * kByteChannels + 16 * j)));
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      i64 four;
      __builtin_memcpy(&four, x + r * kWidePitch + k, 8);
      const __m256i v = _mm256_set1_epi64x(four);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        c[r][j] = _mm256_add_epi32(c[r][j], _mm256_madd_epi16(v, w[j]));
        // GCC would compute products of several rows first, and spill them.
        asm volatile("" : "+x"(c[r][j]));
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < V; j += 2) {
      // Of two vectors, the sums of channels 0 1 4 5 2 3 6 7.
      const __m256i both = _mm256_hadd_epi32(c[r][j], c[r][j + 1]);
      __m256i sum = _mm256_permute4x64_epi64(both, 0xd8);
      __m256i* to = reinterpret_cast<__m256i*>(sums + r * kWideChannels + 4 * j);
      if (!first) sum = _mm256_add_epi32(sum, _mm256_load_si256(to));
      _mm256_store_si256(to, sum);
    }
  }
}

// The first `channels` channels of a block, or more.
template <int R>
void Block(long channels, long used, const i16* x, const signed char* b, bool first, i32* sums) {
  // Few rows leave registers for all channels of a block.
  constexpr int kVectors = R > 2 ? 2 : 4;
  for (int j = 0; 4 * j < channels; j += kVectors) {
    Dots<R, kVectors>(used, x, b + 16 * j, first, sums + 4 * j);
  }
}

void Blocks(long rows, long channels, long used, const i16* x, const signed char* b, bool first,
            i32* sums) {
  for (; rows >= kDotRows; rows -= kDotRows) {
    Block<kDotRows>(channels, used, x, b, first, sums);
    x += kDotRows * kWidePitch;
    sums += kDotRows * kWideChannels;
  }
  switch (rows) {
    case 1: return Block<1>(channels, used, x, b, first, sums);
    case 2: return Block<2>(channels, used, x, b, first, sums);
    case 3: return Block<3>(channels, used, x, b, first, sums);
    case 4: return Block<4>(channels, used, x, b, first, sums);
    case 5: return Block<5>(channels, used, x, b, first, sums);
    default: return;
  }
}

template <bool> void TileOf(const ByteTile& t) {
  alignas(32) i16 x[kWideRows * kWidePitch];
  alignas(32) i32 sums[kWideRows * kWideChannels];
  Factors factors[kWideChannels / kByteChannels];
  for (long channel = 0; channel < t.output.channels; channel += kWideChannels) {
    const long rest = t.output.channels - channel;
    const long channels = rest < kWideChannels ? rest : kWideChannels;
    for (long c = 0; c < channels; c += kByteChannels) {
      factors[c / kByteChannels] = MakeFactors(t.output, channel + c);
    }
    for (long r = 0; r < t.rows; r += kWideRows) {
      const long rows = t.rows - r < kWideRows ? t.rows - r : kWideRows;
      for (long k = 0; k < t.used; k += kWide) {
        const long part = t.used - k < kWide ? t.used - k : kWide;
        for (long i = 0; i < rows; ++i) {
          Widen(t.a + (r + i) * t.a_stride + k, part, x + i * kWidePitch);
        }
        for (long c = 0; c < channels; c += kByteChannels) {
          Blocks(rows, factors[c / kByteChannels].count, part, x,
                 t.b + (channel + c) * t.depth + k * kByteChannels, k == 0, sums + c);
        }
      }
      for (long c = 0; c < channels; c += kByteChannels) {
        Store(t.output, factors[c / kByteChannels], channel + c, r, rows, sums + c, kWideChannels);
      }
    }
  }
}

#else

// Sums of products have 32 bits over this depth: 255 * 128 * 2^15 is below 2^31.
constexpr long kNarrowSlice = 1 << 15;

// Sums of the products of a row with a block of channels.
void Dots(long used, const u8* a, const signed char* b, i32* sums) {
  constexpr int kVectors = kByteChannels / 2;
  Ints c[kVectors] = {};
  for (long k = 0; k < used; k += 4, a += 4, b += 4 * kByteChannels) {
    const Words x = LoadFour(a);
    for (int j = 0; j < kVectors; ++j) c[j] += Pairs(x, LoadBytes(b + 8 * j));
  }
  for (int j = 0; j < kByteChannels; ++j) sums[j] = c[j / 2][j % 2 * 2] + c[j / 2][j % 2 * 2 + 1];
}

// Sums of 64 bits.
void WideTileOf(const ByteTile& t) {
  const ByteOutput& o = t.output;
  for (long c = 0; c < o.channels; c += kByteChannels) {
    const long count = o.channels - c < kByteChannels ? o.channels - c : kByteChannels;
    for (long r = 0; r < t.rows; ++r) {
      i64 wide[kByteChannels] = {};
      for (long k = 0; k < t.used; k += kNarrowSlice) {
        i32 sums[kByteChannels];
        Dots(t.used - k < kNarrowSlice ? t.used - k : kNarrowSlice, t.a + r * t.a_stride + k,
             t.b + c * t.depth + k * kByteChannels, sums);
        for (long j = 0; j < kByteChannels; ++j) wide[j] += sums[j];
      }
      u8* y = o.y + r * o.y_stride + c;
      for (long j = 0; j < count; ++j) {
        y[j] = static_cast<u8>(Code(o, wide[j] + o.bias[c + j], c + j));
      }
    }
  }
}

template <bool> void TileOf(const ByteTile& t) {
  if (t.depth > kNarrowSlice) return WideTileOf(t);
  alignas(64) i32 sums[kRows * kByteChannels];
  for (long c = 0; c < t.output.channels; c += kByteChannels) {
    for (long r = 0; r < t.rows; r += kRows) {
      const long rows = t.rows - r < kRows ? t.rows - r : kRows;
      for (long i = 0; i < rows; ++i) {
        Dots(t.used, t.a + (r + i) * t.a_stride, t.b + c * t.depth, sums + i * kByteChannels);
      }
      Store(t.output, c, r, rows, sums, kByteChannels);
    }
  }
}

#endif

#if defined(__AMX_INT8__) || defined(__AMXINT8__)  // clang 14 has the second name

struct alignas(64) TileConfig {
  u8 palette = 1, start = 0, reserved[14] = {};
  u16 bytes[16] = {};
  u8 rows[16] = {};
};

// Tiles 0 to 3: sums of 2x2 blocks; 4 and 5: rows of a; 6 and 7: blocks of b. Rows are divided into
// `first` for tiles 0, 1 and 4, and `second` for tiles 2, 3 and 5. `columns` are the bytes of a row of a.
void Configure(long first, long second, long columns) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = static_cast<u16>(i == 4 || i == 5 ? columns : 64);
    config.rows[i] = static_cast<u8>(i == 6 || i == 7             ? columns / 4
                                     : i == 0 || i == 1 || i == 4 ? first
                                     : second > 0                 ? second
                                                                  : 1);
  }
  _tile_loadconfig(&config);
}

void ConfigureWords(long rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = 64;
    config.rows[i] = static_cast<u8>(i < 6 ? rows : 16);
  }
  _tile_loadconfig(&config);
}

template <bool kSecond, bool kTwo>
void MatrixProducts(long first, long depth, long used, const u8* a, long a_stride,
                    const signed char* b, i32* sums) {
  _tile_zero(0);
  if (kTwo) _tile_zero(1);
  if (kSecond) _tile_zero(2);
  if (kSecond && kTwo) _tile_zero(3);
  const u8* a_second = a + first * a_stride;
  const signed char* b_second = b + depth * kByteChannels;
  for (long k = 0; k < used; k += kByteDepth) {
    _tile_loadd(4, a + k, a_stride);
    _tile_loadd(6, b + k * kByteChannels, 64);
    _tile_dpbusd(0, 4, 6);
    if (kTwo) {
      _tile_loadd(7, b_second + k * kByteChannels, 64);
      _tile_dpbusd(1, 4, 7);
    }
    if (kSecond) {
      _tile_loadd(5, a_second + k, a_stride);
      _tile_dpbusd(2, 5, 6);
      if (kTwo) _tile_dpbusd(3, 5, 7);
    }
  }
  constexpr long kStride = kColumns * 4;
  i32* second = sums + first * kColumns;
  _tile_stored(0, sums, kStride);
  if (kTwo) _tile_stored(1, sums + kByteChannels, kStride);
  if (kSecond) _tile_stored(2, second, kStride);
  if (kSecond && kTwo) _tile_stored(3, second + kByteChannels, kStride);
}

// Rows [0, whole) in blocks of 32, and the rest with a configuration of its own.
void MatrixRows(const ByteTile& t, long begin, long end, long rows, i32* sums) {
  const long first = rows > 16 ? (rows + 1) / 2 : rows, second = rows - first;
  Configure(first, second, t.used < kByteDepth ? t.used : kByteDepth);
  for (long c = 0; c < t.output.channels; c += kColumns) {
    const bool two = c + kByteChannels < t.output.channels;
    const signed char* b = t.b + c * t.depth;
    for (long r = begin; r < end; r += rows) {
      const u8* a = t.a + r * t.a_stride;
      if (second > 0 && two) {
        MatrixProducts<true, true>(first, t.depth, t.used, a, t.a_stride, b, sums);
      } else if (second > 0) {
        MatrixProducts<true, false>(first, t.depth, t.used, a, t.a_stride, b, sums);
      } else if (two) {
        MatrixProducts<false, true>(first, t.depth, t.used, a, t.a_stride, b, sums);
      } else {
        MatrixProducts<false, false>(first, t.depth, t.used, a, t.a_stride, b, sums);
      }
      StorePair(t.output, c, r, rows, sums);
    }
  }
}

// Rows that are so few that a tile would be almost empty are multiplied one by one.
constexpr long kFewRows = 3;

void MatrixTileOf(const ByteTile& t) {
  if (t.rows < kFewRows) return TileOf<true>(t);
  alignas(64) i32 sums[kRows * kColumns];
  const long whole = t.rows / kRows * kRows;
  if (whole > 0) MatrixRows(t, 0, whole, kRows, sums);
  if (whole < t.rows) MatrixRows(t, whole, t.rows, t.rows - whole, sums);
}

// The four sums of products of bytes, as vectors of 8 channels.
__m512i WordSum(const i32* ll, const i32* lh, const i32* hl, const i32* hh) {
  const auto at = [](const i32* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  };
  // Products of two bytes without a sign have sums of 32 bits without a sign.
  const __m512i middle =
      _mm512_add_epi64(_mm512_cvtepi32_epi64(at(lh)), _mm512_cvtepu32_epi64(at(hl)));
  const __m512i high = _mm512_slli_epi64(_mm512_cvtepi32_epi64(at(hh)), 16);
  return _mm512_add_epi64(_mm512_add_epi64(high, _mm512_slli_epi64(middle, 8)),
                          _mm512_cvtepu32_epi64(at(ll)));
}

void StoreWords(const WordTile& t, long channel, long row, long rows, const i32* sums) {
  constexpr long kPart = 16 * kByteChannels;
  const ByteOutput& o = t.output;
  for (long half = 0; half < kByteChannels && channel + half < o.channels; half += kWordLanes) {
    const WordFactors f = MakeWordFactors(o, channel + half);
    for (long i = 0; i < rows; ++i) {
      const i32* p = sums + i * kByteChannels + half;
      StoreWord(o, f, WordSum(p, p + kPart, p + 2 * kPart, p + 3 * kPart),
                t.y + (row + i) * t.y_stride);
    }
  }
}

// Tiles 0 to 3: the sums low low, low high, high low, high high (of a and b); 4 and 5: the planes of
// a; 6 and 7: those of b.
void WordTileOf(const WordTile& t) {
  constexpr long kPart = 16 * kByteChannels;
  alignas(64) i32 sums[4 * kPart];
  for (long r = 0; r < t.rows; r += 16) {
    const long rows = t.rows - r < 16 ? t.rows - r : 16;
    if (r == 0 || rows < 16) ConfigureWords(rows);
    const u8* a = t.a + r * t.a_stride;
    for (long c = 0; c < t.output.channels; c += kByteChannels) {
      const u8* b = t.b + 2 * c * t.depth;
      const u8* b_high = b + kByteChannels * t.depth;
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (long k = 0; k < t.depth; k += kByteDepth) {
        _tile_loadd(4, a + k, t.a_stride);
        _tile_loadd(6, b + k * kByteChannels, 64);
        _tile_dpbuud(0, 4, 6);
        _tile_loadd(7, b_high + k * kByteChannels, 64);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, a + t.depth + k, t.a_stride);
        _tile_dpbuud(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
      _tile_stored(0, sums, 64);
      _tile_stored(1, sums + kPart, 64);
      _tile_stored(2, sums + 2 * kPart, 64);
      _tile_stored(3, sums + 3 * kPart, 64);
      StoreWords(t, c, r, rows, sums);
    }
  }
}

void EndMatrix() { _tile_release(); }

#endif

// --- Windows of single channels ------------------------------------------------------------------

#if defined(__AVX512VNNI__)

// The bytes of 4 taps side by side: vector q holds, in 128-bit lane l, the channels 16 l + 4 q to
// 16 l + 4 q + 3.
struct Taps {
  __m512i part[4];
};

Taps Interleaved(const __m512i* x) {
  const __m512i low = _mm512_unpacklo_epi8(x[0], x[1]), high = _mm512_unpackhi_epi8(x[0], x[1]);
  const __m512i low2 = _mm512_unpacklo_epi8(x[2], x[3]), high2 = _mm512_unpackhi_epi8(x[2], x[3]);
  return {{_mm512_unpacklo_epi16(low, low2), _mm512_unpackhi_epi16(low, low2),
           _mm512_unpacklo_epi16(high, high2), _mm512_unpackhi_epi16(high, high2)}};
}

// The requantization of 64 channels in the order of Taps.
template <class F> struct LaneFactors {
  F f[4];
  __m512i bias[4], zero, low, high;
};

bool FastLanes(const ByteOutput& o, long channel, long count) {
  for (long i = 0; i < count; ++i) {
    if (o.shift[channel + i] < 32) return false;
  }
  return !o.negative_multiplier;
}

// `count` channels from `channel` on, repeated in the other lanes if there are 32.
template <class F>
void MakeLanes(const ByteOutput& o, long channel, long count, LaneFactors<F>* lanes) {
  alignas(64) i32 bias[kByteLanes], multiplier[kByteLanes], shift[kByteLanes];
  for (int q = 0; q < 4; ++q) {
    for (int i = 0; i < 16; ++i) {
      const int lane = i / 4 * 16 + 4 * q + i % 4, at = 16 * q + i;
      const long c = count == 32 ? lane % 32 : lane;
      bias[at] = c < count ? static_cast<i32>(o.bias[channel + c]) : 0;
      multiplier[at] = c < count ? o.multiplier[channel + c] : 0;
      shift[at] = c < count ? o.shift[channel + c] : 32;
    }
  }
  LaneFactors<F>& l = *lanes;
  for (int q = 0; q < 4; ++q) {
    MakeFactors(_mm512_load_si512(multiplier + 16 * q), _mm512_load_si512(shift + 16 * q), &l.f[q]);
    l.bias[q] = _mm512_load_si512(bias + 16 * q);
  }
  l.zero = _mm512_set1_epi16(static_cast<short>(o.zero_y));
  l.low = _mm512_set1_epi16(static_cast<short>(o.lowest));
  l.high = _mm512_set1_epi16(static_cast<short>(o.highest));
}

template <bool kPositive, class F> __m512i LaneCodes(const __m512i* sum, const LaneFactors<F>& l) {
  __m512i v[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    v[q] = kPositive ? Magnitude(_mm512_max_epi32(sum[q], _mm512_setzero_si512()), l.f[q])
                     : Requantized(sum[q], l.f[q]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 4; h += 2) {
    // Saturation keeps values beyond the codes.
    v[h] = _mm512_adds_epi16(_mm512_packs_epi32(v[h], v[h + 1]), l.zero);
    v[h] = _mm512_min_epi16(_mm512_max_epi16(v[h], l.low), l.high);
  }
  return _mm512_packus_epi16(v[0], v[2]);
}

template <bool kPositive, class F>
void WindowsFast(const ByteWindows& w, const LaneFactors<F>& l, long channel, long count) {
  const ByteOutput& o = w.output;
  const __mmask64 mask = count == 64 ? ~0ull : (1ull << count) - 1;
  const signed char* weights = w.w + channel * w.tap_stride;
  for (long i = 0; i < w.positions; ++i) {
    __m512i sum[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) sum[q] = l.bias[q];
    for (long t = 0; t < w.tap_stride; t += kByteTaps) {
      const u8* const* taps = w.taps + i * w.tap_stride + t;
      __m512i r[4];
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) r[p] = _mm512_maskz_loadu_epi8(mask, taps[p] + channel);
      const Taps x = Interleaved(r);
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m512i four = _mm512_loadu_si512(weights + t * kByteLanes + 64 * q);
        sum[q] = _mm512_dpbusd_epi32(sum[q], x.part[q], four);
      }
    }
    _mm512_mask_storeu_epi8(o.y + i * o.y_stride + channel, mask, LaneCodes<kPositive>(sum, l));
  }
}

template <bool kUpper> bool WindowsFast(const ByteWindows& w, long channel, long count) {
  if (!FastLanes(w.output, channel, count)) return false;
  const auto compute = [&](auto* l) {
    MakeLanes(w.output, channel, count, l);
    w.output.lowest >= w.output.zero_y ? WindowsFast<true>(w, *l, channel, count)
                                       : WindowsFast<false>(w, *l, channel, count);
  };
  LaneFactors<UpperFactors> upper;
  LaneFactors<Factors> factors;
  kUpper&& FitsUpper(w.output.shift + channel, count) ? compute(&upper) : compute(&factors);
  return true;
}

// A block of channels of ByteLines.
template <class F> struct LineBlock {
  LaneFactors<F> lanes;
  __m512i weights[2][3]
                 [4];  // of three columns, for the first line, and for the second, a row below
  long column, pitch;  // bytes from one column of x to the next, and from one row to the next
  long window, line;   // bytes of y from one window to the next, and from one line to the next
  long half;           // bytes of y between both windows in the lanes; 0: there is one
};

// kLines x kWindows windows, which are kStride columns apart.
template <int kLines, int kWindows, int kStride, bool kPositive, class F>
void LineWindows(const LineBlock<F>& b, __mmask64 mask, const u8* x, u8* y) {
  __m512i sum[kLines][kWindows][4];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 2
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) sum[l][i][q] = b.lanes.bias[q];
    }
  }
#pragma GCC unroll 5
  for (int column = 0; column < (kWindows - 1) * kStride + 3; ++column) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = i < kLines + 2 ? _mm512_maskz_loadu_epi8(mask, x + column * b.column + i * b.pitch)
                            : _mm512_setzero_si512();
    }
    const Taps taps = Interleaved(r);
#pragma GCC unroll 2
    for (int i = 0; i < kWindows; ++i) {
      const int tap = column - i * kStride;
      if (tap < 0 || tap > 2) continue;
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          sum[l][i][q] = _mm512_dpbusd_epi32(sum[l][i][q], taps.part[q], b.weights[l][tap][q]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 2
    for (int i = 0; i < kWindows; ++i) {
      const __m512i codes = LaneCodes<kPositive>(sum[l][i], b.lanes);
      u8* to = y + l * b.line + i * b.window;
      if (b.half == 0) {
        _mm512_mask_storeu_epi8(to, mask, codes);
        continue;
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(codes));
      if (mask >> 32 == 0) continue;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + b.half),
                          _mm512_extracti64x4_epi64(codes, 1));
    }
  }
}

template <int kLines, int kStride, bool kPositive, class F>
void LineOf(const LineBlock<F>& b, __mmask64 mask, long width, const u8* x, u8* y) {
  // Two windows of 32 channels are one.
  const long windows = b.half ? width / 2 : width;
  long i = 0;
  for (; i + 2 <= windows; i += 2) {
    LineWindows<kLines, 2, kStride, kPositive>(b, mask, x + i * kStride * b.column,
                                               y + i * b.window);
  }
  if (i < windows) {
    LineWindows<kLines, 1, kStride, kPositive>(b, mask, x + i * kStride * b.column,
                                               y + i * b.window);
    ++i;
  }
  if (b.half && width % 2 == 1) {
    LineWindows<kLines, 1, kStride, kPositive>(b, 0xffffffff, x + i * kStride * b.column,
                                               y + i * b.window);
  }
}

template <int kStride, bool kPositive, class F>
void LinesOfBlock(const ByteLines& t, const LineBlock<F>& b, __mmask64 mask, const u8* x, u8* y) {
  long line = 0;
  for (; t.line_stride == t.pitch && line + 2 <= t.lines; line += 2) {
    LineOf<2, kStride, kPositive>(b, mask, t.width, x + line * t.line_stride, y + line * b.line);
  }
  for (; line < t.lines; ++line) {
    LineOf<1, kStride, kPositive>(b, mask, t.width, x + line * t.line_stride, y + line * b.line);
  }
}

// The channels from `channel` on.
template <class F> void LinesOf(const ByteLines& t, long channel, long count) {
  const ByteOutput& o = t.output;
  // Windows beside each other, because the pixels of 32 channels are.
  const bool pairs = o.channels == 32 && t.stride == 1;
  LineBlock<F> b;
  MakeLanes(o, channel, count, &b.lanes);
  b.column = o.channels;
  b.pitch = t.pitch;
  b.window = pairs ? 2 * o.y_stride : o.y_stride;
  b.line = t.width * o.y_stride;
  b.half = pairs ? o.y_stride : 0;
  for (int i = 0; i < 12; ++i) {
    __m512i w = _mm512_loadu_si512(t.w + channel * 12 + 64 * i);
    if (pairs) w = _mm512_shuffle_i64x2(w, w, 0x44);
    b.weights[0][i / 4][i % 4] = w;
    b.weights[1][i / 4][i % 4] = _mm512_slli_epi32(w, 8);
  }
  const __mmask64 mask = pairs || count == 64 ? ~0ull : (1ull << count) - 1;
  const u8* x = t.x + channel;
  u8* y = o.y + channel;
  const bool positive = o.lowest >= o.zero_y;
  if (t.stride == 2 || pairs) {
    positive ? LinesOfBlock<2, true>(t, b, mask, x, y) : LinesOfBlock<2, false>(t, b, mask, x, y);
  } else {
    positive ? LinesOfBlock<1, true>(t, b, mask, x, y) : LinesOfBlock<1, false>(t, b, mask, x, y);
  }
}

template <bool kUpper> bool LinesOf(const ByteLines& t) {
  const ByteOutput& o = t.output;
  if (!FastLanes(o, 0, o.channels)) return false;
  for (long channel = 0; channel < o.channels; channel += kByteLanes) {
    const long count = o.channels - channel < kByteLanes ? o.channels - channel : kByteLanes;
    kUpper&& FitsUpper(o.shift + channel, count) ? LinesOf<UpperFactors>(t, channel, count)
                                                 : LinesOf<Factors>(t, channel, count);
  }
  return true;
}

#endif

// Where weights of channel c of a block and tap p of four lie: in the order of Taps.
long WindowWeight(long c, long p) { return c % 16 / 4 * 64 + (c / 16 * 4 + c % 4) * 4 + p; }

#if defined(CAFFE_WIDENS_BYTES)

constexpr long kMostTaps = 64;

// 16 channels. Pairs of taps are widened to 16 bits and multiplied.
bool WindowsFast(const ByteWindows& w, long channel) {
  const Factors f = MakeFactors(w.output, channel);
  if (w.tap_stride > kMostTaps || !f.fast) return false;
  __m256i weights[kMostTaps];
  for (long t = 0; t < w.tap_stride; t += 2) {
    alignas(32) i16 values[2][16];
    for (long i = 0; i < 16; ++i) {
      // In the order of interleaved codes.
      const long c = channel + i, lane = i / 8 * 8 + i % 4 * 2, block = c / kByteLanes * kByteLanes;
      const signed char* from = w.w + block * w.tap_stride + t / 4 * 4 * kByteLanes;
      for (long p = 0; p < 2; ++p) {
        values[i / 4 % 2][lane + p] = from[WindowWeight(c - block, t % 4 + p)];
      }
    }
    for (long h = 0; h < 2; ++h) {
      weights[t + h] = _mm256_load_si256(reinterpret_cast<const __m256i*>(values[h]));
    }
  }
  for (long i = 0; i < w.positions; ++i) {
    const u8* const* taps = w.taps + i * w.tap_stride;
    __m256i first = _mm256_setzero_si256(), second = first;
    for (long t = 0; t < w.tap_stride; t += 2) {
      const auto load = [channel](const u8* p) {
        return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + channel)));
      };
      const __m256i a = load(taps[t]), b = load(taps[t + 1]);
      const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights[t]);
      const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights[t + 1]);
      first = _mm256_add_epi32(first, low);
      second = _mm256_add_epi32(second, high);
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(w.output.y + i * w.output.y_stride + channel),
                     Codes(first, second, f));
  }
  return true;
}

// Whole vectors of channels; the last one overlaps its neighbour.
bool WindowsFast(const ByteWindows& w) {
  const long channels = w.output.channels;
  if (channels < kByteChannels) return false;
  for (long c = 0; c < channels; c += kByteChannels) {
    if (!WindowsFast(w, c + kByteChannels > channels ? channels - kByteChannels : c)) return false;
  }
  return true;
}

#endif

template <bool kUpper> void WindowsOf(const ByteWindows& w) {
  const ByteOutput& o = w.output;
#if defined(CAFFE_WIDENS_BYTES)
  if (WindowsFast(w)) return;
#endif
  for (long channel = 0; channel < o.channels; channel += kByteLanes) {
    const long count = o.channels - channel < kByteLanes ? o.channels - channel : kByteLanes;
#if defined(__AVX512VNNI__)
    if (WindowsFast<kUpper>(w, channel, count)) continue;
#endif
    alignas(64) i32 sums[kWindowRows * kByteLanes];
    i32 weights[kByteLanes];
    for (long first = 0; first < w.positions; first += kWindowRows) {
      const long rows = w.positions - first < kWindowRows ? w.positions - first : kWindowRows;
      for (long i = 0; i < rows * kByteLanes; ++i) sums[i] = 0;
      for (long t = 0; t < w.tap_stride; ++t) {
        const signed char* four = w.w + channel * w.tap_stride + t / 4 * 4 * kByteLanes;
        for (long c = 0; c < count; ++c) weights[c] = four[WindowWeight(c, t % 4)];
        for (long i = 0; i < rows; ++i) {
          const u8* x = w.taps[(first + i) * w.tap_stride + t] + channel;
          i32* sum = sums + i * kByteLanes;
          for (long c = 0; c < count; ++c) sum[c] += x[c] * weights[c];
        }
      }
      for (long c = 0; c < count; c += kByteChannels) {
        Store(o, channel + c, first, rows, sums + c, kByteLanes);
      }
    }
  }
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
#define CAFFE_STRING_(a) #a
#define CAFFE_STRING(a) CAFFE_STRING_(a)
// Of word_steps.cpp and word_steps_vnni.cpp.
void CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL)(const WordWindows&);
void CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL)(const unsigned short*, long, long, long, long,
                                                void*);
#if defined(__AVX512VNNI__)
bool CAFFE_JOIN(word_lines_, CAFFE_HOST_LEVEL)(const WordLines&);
#define CAFFE_WORD_LINES &CAFFE_JOIN(word_lines_, CAFFE_HOST_LEVEL)
#else
#define CAFFE_WORD_LINES nullptr
#endif
#if defined(__AVX512VNNI__)
#define CAFFE_WORD_FORM CodeForm::kWordParts
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define CAFFE_WORD_FORM CodeForm::kWords
#else
#define CAFFE_WORD_FORM CodeForm::kWordPairs
#endif
void CAFFE_JOIN(word_tile_, CAFFE_HOST_LEVEL)(const WordTile&);
#define CAFFE_WORD_TILE &CAFFE_JOIN(word_tile_, CAFFE_HOST_LEVEL)

#if defined(__AMX_INT8__) || defined(__AMXINT8__)  // clang 14 has the second name
void split_words_amx(const unsigned short*, long, long, long, long, void*);
extern const ByteSteps byte_steps_amx;
constinit const ByteSteps byte_steps_amx{"amx",
                                         true,
                                         false,
                                         &MatrixTileOf,
                                         &WindowsOf<true>,
                                         &LinesOf<true>,
                                         &WordTileOf,
                                         CodeForm::kWordBytes,
                                         &split_words_amx,
                                         &CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL),
                                         CAFFE_WORD_LINES,
                                         nullptr,
                                         &EndMatrix,
                                         &RequantizeOf};
#endif
#if defined(__AVX512VNNI__)
#define CAFFE_STEPS_NAME "vnni"
#define CAFFE_READS_WINDOWS true
#define CAFFE_BYTE_LINES &LinesOf<false>
#else
#define CAFFE_STEPS_NAME CAFFE_STRING(CAFFE_HOST_LEVEL)
#define CAFFE_READS_WINDOWS false
#define CAFFE_BYTE_LINES nullptr
#endif
#if defined(__AVX512VNNI__)
extern const ByteSteps byte_steps_ifma;
constinit const ByteSteps byte_steps_ifma{"vnni_ifma",
                                          false,
                                          true,
                                          &TileOf<true>,
                                          &WindowsOf<true>,
                                          &LinesOf<true>,
                                          CAFFE_WORD_TILE,
                                          CAFFE_WORD_FORM,
                                          &CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL),
                                          &CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL),
                                          CAFFE_WORD_LINES,
                                          nullptr,
                                          nullptr,
                                          &RequantizeOf};
#endif
extern const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL);
constinit const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL){
    CAFFE_STEPS_NAME,
    false,
    CAFFE_READS_WINDOWS,
    &TileOf<false>,
    &WindowsOf<false>,
    CAFFE_BYTE_LINES,
    CAFFE_WORD_TILE,
    CAFFE_WORD_FORM,
    &CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL),
    &CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL),
    CAFFE_WORD_LINES,
    nullptr,
    nullptr,
    &RequantizeOf};

}  // namespace caffe
