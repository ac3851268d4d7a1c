// Products of codes of 16 bits with AVX512-VNNI, see byte_steps.hpp. Compiled once, as v4_bytes.
#include <immintrin.h>

#include "caffe/library/native/byte_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

namespace caffe {
namespace {

#include "math/requantize.h"

constexpr long kLanes = 16;
using V = __m512i;

DEVICE_FN V Load(const void* p) { return _mm512_loadu_si512(p); }
DEVICE_FN V Zero() { return _mm512_setzero_si512(); }
__mmask8 Mask(long count) {
  return static_cast<__mmask8>(count >= 8 ? 255 : count <= 0 ? 0 : (1 << count) - 1);
}

// The code of a sum that includes the bias.
u16 Code(const ByteOutput& o, i64 sum, long channel) {
  const i64 r = o.negative_multiplier
                    ? requantize_slope(sum, o.multiplier[channel], o.shift[channel],
                                       o.negative_multiplier[channel], o.negative_shift[channel])
                    : requantize_i64(sum, o.multiplier[channel], o.shift[channel]);
  const i64 code = r + o.zero_y;
  return static_cast<u16>(code < o.lowest ? o.lowest : code > o.highest ? o.highest : code);
}

// --- Requantization ------------------------------------------------------------------------------

// Of 8 channels: a code is floor(sum * factor + offset). `offset` has the bias, the zero point and 0.5.
struct Eight {
  __m512d factor, offset;
  bool small;  // offsets are below 2^32: the rounding errors of a code are below 2^-19
};

// `sums` of the weights count 32768 times.
Eight MakeEight(const ByteOutput& o, long channel, long count, V sums) {
  const __mmask8 mask = Mask(count);
  const V bias = _mm512_add_epi64(_mm512_maskz_loadu_epi64(mask, o.bias + channel),
                                  _mm512_slli_epi64(sums, 15));
  const __m512d multiplier =
      _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(mask, o.multiplier + channel));
  V shift = _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(mask, o.shift + channel));
  // All sums are 0 or beyond the codes already.
  shift =
      _mm512_max_epi64(_mm512_min_epi64(shift, _mm512_set1_epi64(200)), _mm512_set1_epi64(-200));
  const V exponent = _mm512_slli_epi64(_mm512_sub_epi64(_mm512_set1_epi64(1023), shift), 52);
  Eight e;
  e.factor = _mm512_mul_pd(multiplier, _mm512_castsi512_pd(exponent));
  e.offset = _mm512_fmadd_pd(_mm512_cvtepi64_pd(bias), e.factor, _mm512_set1_pd(o.zero_y + 0.5));
  const __m512d most = _mm512_set1_pd(0x1p32);
  e.small = _mm512_cmp_pd_mask(_mm512_abs_pd(e.offset), most, _CMP_NLT_UQ) == 0;
  return e;
}

// The requantization of 16 lanes.
struct Factors {
  __m512d factor[2], offset[2], lowest, highest;
  bool fast;
};

Factors MakeFactors(const ByteOutput& o, __m512d factor, __m512d more, __m512d offset,
                    __m512d more_offset, bool small) {
  return {{factor, more},
          {offset, more_offset},
          _mm512_set1_pd(o.lowest + 0.5),
          _mm512_set1_pd(o.highest + 0.5),
          small && !o.negative_multiplier};
}

// Sums are upper * kScale + lower. Half `half` of 16 of them, which a double holds exactly.
template <int kScale> DEVICE_FN __m512d Half(const i32* lower, const i32* upper, int half) {
  const auto eight = [half](const i32* p) {
    return _mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(p + 8 * half)));
  };
  return _mm512_fmadd_pd(eight(upper), _mm512_set1_pd(kScale), eight(lower));
}

