// Products of codes of 16 bits with AVX512-VNNI, see byte_steps.hpp. Compiled once.
#include <immintrin.h>

#include "caffe/library/native/byte_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/requantize.hpp"
// clang-format on

namespace caffe {
namespace {

constexpr long kLanes = 16;
using V = __m512i;

DEVICE_FN V Load(const void* p) { return _mm512_loadu_si512(p); }
DEVICE_FN V Zero() { return _mm512_setzero_si512(); }
__mmask8 Mask(long count) {
  return static_cast<__mmask8>(count >= 8 ? 255 : count <= 0 ? 0 : (1 << count) - 1);
}

// --- Requantization ------------------------------------------------------------------------------

// For 8 channels: a code is floor(sum * factor + offset). `offset` has the bias, the zero point and
// 0.5.
struct Eight {
  __m512d factor, offset;
  bool small;  // offsets are below 2^34: the rounding errors of a code are below 2^-18
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
  const __m512d most = _mm512_set1_pd(0x1p34);
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

// The lanes without a fraction, which rounding errors may have moved to another code: the only
// ones, since errors are below one unit of the fraction. Other lanes are rounded down to their
// code.
DEVICE_FN unsigned Unsure(V fixed) { return _mm512_cmpeq_epi16_mask(fixed, Zero()) & 0x55555555u; }

// --- Products ------------------------------------------------------------------------------------

constexpr int kScale = 65536;
// The rows of a tile with one block of channels, and with two.
constexpr int kMostRows[2] = {12, 6};
// Rows whose sums of slices stay in the caches.
constexpr long kMostWide = 96;

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

// What rows begin with, in `fours` steps of 4 codes. Windows of an image have `left` steps to the
// end of the first run, and `run` ones in the next runs, which begin `gap` codes after the one
// before.
struct Operand {
  long fours;
  const u8 *words, *bytes;
  long stride;  // of rows: in bytes; of windows: in codes
  long run, left, gap;
};

// The sums of a slice, of R rows and C blocks of channels: for each, the lower and the upper part.
// The products with words are sums modulo 2^32; those with the upper bytes, which begin at
// `starts`, are the upper parts. Their difference has 32 bits.
template <bool kWindows, int R, int C>
__attribute__((noinline)) void Slice(const Operand& a, const u8* const* b, const i32* const* starts,
                                     i32* sums) {
  const u8 *words = a.words, *bytes = a.bytes;
  const long fours = a.fours, stride = a.stride, pitch = kWindows ? 2 * stride : stride;
  long left = a.left;
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
    AddProducts<R, C, false>(words, pitch, b, 3 * k, low);
    AddProducts<R, C, false>(words + 4, pitch, b, 3 * k + 1, low);
    AddProducts<R, C, true>(bytes, stride, b, 3 * k + 2, high);
    words += 8;
    bytes += 4;
    if (kWindows && --left == 0) {
      words += 2 * a.gap;
      bytes += a.gap;
      left = a.run;
    }
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

using SliceFunction = void (*)(const Operand&, const u8* const*, const i32* const*, i32*);
template <bool kWindows>
constexpr SliceFunction kSlices[2][12] = {
    {&Slice<kWindows, 1, 1>, &Slice<kWindows, 2, 1>, &Slice<kWindows, 3, 1>, &Slice<kWindows, 4, 1>,
     &Slice<kWindows, 5, 1>, &Slice<kWindows, 6, 1>, &Slice<kWindows, 7, 1>, &Slice<kWindows, 8, 1>,
     &Slice<kWindows, 9, 1>, &Slice<kWindows, 10, 1>, &Slice<kWindows, 11, 1>,
     &Slice<kWindows, 12, 1>},
    {&Slice<kWindows, 1, 2>, &Slice<kWindows, 2, 2>, &Slice<kWindows, 3, 2>, &Slice<kWindows, 4, 2>,
     &Slice<kWindows, 5, 2>, &Slice<kWindows, 6, 2>}};

// The products of a sum: all after them have weights of 0.
long UsedBy(const WordTile& t) { return t.upper ? t.used : t.depth; }

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
    if (lanes >> i & 1)
      y[c] = static_cast<u16>(Code(o, sums[i] + 32768 * block.header->sums[i] + o.bias[c], c));
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

// Rows of two blocks, or a block and a part of one. The sums of earlier slices are in `wide`, if
// there are any.
void StorePairs(const WordTile& t, long row, long rows, const Block* blocks, const i32* sums,
                const __m512d (*wide)[2]) {
  const ByteOutput& o = t.output;
  const Factors first = blocks[0].factors, second = blocks[1].factors;
  // The four channels of each vector of 128 bits, of both blocks.
  const V order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  // Lanes without a channel have the factor 0 and the fraction 0.5.
  const __mmask32 mask = 0xffffffffu >> (kByteChannels - blocks[1].count);
  V least = _mm512_set1_epi32(-1);
  for (long r = 0; r < rows; ++r) {
    __m512d v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const i32* lower = sums + (2 * r + i / 2) * 2 * kLanes;
      v[i] = Half<kScale>(lower, lower + kLanes, i % 2);
      if (wide) v[i] = _mm512_add_pd(v[i], wide[2 * r + i / 2][i % 2]);
    }
    const V a = Fixed(v[0], v[1], first), b = Fixed(v[2], v[3], second);
    least = _mm512_min_epu16(least, _mm512_min_epu16(a, b));
    const V codes = _mm512_packus_epi32(_mm512_srli_epi32(a, 16), _mm512_srli_epi32(b, 16));
    _mm512_mask_storeu_epi16(t.y + (row + r) * t.y_stride + blocks[0].channel, mask,
                             _mm512_permutexvar_epi64(order, codes));
  }
  if (__builtin_expect(Unsure(least) == 0, 1)) return;
  for (long i = 0; i < 2 * rows; ++i) {
    const i32* lower = sums + i * 2 * kLanes;
    __m512d v[2];
    for (int h = 0; h < 2; ++h) {
      v[h] = Half<kScale>(lower, lower + kLanes, h);
      if (wide) v[h] = _mm512_add_pd(v[h], wide[i][h]);
    }
    StoreRow(o, blocks[i % 2], v[0], v[1], t.y + (row + i / 2) * t.y_stride);
  }
}

// Products [begin, end) of rows of a line, slice number `slice`. The sums of slices are added in
// `wide`.
void Rows(const WordTile& t, long line, long first, long rows, const Block* blocks, int count,
          long slice, long begin, long end, __m512d (*wide)[2]) {
  alignas(64) i32 sums[24 * kLanes];
  const u8* b[2];
  const i32* starts[2];
  for (int j = 0; j < count; ++j) {
    b[j] = blocks[j].weights + 3 * kByteChannels * begin;
    starts[j] = blocks[j].header->starts[slice];
  }
  Operand a{};
  a.fours = (end - begin) / 4;
  a.stride = t.a_stride;
  if (t.upper) {
    const long run = t.used / t.runs, in = begin % run;
    const long from = line * t.line_stride + first * t.a_stride + begin / run * t.run_stride + in;
    a.words = t.a + 2 * from;
    a.bytes = t.upper + from;
    a.run = run / 4;
    a.left = (run - in) / 4;
    a.gap = t.run_stride - run;
    kSlices<true>[count - 1][rows - 1](a, b, starts, sums);
  } else {
    const u8* words = t.a + first * t.a_stride;
    a.words = words + 2 * begin;
    a.bytes = words + 2 * t.depth + begin;
    kSlices<false>[count - 1][rows - 1](a, b, starts, sums);
  }
  const long row = line * t.rows + first;
  const bool last = end == UsedBy(t);
  if (last && count == 2 && blocks[0].factors.fast && blocks[1].factors.fast) {
    return StorePairs(t, row, rows, blocks, sums, begin > 0 ? wide : nullptr);
  }
  for (long i = 0; i < rows * count; ++i) {
    const i32* lower = sums + i * 2 * kLanes;
    __m512d v[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      v[h] = Half<kScale>(lower, lower + kLanes, h);
      if (begin > 0) v[h] = _mm512_add_pd(v[h], wide[i][h]);
      if (!last) wide[i][h] = v[h];
    }
    if (!last) continue;
    StoreRow(t.output, blocks[i % count], v[0], v[1], t.y + (row + i / count) * t.y_stride);
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
      w.y[i * w.y_stride + c] = static_cast<u16>(Code(w.output, sum, c));
    }
  }
}

// Whether the weights of two taps, from `tap` on, are 0: taps are rounded up.
bool HasNoWeights(const WordWindows& w, long tap) {
  for (long i = 0; i < 2 * w.output.channels; ++i) {
    if (w.w[tap * w.output.channels + i] != 0) return false;
  }
  return true;
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

Pair MakePair(V words) {
  // A weight of 32767 is 256 * 127 + 255.
  const V upper = _mm512_adds_epi16(words, _mm512_set1_epi16(128));
  return {words, _mm512_srai_epi16(upper, 8)};
}

// The requantization of kVector channels in this order. `sums` of their weights have the order,
// too.
struct VectorFactors {
  Factors f[2];
  bool fast;
};

VectorFactors MakeVectorFactors(const ByteOutput& o, long channel, const V* sums) {
  alignas(64) i32 ordered[2][kLanes];
  _mm512_store_si512(ordered[0], sums[0]);
  _mm512_store_si512(ordered[1], sums[1]);
  const auto four = [&ordered](int half, int i) {
    const i32* p = ordered[half] + 4 * i;
    return _mm256_cvtepi32_epi64(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  };
  Eight e[4];
  for (int i = 0; i < 4; ++i) {
    const V eight = _mm512_inserti64x4(_mm512_castsi256_si512(four(0, i)), four(1, i), 1);
    e[i] = MakeEight(o, channel + 8 * i, 8, eight);
  }
  const auto low = [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0x44); };
  const auto high = [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0xee); };
  VectorFactors v;
  v.f[0] = MakeFactors(o, low(e[0].factor, e[1].factor), low(e[2].factor, e[3].factor),
                       low(e[0].offset, e[1].offset), low(e[2].offset, e[3].offset), true);
  v.f[1] = MakeFactors(o, high(e[0].factor, e[1].factor), high(e[2].factor, e[3].factor),
                       high(e[0].offset, e[1].offset), high(e[2].offset, e[3].offset), true);
  v.fast = v.f[0].fast && e[0].small && e[1].small && e[2].small && e[3].small;
  return v;
}

// Sums are 256 times those of the products with upper bytes, plus 32 bits. Returns the same as
// Unsure.
DEVICE_FN unsigned StoreVector(const V* sum, const V* upper, const VectorFactors& v, u16* y) {
  alignas(64) i32 parts[2][2][kLanes];
  V fixed[2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    _mm512_store_si512(parts[h][0], _mm512_sub_epi32(sum[h], _mm512_slli_epi32(upper[h], 8)));
    _mm512_store_si512(parts[h][1], upper[h]);
    fixed[h] = Fixed(Half<256>(parts[h][0], parts[h][1], 0), Half<256>(parts[h][0], parts[h][1], 1),
                     v.f[h]);
  }
  _mm512_storeu_si512(
      y, _mm512_packus_epi32(_mm512_srli_epi32(fixed[0], 16), _mm512_srli_epi32(fixed[1], 16)));
  return Unsure(_mm512_min_epu16(fixed[0], fixed[1]));
}

template <int kPairs> void WindowsOfVector(const WordWindows& w, long channel, long pairs) {
  const ByteOutput& o = w.output;
  if (kPairs > 0) pairs = kPairs;
  Pair weights[2][kMostTaps / 2];
  V sums[2] = {Zero(), Zero()};
  for (long p = 0; p < pairs; ++p) {
    const short* first = w.w + 2 * p * o.channels + channel;
    V words[2];
    Interleave(Load(first), Load(first + o.channels), words);
    for (int h = 0; h < 2; ++h) {
      weights[h][p] = MakePair(words[h]);
      sums[h] = _mm512_dpwssd_epi32(sums[h], words[h], _mm512_set1_epi16(1));
    }
  }
  const VectorFactors v = MakeVectorFactors(o, channel, sums);
  if (!v.fast) return WindowsSlowly(w, channel, channel + kVector);
  const V top = _mm512_set1_epi16(static_cast<short>(0x8000));
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
    u16* y = w.y + i * w.y_stride;
    if (__builtin_expect(StoreVector(sum, upper, v, y + channel) != 0, 0)) {
      WordWindows position = w;
      position.positions = 1;
      position.taps = taps;
      position.y = y;
      WindowsSlowly(position, channel, channel + kVector);
    }
  }
}

// --- Lines of windows of 3x3 ---------------------------------------------------------------------

constexpr long kLinePairs = 5;

// The weights of a window: rows 0 and 1 of its columns; row 2 of columns 0 and 1; row 2 of column
// 2.
void LinePairs(const WordLines& w, long channel, Pair (*weights)[kLinePairs], V* sums) {
  constexpr long kTaps[kLinePairs][2] = {{0, 1}, {4, 5}, {8, 9}, {2, 6}, {10, 11}};
  for (long p = 0; p < kLinePairs; ++p) {
    V words[2];
    const short* at = w.w + channel;
    Interleave(Load(at + kTaps[p][0] * w.output.channels),
               Load(at + kTaps[p][1] * w.output.channels), words);
    for (int h = 0; h < 2; ++h) {
      weights[h][p] = MakePair(words[h]);
      sums[h] = _mm512_dpwssd_epi32(sums[h], words[h], _mm512_set1_epi16(1));
    }
  }
}

// kVector channels of the window at x, with integers.
void LineSlowly(const WordLines& w, long channel, const short* x, u16* y) {
  const ByteOutput& o = w.output;
  for (long c = channel; c < channel + kVector; ++c) {
    i64 sum = o.bias[c];
    for (long t = 0; t < 9; ++t) {
      const i32 code = x[t % 3 * w.pitch + t / 3 * o.channels + c] + 32768;
      sum += static_cast<i64>(code) * w.w[(t / 3 * 4 + t % 3) * o.channels + c];
    }
    y[c] = static_cast<u16>(Code(o, sum, c));
  }
}

template <int kStride>
void LineOf(const WordLines& w, long channel, const Pair (*weights)[kLinePairs],
            const VectorFactors& v, const short* line, u16* y) {
  const long next = w.output.channels;
  // Rows 0 and 1 of a column; rows 2 of a column and the next one.
  struct Column {
    V upper[2], lower[2];
  };
  const auto read = [&w, next](const short* x, Column& column) {
    Interleave(Load(x), Load(x + w.pitch), column.upper);
    const short* last = x + 2 * w.pitch;
    Interleave(Load(last), Load(last + next), column.lower);
  };
  Column a, b, c;
  const short* x = line + channel;
  read(x, a);
  if (kStride == 1) read(x + next, b);
  for (long i = 0; i < w.width; ++i, x += kStride * next, y += w.y_stride) {
    if (kStride == 2) Interleave(Load(x + next), Load(x + next + w.pitch), b.upper);
    read(x + 2 * next, c);
    V sum[2], upper[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const V pairs[kLinePairs] = {a.upper[h], b.upper[h], c.upper[h], a.lower[h], c.lower[h]};
      sum[h] = upper[h] = Zero();
#pragma GCC unroll 5
      for (int p = 0; p < kLinePairs; ++p) {
        sum[h] = _mm512_dpwssd_epi32(sum[h], pairs[p], weights[h][p].words);
        upper[h] = _mm512_dpwssd_epi32(upper[h], pairs[p], weights[h][p].upper);
      }
    }
    if (__builtin_expect(StoreVector(sum, upper, v, y + channel) != 0, 0)) {
      LineSlowly(w, channel, x - channel, y);
    }
    if (kStride == 1) {
      a = b;
      b = c;
    } else {
      a = c;
    }
  }
}

}  // namespace

