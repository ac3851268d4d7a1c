// Products of codes of 16 bits, see byte_steps.hpp. Compiled once per instruction level, as
// CAFFE_HOST_LEVEL.
#include "caffe/library/native/byte_steps.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/requantize.hpp"
#if !defined(__AVX2__)
#include "caffe/library/native/codes/generic.hpp"
#endif
// clang-format on

namespace caffe {
namespace {

// Products of a byte without a sign and 16 bits: the sum of this many fits 32 bits.
constexpr long kSlice = 256;

// Channels [begin, end) of position i.
void WindowsOf(const WordWindows& w, long i, long begin, long end) {
  for (long c = begin; c < end; ++c) {
    i64 sum = w.output.bias[c];
    for (long t = 0; t < w.tap_stride; ++t) {
      // A product has less than 32 bits.
      sum += static_cast<i32>(w.taps[i * w.tap_stride + t][c]) *
             static_cast<i32>(w.w[t * w.output.channels + c]);
    }
    w.y[i * w.y_stride + c] = static_cast<u16>(Code(w.output, sum, c));
  }
}

#if defined(__AVX512F__)

// Vectors of 32 bits; and of 64 bits, which hold the even or the odd elements of one.
constexpr long kLanes = 16;
using V = __m512i;
DEVICE_FN V Zero() { return _mm512_setzero_si512(); }
DEVICE_FN V Set(int v) { return _mm512_set1_epi32(v); }
DEVICE_FN V Set64(i64 v) { return _mm512_set1_epi64(v); }
DEVICE_FN V Load(const void* p) { return _mm512_loadu_si512(p); }
void Store(void* p, V v) { _mm512_storeu_si512(p, v); }
DEVICE_FN V Add(V a, V b) { return _mm512_add_epi32(a, b); }
DEVICE_FN V Sub(V a, V b) { return _mm512_sub_epi32(a, b); }
DEVICE_FN V Add64(V a, V b) { return _mm512_add_epi64(a, b); }
DEVICE_FN V Flip(V v, V bits) { return _mm512_xor_si512(v, bits); }
DEVICE_FN V Pairs(V a, V b) { return _mm512_madd_epi16(a, b); }
DEVICE_FN V AddPairs(V sum, V a, V b) { return Add(sum, Pairs(a, b)); }
DEVICE_FN V LowWords(V a, V b) { return _mm512_unpacklo_epi16(a, b); }
DEVICE_FN V HighWords(V a, V b) { return _mm512_unpackhi_epi16(a, b); }
DEVICE_FN V UpperHalf(V v) { return _mm512_srai_epi32(v, 16); }
DEVICE_FN V LeftHalf(V v) { return _mm512_slli_epi32(v, 16); }
DEVICE_FN V Product(V a, V b) { return _mm512_mul_epi32(a, b); }
DEVICE_FN V ProductU(V a, V b) { return _mm512_mul_epu32(a, b); }
DEVICE_FN V Odd(V v) { return _mm512_srli_epi64(v, 32); }
DEVICE_FN V ShiftRight(V v, V n) { return _mm512_srlv_epi64(v, n); }
DEVICE_FN V Sign(V v) { return _mm512_srai_epi64(v, 63); }
DEVICE_FN V Sub64(V a, V b) { return _mm512_sub_epi64(a, b); }
DEVICE_FN V Least(V v, V most) { return _mm512_min_epu64(v, most); }
DEVICE_FN V Join(V even, V odd) {
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}
DEVICE_FN V Between(V v, V low, V high) { return _mm512_min_epi32(_mm512_max_epi32(v, low), high); }
// Packs lanes that are in the order of LowWords and HighWords.
DEVICE_FN V Packed(V low, V high) { return _mm512_packus_epi32(low, high); }
void StoreWords(u16* y, V v, long count) {
  const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1);
  _mm256_mask_storeu_epi16(y, mask, _mm512_cvtepi32_epi16(v));
}

#elif defined(__AVX2__)

constexpr long kLanes = 8;
using V = __m256i;
DEVICE_FN V Zero() { return _mm256_setzero_si256(); }
DEVICE_FN V Set(int v) { return _mm256_set1_epi32(v); }
DEVICE_FN V Set64(i64 v) { return _mm256_set1_epi64x(v); }
DEVICE_FN V Load(const void* p) { return _mm256_loadu_si256(static_cast<const V*>(p)); }
void Store(void* p, V v) { _mm256_storeu_si256(static_cast<V*>(p), v); }
DEVICE_FN V Add(V a, V b) { return _mm256_add_epi32(a, b); }
DEVICE_FN V Sub(V a, V b) { return _mm256_sub_epi32(a, b); }
DEVICE_FN V Add64(V a, V b) { return _mm256_add_epi64(a, b); }
DEVICE_FN V Flip(V v, V bits) { return _mm256_xor_si256(v, bits); }
DEVICE_FN V Pairs(V a, V b) { return _mm256_madd_epi16(a, b); }
DEVICE_FN V AddPairs(V sum, V a, V b) { return Add(sum, Pairs(a, b)); }
DEVICE_FN V LowWords(V a, V b) { return _mm256_unpacklo_epi16(a, b); }
DEVICE_FN V HighWords(V a, V b) { return _mm256_unpackhi_epi16(a, b); }
DEVICE_FN V UpperHalf(V v) { return _mm256_srai_epi32(v, 16); }
DEVICE_FN V LeftHalf(V v) { return _mm256_slli_epi32(v, 16); }
DEVICE_FN V Product(V a, V b) { return _mm256_mul_epi32(a, b); }
DEVICE_FN V ProductU(V a, V b) { return _mm256_mul_epu32(a, b); }
DEVICE_FN V Odd(V v) { return _mm256_srli_epi64(v, 32); }
DEVICE_FN V ShiftRight(V v, V n) { return _mm256_srlv_epi64(v, n); }
DEVICE_FN V Sign(V v) { return _mm256_cmpgt_epi64(Zero(), v); }
DEVICE_FN V Sub64(V a, V b) { return _mm256_sub_epi64(a, b); }
DEVICE_FN V Least(V v, V most) { return _mm256_blendv_epi8(v, most, _mm256_cmpgt_epi64(v, most)); }
DEVICE_FN V Join(V even, V odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
DEVICE_FN V Between(V v, V low, V high) { return _mm256_min_epi32(_mm256_max_epi32(v, low), high); }
DEVICE_FN V Packed(V low, V high) { return _mm256_packus_epi32(low, high); }
void StoreWords(u16* y, V v, long count) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  if (count == kLanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), words);
    return;
  }
  u16 all[kLanes];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(all), words);
  for (long i = 0; i < count; ++i) y[i] = all[i];
}