// Codes with 16 bits of fraction.
DEVICE_FN V Fixed(__m512d first, __m512d second, const Factors& f) {
  // The sum of this and a code has its fraction in the last 16 bits.
  const __m512d point = _mm512_set1_pd(0x1.8p36);
  const V even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  V v[2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    __m512d code = _mm512_fmadd_pd(h == 0 ? first : second, f.factor[h], f.offset[h]);
    code = _mm512_min_pd(_mm512_max_pd(code, f.lowest), f.highest);
    v[h] = _mm512_castpd_si512(_mm512_add_pd(code, point));
  }
  return _mm512_permutex2var_epi32(v[0], even, v[1]);
}

// The lanes without a fraction, which rounding errors may have moved to another code: the only ones,
// since errors are below one unit of the fraction. Other lanes are rounded down to their code.
DEVICE_FN unsigned Unsure(V fixed) { return _mm512_cmpeq_epi16_mask(fixed, Zero()) & 0x55555555u; }

// --- Products ------------------------------------------------------------------------------------

constexpr int kScale = 65536;
// Of a tile with one block of channels, and with two.
constexpr int kMostRows[2] = {12, 6};

// Adds two products of words, or four of bytes, to R x C sums.
template <int R, int C, bool kOfBytes>
DEVICE_FN void AddProducts(const u8* a, long stride, const u8* const* b, long vector,
                           V (&sum)[R][C]) {
  V w[C];
#pragma GCC unroll 2
  for (int j = 0; j < C; ++j) w[j] = Load(b[j] + 64 * vector);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    int four;
    __builtin_memcpy(&four, a + r * stride, 4);
    const V x = _mm512_set1_epi32(four);
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      sum[r][j] = kOfBytes ? _mm512_dpbusd_epi32(sum[r][j], x, w[j])
                           : _mm512_dpwssd_epi32(sum[r][j], x, w[j]);
      // GCC would load several rows first, and spill them.
      asm volatile("" : "+v"(sum[r][j]));
    }
  }
}

// The sums of a slice, of R rows and C blocks of channels: for each, the lower and the upper part.
// The products with words are sums modulo 2^32; those with the upper bytes, which begin at `starts`, are
// the upper parts. Their difference has 32 bits.
template <int R, int C>
__attribute__((noinline)) void Slice(long fours, const u8* words, const u8* bytes, long stride,
                                     const u8* const* b, const i32* const* starts, i32* sums) {
  V low[R][C], high[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      low[r][j] = Zero();
      high[r][j] = Load(starts[j]);
    }
  }
  for (long k = 0; k < fours; ++k) {
    AddProducts<R, C, false>(words + 8 * k, stride, b, 3 * k, low);
    AddProducts<R, C, false>(words + 8 * k + 4, stride, b, 3 * k + 1, low);
    AddProducts<R, C, true>(bytes + 4 * k, stride, b, 3 * k + 2, high);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      i32* to = sums + (r * C + j) * 2 * kLanes;
      const V upper = _mm512_slli_epi32(high[r][j], 16);
      _mm512_store_si512(to, _mm512_sub_epi32(low[r][j], upper));
      _mm512_store_si512(to + kLanes, high[r][j]);
    }
  }
}

using SliceFunction = void (*)(long, const u8*, const u8*, long, const u8* const*,
                               const i32* const*, i32*);
constexpr SliceFunction kSlices[2][12] = {
    {&Slice<1, 1>, &Slice<2, 1>, &Slice<3, 1>, &Slice<4, 1>, &Slice<5, 1>, &Slice<6, 1>,
     &Slice<7, 1>, &Slice<8, 1>, &Slice<9, 1>, &Slice<10, 1>, &Slice<11, 1>, &Slice<12, 1>},
    {&Slice<1, 2>, &Slice<2, 2>, &Slice<3, 2>, &Slice<4, 2>, &Slice<5, 2>, &Slice<6, 2>}};

struct Block {
  const WordPartsHeader* header;
  const u8* weights;
  long channel, count;
  Factors factors;
};