void word_tile_vnni(const WordTile& t) {
  const long used = UsedBy(t);
  // Lines whose sums stay in the caches together.
  const long group = t.rows > 0 && t.rows < kMostWide ? kMostWide / t.rows : 1;
  for (long channel = 0; channel < t.output.channels; channel += 2 * kByteChannels) {
    const int count = channel + kByteChannels < t.output.channels ? 2 : 1;
    Block blocks[2];
    for (int j = 0; j < count; ++j) blocks[j] = MakeBlock(t, channel + j * kByteChannels);
    for (long line = 0; line < t.lines; line += group) {
      const long lines = t.lines - line < group ? t.lines - line : group;
      for (long first = 0; first < t.rows; first += kMostWide) {
        const long all = t.rows - first < kMostWide ? t.rows - first : kMostWide;
        __m512d wide[2 * kMostWide][2];
        // Tiles of about the same number of rows.
        const long most = kMostRows[count - 1], tiles = (all + most - 1) / most;
        const long slice = blocks[0].header->slice;
        // The weights of a slice stay in the first cache.
        for (long begin = 0, s = 0; begin < used; begin += slice, ++s) {
          const long end = used - begin < slice ? used : begin + slice;
          for (long i = 0; i < lines * tiles; ++i) {
            const long l = i / tiles, tile = i % tiles;
            const long row = tile * all / tiles, rows = (tile + 1) * all / tiles - row;
            Rows(t, line + l, first + row, rows, blocks, count, s, begin, end,
                 wide + (l * all + row) * count);
          }
        }
      }
    }
  }
}