#endif

#if defined(__AVX2__)

// Sums of 64 bits of the even and of the odd channels of a vector.
struct Sums {
  V even, odd;
};

// The requantization of a vector of channels. For shifts of at least 33, requantize_magnitude has
// one formula for sums of any size.
struct Factors {
  Sums bias, right, rounding;
  V multiplier, zero, lowest, highest;
};

bool IsFast(const ByteOutput& o, long channel, long count) {
  if (o.negative_multiplier) return false;
  for (long c = channel; c < channel + count; ++c) {
    if (o.shift[c] < 33) return false;
  }
  return true;
}

// Lane i is channel order[i]; those of -1 are not used. `offsets` is added to the bias.
Factors MakeFactors(const ByteOutput& o, const long* order, const i64* offsets) {
  alignas(64) i64 bias[2][kLanes / 2], right[2][kLanes / 2], rounding[2][kLanes / 2];
  alignas(64) i32 multiplier[kLanes];
  for (long i = 0; i < kLanes; ++i) {
    const long c = order[i];
    const i64 shift = c < 0 ? 33 : o.shift[c];
    bias[i % 2][i / 2] = c < 0 ? 0 : o.bias[c] + (offsets ? offsets[i] : 0);
    multiplier[i] = c < 0 ? 0 : o.multiplier[c];
    right[i % 2][i / 2] = shift - 32;
    rounding[i % 2][i / 2] = shift - 33 > 62 ? 0 : i64{1} << (shift - 33);
  }
  const auto both = [](const i64(*values)[kLanes / 2]) {
    return Sums{Load(values[0]), Load(values[1])};
  };
  return {both(bias),    both(right),   both(rounding), Load(multiplier),
          Set(o.zero_y), Set(o.lowest), Set(o.highest)};
}