Block MakeBlock(const WordTile& t, long channel) {
  const long header = WordPartsHeaderBytes(t.depth), rest = t.output.channels - channel;
  Block block;
  const u8* at = t.b + channel / kByteChannels * (header + 3 * kByteChannels * t.depth);
  block.header = reinterpret_cast<const WordPartsHeader*>(at);
  block.weights = at + header;
  block.channel = channel;
  block.count = rest < kByteChannels ? rest : kByteChannels;
  const long* sums = block.header->sums;
  const Eight first = MakeEight(t.output, channel, block.count, Load(sums));
  const Eight second = MakeEight(t.output, channel + 8, block.count - 8, Load(sums + 8));
  block.factors = MakeFactors(t.output, first.factor, second.factor, first.offset, second.offset,
                              first.small && second.small);
  return block;
}

// Codes of some lanes of a row, computed with integers.
void StoreSlowly(const ByteOutput& o, const Block& block, __m512d first, __m512d second,
                 unsigned lanes, u16* y) {
  alignas(64) i64 sums[kLanes];
  _mm512_store_si512(sums, _mm512_cvtpd_epi64(first));
  _mm512_store_si512(sums + 8, _mm512_cvtpd_epi64(second));
  for (long i = 0; i < block.count; ++i) {
    const long c = block.channel + i;
    if (lanes >> i & 1) y[c] = Code(o, sums[i] + 32768 * block.header->sums[i] + o.bias[c], c);
  }
}

void StoreRow(const ByteOutput& o, const Block& block, __m512d first, __m512d second, u16* y) {
  if (!block.factors.fast) return StoreSlowly(o, block, first, second, ~0u, y);
  const V fixed = Fixed(first, second, block.factors);
  const __mmask16 mask = static_cast<__mmask16>((1u << block.count) - 1);
  _mm256_mask_storeu_epi16(y + block.channel, mask,
                           _mm512_cvtepi32_epi16(_mm512_srli_epi32(fixed, 16)));
  const unsigned unsure = Unsure(fixed);
  if (__builtin_expect(unsure != 0, 0)) {
    StoreSlowly(o, block, first, second, _pext_u32(unsure, 0x55555555u), y);
  }
}

void Rows(const WordTile& t, long row, long rows, const Block* blocks, int count) {
  alignas(64) i32 sums[24 * kLanes];
  __m512d wide[12][2];
  const long slice = blocks[0].header->slice;
  for (long begin = 0, s = 0; begin < t.depth; begin += slice, ++s) {
    const long end = t.depth - begin < slice ? t.depth : begin + slice;
    const u8* words = t.a + row * t.a_stride;
    const u8* b[2];
    const i32* starts[2];
    for (int j = 0; j < count; ++j) {
      b[j] = blocks[j].weights + 3 * kByteChannels * begin;
      starts[j] = blocks[j].header->starts[s];
    }
    kSlices[count - 1][rows - 1]((end - begin) / 4, words + 2 * begin, words + 2 * t.depth + begin,
                                 t.a_stride, b, starts, sums);
    for (int j = 0; j < count; ++j) {
      for (long r = 0; r < rows; ++r) {
        const long at = r * count + j;
        const i32* lower = sums + at * 2 * kLanes;
        __m512d first = Half<kScale>(lower, lower + kLanes, 0);
        __m512d second = Half<kScale>(lower, lower + kLanes, 1);
        if (begin > 0) {
          first = _mm512_add_pd(first, wide[at][0]);
          second = _mm512_add_pd(second, wide[at][1]);
        }
        if (end == t.depth) {
          StoreRow(t.output, blocks[j], first, second, t.y + (row + r) * t.y_stride);
        } else {
          wide[at][0] = first;
          wide[at][1] = second;
        }
      }
    }
  }
}

// --- Windows of single channels ------------------------------------------------------------------

constexpr long kMostTaps = 64, kVector = 2 * kLanes;