void word_windows_vnni(const WordWindows& w) {
  long channel = 0;
  long taps = w.tap_stride;
  while (taps > 2 && HasNoWeights(w, taps - 2)) taps -= 2;
  for (; channel + kVector <= w.output.channels; channel += kVector) {
    if (taps > kMostTaps) {
      WindowsSlowly(w, channel, channel + kVector);
    } else if (taps == 10) {
      WindowsOfVector<5>(w, channel, 5);  // of 3x3 taps
    } else {
      WindowsOfVector<0>(w, channel, taps / 2);
    }
  }
  WindowsSlowly(w, channel, w.output.channels);
}

bool word_lines_vnni(const WordLines& w) {
  if (w.output.channels % kVector != 0) return false;
  for (long channel = 0; channel < w.output.channels; channel += kVector) {
    Pair weights[2][kLinePairs];
    V sums[2] = {Zero(), Zero()};
    LinePairs(w, channel, weights, sums);
    const VectorFactors v = MakeVectorFactors(w.output, channel, sums);
    if (!v.fast) return false;
    for (long i = 0; i < w.lines; ++i) {
      const short* line = w.x + i * w.line_stride;
      u16* y = w.y + i * w.width * w.y_stride;
      if (w.stride == 1) {
        LineOf<1>(w, channel, weights, v, line, y);
      } else {
        LineOf<2>(w, channel, weights, v, line, y);
      }
    }
  }
  return true;
}