DEVICE_FN V Requantized(V sum, V bias, V multiplier, V right, V rounding) {
  // Beyond all codes.
  const V most = Set64(1 << 20), s = Add64(sum, bias), sign = Sign(s);
  const V a = Sub64(Flip(s, sign), sign);
  const V upper = ProductU(Odd(a), multiplier), lower = Odd(ProductU(a, multiplier));
  const V r = Least(ShiftRight(Add64(Add64(upper, lower), rounding), right), most);
  return Sub64(Flip(r, sign), sign);
}

DEVICE_FN V Codes(const Sums& sums, const Factors& f) {
  const V even = Requantized(sums.even, f.bias.even, f.multiplier, f.right.even, f.rounding.even);
  const V odd = Requantized(sums.odd, f.bias.odd, Odd(f.multiplier), f.right.odd, f.rounding.odd);
  return Between(Add(Join(even, odd), f.zero), f.lowest, f.highest);
}

// --- Products ------------------------------------------------------------------------------------

constexpr int kVectors = 2;  // of channels at a time

// The products behind `sum`, which is their sum modulo 2^32, and `upper`, the sum of their upper
// halves: the difference is the sum of up to 2^16 lower halves without sign.
DEVICE_FN Sums Wide(V sum, V upper) {
  const V half = Set64(65536), one = Set64(1), lower = Sub(sum, LeftHalf(upper));
  return {Add64(Product(upper, half), ProductU(lower, one)),
          Add64(Product(Odd(upper), half), Odd(lower))};
}

// Codes of one row and one vector of channels.
// `offsets` is added to sums if they are not fast.
void StoreCodes(const WordTile& t, const Factors& f, bool fast, long channel, const Sums& sums,
                const i64* offsets, u16* y) {
  const long rest = t.output.channels - channel, count = rest < kLanes ? rest : kLanes;
  if (fast) return StoreWords(y + channel, Codes(sums, f), count);
  alignas(64) i64 all[2][kLanes / 2];
  Store(all[0], sums.even);
  Store(all[1], sums.odd);
  for (long i = 0; i < count; ++i) {
    const long c = channel + i;
    const i64 bias = t.output.bias[c] + (offsets ? offsets[i] : 0);
    y[c] = static_cast<u16>(Code(t.output, all[i % 2][i / 2] + bias, c));
  }
}

#if defined(__AVX512F__)

constexpr int kRows = 6;

// Where vector j of channels begins in packed weights: in another block of channels, or in the
// same.
const short* WeightsOf(const short* b, long depth, long vector) {
  const long channel = vector * kLanes;
  return b + channel / kByteChannels * kByteChannels * depth + channel % kByteChannels * 2;
}

// wide += low + 256 high.
void Flush(V low, V high, bool first, Sums* wide) {
  const V one = Set64(1), factor = Set64(256);
  V even = Add64(Product(low, one), Product(high, factor));
  V odd = Add64(Product(Odd(low), one), Product(Odd(high), factor));
  if (!first) {
    even = Add64(even, Load(&wide->even));
    odd = Add64(odd, Load(&wide->odd));
  }
  Store(&wide->even, even);
  Store(&wide->odd, odd);
}

// The sums of a slice, of R planes and C vectors of channels. Plane r belongs to row r / 2.
template <int R, int C>
__attribute__((noinline)) void Slice(long pairs, const u8* a, long plane, long a_stride,
                                     const short* const* b, i32* sums) {
  V c[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) c[r][j] = Zero();
  }
  for (long k = 0; k < pairs; ++k) {
    V w[C];
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) w[j] = Load(b[j] + k * 2 * kByteChannels);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int two;
      __builtin_memcpy(&two, a + r / 2 * a_stride + r % 2 * plane + 4 * k, 4);
      const V x = Set(two);
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) c[r][j] = AddPairs(c[r][j], x, w[j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) Store(sums + (r * C + j) * kLanes, c[r][j]);
  }
}