// Channels [begin, end) of all positions.
void WindowsSlowly(const WordWindows& w, long begin, long end) {
  for (long i = 0; i < w.positions; ++i) {
    for (long c = begin; c < end; ++c) {
      i64 sum = w.output.bias[c];
      for (long t = 0; t < w.tap_stride; ++t) {
        // A product has less than 32 bits.
        sum += static_cast<i32>(w.taps[i * w.tap_stride + t][c]) *
               static_cast<i32>(w.w[t * w.output.channels + c]);
      }
      w.y[i * w.y_stride + c] = Code(w.output, sum, c);
    }
  }
}

// The weights of two taps of 16 channels, and their upper bytes.
struct Pair {
  V words, upper;
};

// In the order of the lanes of two vectors that are interleaved: the first four of each eight
// channels, and the others.
void Interleave(V a, V b, V* to) {
  to[0] = _mm512_unpacklo_epi16(a, b);
  to[1] = _mm512_unpackhi_epi16(a, b);
}

// The sums of kVector channels are 256 times those of the products with upper bytes, plus 32 bits.
template <int kPairs> void WindowsOfVector(const WordWindows& w, long channel, long pairs) {
  const ByteOutput& o = w.output;
  if (kPairs > 0) pairs = kPairs;
  Pair weights[2][kMostTaps / 2];
  V sums[2] = {Zero(), Zero()};
  const V half = _mm512_set1_epi16(128), one = _mm512_set1_epi16(1);
  for (long p = 0; p < pairs; ++p) {
    const short* first = w.w + 2 * p * o.channels + channel;
    V words[2];
    Interleave(Load(first), Load(first + o.channels), words);
    for (int h = 0; h < 2; ++h) {
      // A weight of 32767 is 256 * 127 + 255.
      const V upper = _mm512_srai_epi16(_mm512_adds_epi16(words[h], half), 8);
      weights[h][p] = {words[h], upper};
      sums[h] = _mm512_dpwssd_epi32(sums[h], words[h], one);
    }
  }
  // Vectors of 8 channels, and of their first and last halves.
  const auto wide = [](V v, int index) {
    const __m128i four = index == 0   ? _mm512_extracti32x4_epi32(v, 0)
                         : index == 1 ? _mm512_extracti32x4_epi32(v, 1)
                         : index == 2 ? _mm512_extracti32x4_epi32(v, 2)
                                      : _mm512_extracti32x4_epi32(v, 3);
    return _mm256_cvtepi32_epi64(four);
  };
  Eight eights[4];
  for (int i = 0; i < 4; ++i) {
    const V eight =
        _mm512_inserti64x4(_mm512_castsi256_si512(wide(sums[0], i)), wide(sums[1], i), 1);
    eights[i] = MakeEight(o, channel + 8 * i, 8, eight);
  }
  const bool small = eights[0].small && eights[1].small && eights[2].small && eights[3].small;
  if (!small || o.negative_multiplier) return WindowsSlowly(w, channel, channel + kVector);
  const auto low = [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0x44); };
  const auto high = [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0xee); };
  const Factors f[2] = {
      MakeFactors(o, low(eights[0].factor, eights[1].factor),
                  low(eights[2].factor, eights[3].factor), low(eights[0].offset, eights[1].offset),
                  low(eights[2].offset, eights[3].offset), true),
      MakeFactors(o, high(eights[0].factor, eights[1].factor),
                  high(eights[2].factor, eights[3].factor),
                  high(eights[0].offset, eights[1].offset),
                  high(eights[2].offset, eights[3].offset), true)};
  const V top = _mm512_set1_epi16(static_cast<short>(0x8000));
  alignas(64) i32 parts[2][2][kLanes];
  for (long i = 0; i < w.positions; ++i) {
    const u16* const* taps = w.taps + i * w.tap_stride;
    V sum[2] = {Zero(), Zero()}, upper[2] = {Zero(), Zero()};
#pragma GCC unroll 8
    for (long p = 0; p < pairs; ++p) {
      V x[2];
      Interleave(_mm512_xor_si512(Load(taps[2 * p] + channel), top),
                 _mm512_xor_si512(Load(taps[2 * p + 1] + channel), top), x);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        sum[h] = _mm512_dpwssd_epi32(sum[h], x[h], weights[h][p].words);
        upper[h] = _mm512_dpwssd_epi32(upper[h], x[h], weights[h][p].upper);
      }
    }
    V fixed[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      _mm512_store_si512(parts[h][0], _mm512_sub_epi32(sum[h], _mm512_slli_epi32(upper[h], 8)));
      _mm512_store_si512(parts[h][1], upper[h]);
      fixed[h] = Fixed(Half<256>(parts[h][0], parts[h][1], 0),
                       Half<256>(parts[h][0], parts[h][1], 1), f[h]);
    }
    u16* y = w.y + i * w.y_stride + channel;
    _mm512_storeu_si512(
        y, _mm512_packus_epi32(_mm512_srli_epi32(fixed[0], 16), _mm512_srli_epi32(fixed[1], 16)));
    if (__builtin_expect((Unsure(fixed[0]) | Unsure(fixed[1])) != 0, 0)) {
      WordWindows one_position = w;
      one_position.positions = 1;
      one_position.taps = taps;
      one_position.y = w.y + i * w.y_stride;
      WindowsSlowly(one_position, channel, channel + kVector);
    }
  }
}