void split_words_vnni(const unsigned short* from, long count, long begin, long end, long depth,
                      void* row) {
  u16* words = static_cast<u16*>(row) + begin;
  u8* bytes = static_cast<u8*>(row) + 2 * depth + begin;
  const V top = _mm512_set1_epi16(static_cast<short>(0x8000));
  long i = 0;
  for (; i + kVector <= count; i += kVector) {
    const V v = Load(from + i);
    _mm512_storeu_si512(words + i, _mm512_xor_si512(v, top));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + i),
                        _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
  }
  if (i < count) {
    const __mmask32 mask = (1u << (count - i)) - 1;
    const V v = _mm512_maskz_loadu_epi16(mask, from + i);
    _mm512_mask_storeu_epi16(words + i, mask, _mm512_xor_si512(v, top));
    _mm256_mask_storeu_epi8(bytes + i, mask, _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
  }
  for (i = count; i < end - begin; ++i) {
    words[i] = 0;
    bytes[i] = 0;
  }
}

void split_words_amx(const unsigned short* from, long count, long begin, long end, long depth,
                     void* row) {
  u8 *low = static_cast<u8*>(row), *high = low + depth;
  for (long i = 0; i < count; ++i) low[begin + i] = static_cast<u8>(from[i] & 255);
  for (long i = 0; i < count; ++i) high[begin + i] = static_cast<u8>(from[i] >> 8);
  for (long i = begin + count; i < end; ++i) low[i] = high[i] = 0;
}

}  // namespace caffe