// Sums of R rows and C vectors of channels.
template <int R, int C>
void Dots(long depth, const u8* a, long a_stride, const short* const* b, Sums (*wide)[kVectors]) {
  alignas(64) i32 sums[R * C * 2 * kLanes];
  for (long begin = 0; begin < depth; begin += kSlice) {
    const long end = depth - begin < kSlice ? depth : begin + kSlice;
    const short* slice[C];
    for (int j = 0; j < C; ++j) slice[j] = b[j] + begin * kByteChannels;
    Slice<2 * R, C>((end - begin) / 2, a + 2 * begin, 2 * depth, a_stride, slice, sums);
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < C; ++j) {
        const i32* low = sums + (2 * r * C + j) * kLanes;
        Flush(Load(low), Load(low + C * kLanes), begin == 0, &wide[r][j]);
      }
    }
  }
}

template <int R, int C>
void Rows(const WordTile& t, long row, long channel, const short* const* b, const Factors* f,
          const bool* fast) {
  Sums wide[R][kVectors];
  Dots<R, C>(t.depth, t.a + row * t.a_stride, t.a_stride, b, wide);
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < C; ++j) {
      StoreCodes(t, f[j], fast[j], channel + j * kLanes, wide[r][j], nullptr,
                 t.y + (row + r) * t.y_stride);
    }
  }
}

template <int C> void Columns(const WordTile& t, long channel) {
  const short* b[C];
  Factors f[C];
  bool fast[C];
  for (int j = 0; j < C; ++j) {
    const long first = channel + j * kLanes, rest = t.output.channels - first;
    b[j] = WeightsOf(reinterpret_cast<const short*>(t.b), t.depth, first / kLanes);
    long order[kLanes];
    for (long i = 0; i < kLanes; ++i) order[i] = i < rest ? first + i : -1;
    fast[j] = IsFast(t.output, first, rest < kLanes ? rest : kLanes);
    f[j] = MakeFactors(t.output, order, nullptr);
  }
  long row = 0;
  for (; row + kRows <= t.rows; row += kRows) Rows<kRows, C>(t, row, channel, b, f, fast);
  for (; row < t.rows; ++row) Rows<1, C>(t, row, channel, b, f, fast);
}

void TileOf(const WordTile& t) {
  for (long channel = 0; channel < t.output.channels; channel += kVectors * kLanes) {
    if (channel + kLanes < t.output.channels) {
      Columns<2>(t, channel);
    } else {
      Columns<1>(t, channel);
    }
  }
}

#else

// Adds the products of `pairs` pairs, in runs of `kPairs`, of R rows and C vectors of channels.
template <int R, int C, int kPairs>
DEVICE_FN void AddRuns(long pairs, const u8* a, long a_stride, const short* b, V (&sum)[R][C],
                       V (&upper)[R][C]) {
  for (long k = 0; k < pairs; k += kPairs) {
    V run[R][C];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      V w[C];
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) w[j] = Load(b + (2 * (k + p) + j) * kByteChannels);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        int two;
        __builtin_memcpy(&two, a + r * a_stride + 4 * (k + p), 4);
        const V x = Set(two);
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) {
          run[r][j] = p == 0 ? Pairs(x, w[j]) : AddPairs(run[r][j], x, w[j]);
          // GCC would compute products of several pairs first, and spill them.
          asm volatile("" : "+x"(run[r][j]));
        }
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) {
        sum[r][j] = Add(sum[r][j], run[r][j]);
        upper[r][j] = Add(upper[r][j], UpperHalf(run[r][j]));
      }
    }
  }
}

// Sums of R rows and C vectors of channels.
template <int R, int C>
void Dots(long depth, const u8* a, long a_stride, const u8* runs, const short* b,
          Sums (*wide)[kVectors]) {
  V sum[R][C], upper[R][C];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) sum[r][j] = upper[r][j] = Zero();
  }
  for (long k = 0; k < depth; k += kRunDepth, ++runs) {
    const long pairs = (depth - k < kRunDepth ? depth - k : kRunDepth) / 2;
    const u8* from = a + 2 * k;
    const short* w = b + k * kByteChannels;
    if (*runs == 4) {
      AddRuns<R, C, 4>(pairs, from, a_stride, w, sum, upper);
    } else if (*runs == 2) {
      AddRuns<R, C, 2>(pairs, from, a_stride, w, sum, upper);
    } else {
      AddRuns<R, C, 1>(pairs, from, a_stride, w, sum, upper);
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) wide[r][j] = Wide(sum[r][j], upper[r][j]);
  }
}