template <class T> void Split(const u16* from, long count, long depth, T* to) {
  for (long i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] & 255);
  for (long i = 0; i < count; ++i) to[depth + i] = static_cast<T>(from[i] >> 8);
  for (long i = count; i < depth; ++i) to[i] = to[depth + i] = 0;
}

}  // namespace

void word_tile_v4_bytes(const WordTile& t) {
  for (long channel = 0; channel < t.output.channels; channel += 2 * kByteChannels) {
    const int count = channel + kByteChannels < t.output.channels ? 2 : 1;
    Block blocks[2];
    for (int j = 0; j < count; ++j) blocks[j] = MakeBlock(t, channel + j * kByteChannels);
    // Tiles of about the same number of rows.
    const long most = kMostRows[count - 1], tiles = (t.rows + most - 1) / most;
    for (long i = 0; i < tiles; ++i) {
      const long row = i * t.rows / tiles;
      Rows(t, row, (i + 1) * t.rows / tiles - row, blocks, count);
    }
  }
}

void word_windows_v4_bytes(const WordWindows& w) {
  long channel = 0;
  for (; channel + kVector <= w.output.channels; channel += kVector) {
    const long pairs = w.tap_stride / 2;
    if (w.tap_stride > kMostTaps) {
      WindowsSlowly(w, channel, channel + kVector);
    } else {
      WindowsOfVector<0>(w, channel, pairs);
    }
  }
  WindowsSlowly(w, channel, w.output.channels);
}

void split_words_v4_bytes(const unsigned short* from, long count, long depth, void* to) {
  u16* words = static_cast<u16*>(to);
  u8* bytes = static_cast<u8*>(to) + 2 * depth;
  const V top = _mm512_set1_epi16(static_cast<short>(0x8000));
  for (long i = 0; i < depth; i += kVector) {
    const auto mask = [i](long end) {
      return static_cast<__mmask32>(end - i >= kVector ? ~0u
                                    : end <= i         ? 0
                                                       : (1u << (end - i)) - 1);
    };
    const __mmask32 used = mask(count), all = mask(depth);
    const V v = _mm512_maskz_loadu_epi16(used, from + i);
    _mm512_mask_storeu_epi16(words + i, all,
                             _mm512_maskz_mov_epi16(used, _mm512_xor_si512(v, top)));
    _mm256_mask_storeu_epi8(bytes + i, all, _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
  }
}

void split_words_amx(const unsigned short* from, long count, long depth, void* to) {
  Split(from, count, depth, static_cast<u8*>(to));
}

}  // namespace caffe