// C vectors of a block of channels.
template <int C> void BlockOf(const WordTile& t, long channel) {
  const long header = WordHeaderBytes(t.depth);
  const u8* block = t.b + channel / kByteChannels * (header + 2 * kByteChannels * t.depth);
  const WordHeader* h = reinterpret_cast<const WordHeader*>(block);
  const short* b = reinterpret_cast<const short*>(block + header);
  i64 offsets[kByteChannels];
  for (long i = 0; i < kByteChannels; ++i) offsets[i] = 32768 * h->sums[i];
  Factors f[C];
  bool fast[C];
  for (long j = 0; j < C; ++j) {
    const long first = channel + j * kLanes, rest = t.output.channels - first;
    long order[kLanes];
    for (long i = 0; i < kLanes; ++i) order[i] = i < rest ? first + i : -1;
    fast[j] = IsFast(t.output, first, rest < kLanes ? rest : kLanes);
    f[j] = MakeFactors(t.output, order, offsets + j * kLanes);
  }
  for (long row = 0; row < t.rows; row += 2) {
    const u8* a = t.a + row * t.a_stride;
    const long rows = t.rows - row < 2 ? 1 : 2;
    Sums wide[2][kVectors];
    if (rows == 2) {
      Dots<2, C>(t.depth, a, t.a_stride, h->runs, b, wide);
    } else {
      Dots<1, C>(t.depth, a, t.a_stride, h->runs, b, wide);
    }
    for (long r = 0; r < rows; ++r) {
      for (long j = 0; j < C; ++j) {
        StoreCodes(t, f[j], fast[j], channel + j * kLanes, wide[r][j], offsets + j * kLanes,
                   t.y + (row + r) * t.y_stride);
      }
    }
  }
}

void TileOf(const WordTile& t) {
  for (long c = 0; c < t.output.channels; c += kByteChannels) {
    if (c + kLanes < t.output.channels) {
      BlockOf<2>(t, c);
    } else {
      BlockOf<1>(t, c);
    }
  }
}

#endif

// --- Windows of single channels ------------------------------------------------------------------

constexpr long kMostTaps = 64;

// 2 kLanes channels. Pairs of taps are multiplied as codes - 32768, so that the sums of two
// products fit 32 bits, see Wide.
void WindowsOfVector(const WordWindows& w, long channel) {
  const ByteOutput& o = w.output;
  long order[2][kLanes];
  i64 offsets[2][kLanes];
  for (long i = 0; i < 2 * kLanes; ++i) {
    // LowWords has the first four of each eight channels.
    const long half = i / 4 % 2, lane = i / 8 * 4 + i % 4, c = channel + i;
    i64 sum = 0;
    for (long t = 0; t < w.tap_stride; ++t) sum += w.w[t * o.channels + c];
    order[half][lane] = c;
    offsets[half][lane] = 32768 * sum;
  }
  const Factors f[2] = {MakeFactors(o, order[0], offsets[0]), MakeFactors(o, order[1], offsets[1])};
  const V top = Set(static_cast<int>(0x80008000u));
  V weights[kMostTaps];
  for (long t = 0; t < w.tap_stride; t += 2) {
    const short* first = w.w + t * o.channels + channel;
    weights[t] = LowWords(Load(first), Load(first + o.channels));
    weights[t + 1] = HighWords(Load(first), Load(first + o.channels));
  }
  for (long i = 0; i < w.positions; ++i) {
    const u16* const* taps = w.taps + i * w.tap_stride;
    V sum[2] = {Zero(), Zero()}, upper[2] = {Zero(), Zero()};
    for (long t = 0; t < w.tap_stride; t += 2) {
      const V a = Flip(Load(taps[t] + channel), top), b = Flip(Load(taps[t + 1] + channel), top);
      const V p[2] = {Pairs(LowWords(a, b), weights[t]), Pairs(HighWords(a, b), weights[t + 1])};
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        sum[h] = Add(sum[h], p[h]);
        upper[h] = Add(upper[h], UpperHalf(p[h]));
      }
    }
    V codes[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      codes[h] = Codes(Wide(sum[h], upper[h]), f[h]);
    }
    Store(w.y + i * w.y_stride + channel, Packed(codes[0], codes[1]));
  }
}

#endif

#if !defined(__AVX2__)

// Adds the products of a plane of a row with a block of channels.
DEVICE_FN void AddPairs(const u8* plane, const Words* w, Ints* sums) {
  int two;
  __builtin_memcpy(&two, plane, 4);
  const Words x = (Words)Ints{two, two, two, two};
  for (int j = 0; j < kByteChannels / 4; ++j) sums[j] += Pairs(x, w[j]);
}

void TileOf(const WordTile& t) {
  constexpr int kVectors = kByteChannels / 4;
  const ByteOutput& o = t.output;
  for (long channel = 0; channel < o.channels; channel += kByteChannels) {
    const long rest = o.channels - channel, count = rest < kByteChannels ? rest : kByteChannels;
    const u8* b = t.b + channel * 2 * t.depth;
    for (long row = 0; row < t.rows; ++row) {
      const u8* a = t.a + row * t.a_stride;
      i64 sums[kByteChannels] = {};
      for (long begin = 0; begin < t.depth; begin += kSlice) {
        Ints low[kVectors] = {}, high[kVectors] = {};
        const long end = t.depth - begin < kSlice ? t.depth : begin + kSlice;
        for (long k = begin; k < end; k += 2) {
          Words w[kVectors];
          for (int j = 0; j < kVectors; ++j) w[j] = LoadWords(b + (k * kByteChannels + 8 * j) * 2);
          AddPairs(a + 2 * k, w, low);
          AddPairs(a + 2 * (t.depth + k), w, high);
        }
        for (int i = 0; i < kByteChannels; ++i) {
          sums[i] += low[i / 4][i % 4] + i64{256} * high[i / 4][i % 4];
        }
      }
      u16* y = t.y + row * t.y_stride + channel;
      for (long i = 0; i < count; ++i) {
        y[i] = static_cast<u16>(Code(o, sums[i] + o.bias[channel + i], channel + i));
      }
    }
  }
}

#endif

#if defined(__AVX512F__) || !defined(__AVX2__)
void Split(const u16* from, long count, long begin, long end, u16* low, u16* high) {
  for (long i = 0; i < count; ++i) low[begin + i] = static_cast<u16>(from[i] & 255);
  for (long i = 0; i < count; ++i) high[begin + i] = static_cast<u16>(from[i] >> 8);
  for (long i = begin + count; i < end; ++i) low[i] = high[i] = 0;
}
#endif

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)

void CAFFE_JOIN(word_tile_, CAFFE_HOST_LEVEL)(const WordTile& t) { TileOf(t); }

void CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL)(const WordWindows& w) {
  long channel = 0;
#if defined(__AVX2__)
  for (; channel + 2 * kLanes <= w.output.channels; channel += 2 * kLanes) {
    if (w.tap_stride <= kMostTaps && IsFast(w.output, channel, 2 * kLanes)) {
      WindowsOfVector(w, channel);
      continue;
    }
    for (long i = 0; i < w.positions; ++i) WindowsOf(w, i, channel, channel + 2 * kLanes);
  }
#endif
  for (long i = 0; i < w.positions; ++i) WindowsOf(w, i, channel, w.output.channels);
}

void CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL)(const unsigned short* from, long count, long begin,
                                                long end, [[maybe_unused]] long depth, void* row) {
  u16* codes = static_cast<u16*>(row);
#if defined(__AVX512F__) || !defined(__AVX2__)
  Split(from, count, begin, end, codes, codes + depth);
#else
  for (long i = 0; i < count; ++i) codes[begin + i] = static_cast<u16>(from[i] ^ 0x8000);
  for (long i = begin + count; i < end; ++i) codes[i] = 0;
#endif
}

}  // namespace caffe
