// Products of words as kWordParts, see byte_steps.hpp, with AVX512-VNNI.
#pragma once

namespace caffe {
namespace {

// --- Requantization ------------------------------------------------------------------------------

// The requantization of 16 lanes: a code is floor(sum * factor + offset). `offset` has the bias,
// the zero point and 0.5. If it is below 2^34, the rounding errors of a code are below 2^-18.
struct DoubleFactors {
  __m512d factor[2], offset[2], lowest, highest;
  bool fast;
};

// For half of the lanes. `sums` of the weights count 32768 times.
DEVICE_FN void MakeHalf(const ByteOutput& o, __m256i multiplier, __m256i shift, V bias, V sums,
                        int half, DoubleFactors* f) {
  // All sums are 0 or beyond the codes already.
  V n = _mm512_cvtepi32_epi64(shift);
  n = _mm512_max_epi64(_mm512_min_epi64(n, Set64(200)), Set64(-200));
  const V power = _mm512_slli_epi64(Sub64(Set64(1023), n), 52);
  const __m512d all = _mm512_cvtepi64_pd(Add64(bias, _mm512_slli_epi64(sums, 15)));
  f->factor[half] = _mm512_mul_pd(_mm512_cvtepi32_pd(multiplier), _mm512_castsi512_pd(power));
  f->offset[half] = _mm512_fmadd_pd(all, f->factor[half], _mm512_set1_pd(o.zero_y + 0.5));
  const __m512d magnitude = _mm512_abs_pd(f->offset[half]), most = _mm512_set1_pd(0x1p34);
  if (_mm512_cmp_pd_mask(magnitude, most, _CMP_NLT_UQ) != 0) f->fast = false;
}

DEVICE_FN void SetBounds(const ByteOutput& o, DoubleFactors* f) {
  f->lowest = _mm512_set1_pd(o.lowest + 0.5);
  f->highest = _mm512_set1_pd(o.highest + 0.5);
  f->fast = !o.negative_multiplier;
}

// Lane i is channel order[i].
DEVICE_FN void MakeFactors(const ByteOutput& o, const long* order, const long* sums,
                           DoubleFactors* f) {
  SetBounds(o, f);
  for (int h = 0; h < 2; ++h) {
    const V at = Load(order + 8 * h);
    MakeHalf(o, _mm512_i64gather_epi32(at, o.multiplier, 4), _mm512_i64gather_epi32(at, o.shift, 4),
             _mm512_i64gather_epi64(at, o.bias, 8), Load(sums + 8 * h), h, f);
  }
}

// Sums are upper * kScale + lower. Half `half` of 16 of them, which a double holds exactly.
template <int kScale> DEVICE_FN __m512d Half(const i32* lower, const i32* upper, int half) {
  const auto eight = [half](const i32* p) {
    return _mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(p + 8 * half)));
  };
  return _mm512_fmadd_pd(eight(upper), _mm512_set1_pd(kScale), eight(lower));
}

// Half of the sums number i, and of those of earlier slices in `wide`.
DEVICE_FN __m512d SumOf(const i32* sums, long i, int half, const __m512d (*wide)[2]) {
  const i32* lower = sums + i * 2 * kLanes;
  const __m512d v = Half<65536>(lower, lower + kLanes, half);
  return wide ? _mm512_add_pd(v, wide[i][half]) : v;
}

// Codes with 16 bits of fraction.
DEVICE_FN V Fixed(__m512d first, __m512d second, const DoubleFactors& f) {
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

// The codes of both.
DEVICE_FN V Upper16(V low, V high) {
  return PackedUnsigned(_mm512_srli_epi32(low, 16), _mm512_srli_epi32(high, 16));
}

// The lanes without a fraction, which rounding errors may have moved to another code: the only
// ones, since errors are below one unit of the fraction. Other lanes are rounded down to their
// code.
DEVICE_FN unsigned Unsure(V fixed) { return _mm512_cmpeq_epi16_mask(fixed, Zero()) & 0x55555555u; }

// --- Products ------------------------------------------------------------------------------------

// The rows of a tile with one block of channels, and with two.
constexpr int kMostRows[2] = {12, 6};
// Rows whose sums of slices stay in the caches.
constexpr long kMostWide = 96;

// The codes that rows begin with, in `fours` steps of 4 codes. Windows of an image have `left`
// steps to the end of the first run, and `run` ones in the next runs, which begin `gap` codes after
// the one before.
struct Operand {
  long fours;
  const u8 *words, *bytes;
  long stride;  // of rows: in bytes; of windows: in codes
  long run, left, gap;
};

// Adds two products of words, or four of bytes, with a vector of weights of each block.
template <bool kOfBytes, int R, int C>
DEVICE_FN void AddProducts(const u8* a, long stride, const u8* const* b, long vector,
                           V (&sum)[R][C]) {
  V w[C];
#pragma GCC unroll 2
  for (int j = 0; j < C; ++j) w[j] = Load(b[j] + 64 * vector);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const V x = SetFour(a + r * stride);
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
      sum[r][j] = kOfBytes ? Dot(sum[r][j], x, w[j]) : _mm512_dpwssd_epi32(sum[r][j], x, w[j]);
      Keep(sum[r][j]);
    }
  }
}

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
    AddProducts<false>(words, pitch, b, 3 * k, low);
    AddProducts<false>(words + 4, pitch, b, 3 * k + 1, low);
    AddProducts<true>(bytes, stride, b, 3 * k + 2, high);
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
      Store(to, Sub(low[r][j], Left<16>(high[r][j])));
      Store(to + kLanes, high[r][j]);
    }
  }
}

template <bool kWindows>
void Slices(const Operand& a, const u8* const* b, const i32* const* starts, long rows, int blocks,
            i32* sums) {
  if (blocks == 2) {
    ForRows<kMostRows[1]>(rows, [&](auto n) { Slice<kWindows, n.value, 2>(a, b, starts, sums); });
  } else {
    ForRows<kMostRows[0]>(rows, [&](auto n) { Slice<kWindows, n.value, 1>(a, b, starts, sums); });
  }
}

// The products of a sum: all after them have weights of 0.
long UsedBy(const CodeTile& t) { return t.upper ? t.used : t.depth; }

struct Block {
  const WordPartsHeader* header;
  const u8* weights;
  long channel, count;
  DoubleFactors factors;
};

Block MakeBlock(const CodeTile& t, long channel) {
  const long header = WordPartsHeaderBytes(t.depth), rest = t.output.channels - channel;
  Block block;
  const u8* at = static_cast<const u8*>(t.b) +
                 channel / kByteChannels * (header + 3 * kByteChannels * t.depth);
  block.header = reinterpret_cast<const WordPartsHeader*>(at);
  block.weights = at + header;
  block.channel = channel;
  block.count = rest < kByteChannels ? rest : kByteChannels;
  SetBounds(t.output, &block.factors);
  for (int h = 0; h < 2; ++h) {
    const long at = channel + 8 * h, some = block.count - 8 * h;
    const __mmask8 mask = static_cast<__mmask8>(some >= 8 ? 255 : some <= 0 ? 0 : (1 << some) - 1);
    MakeHalf(t.output, _mm256_maskz_loadu_epi32(mask, t.output.multiplier + at),
             _mm256_maskz_loadu_epi32(mask, t.output.shift + at),
             _mm512_maskz_loadu_epi64(mask, t.output.bias + at), Load(block.header->sums + 8 * h),
             h, &block.factors);
  }
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

void StoreRow(const ByteOutput& o, const Block& block, __m512d first, __m512d second, long row) {
  u16* y = static_cast<u16*>(o.y) + row * o.y_stride;
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
void StorePairs(const CodeTile& t, long row, long rows, const Block* blocks, const i32* sums,
                const __m512d (*wide)[2]) {
  const ByteOutput& o = t.output;
  const DoubleFactors first = blocks[0].factors, second = blocks[1].factors;
  // The four channels of each vector of 128 bits, of both blocks.
  const V order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  // Lanes without a channel have the factor 0 and the fraction 0.5.
  const __mmask32 mask = 0xffffffffu >> (kByteChannels - blocks[1].count);
  V least = Set(-1);
  for (long r = 0; r < rows; ++r) {
    __m512d v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = SumOf(sums, 2 * r + i / 2, i % 2, wide);
    }
    const V a = Fixed(v[0], v[1], first), b = Fixed(v[2], v[3], second);
    least = LeastUnsigned(least, LeastUnsigned(a, b));
    _mm512_mask_storeu_epi16(static_cast<u16*>(o.y) + (row + r) * o.y_stride + blocks[0].channel,
                             mask, _mm512_permutexvar_epi64(order, Upper16(a, b)));
  }
  if (__builtin_expect(Unsure(least) == 0, 1)) return;
  for (long i = 0; i < 2 * rows; ++i) {
    StoreRow(o, blocks[i % 2], SumOf(sums, i, 0, wide), SumOf(sums, i, 1, wide), row + i / 2);
  }
}

// Products [begin, end) of rows of a line, slice number `slice`. The sums of slices are added in
// `wide`.
void Rows(const CodeTile& t, long line, long first, long rows, const Block* blocks, int count,
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
    Slices<true>(a, b, starts, rows, count, sums);
  } else {
    const u8* words = t.a + first * t.a_stride;
    a.words = words + 2 * begin;
    a.bytes = words + 2 * t.depth + begin;
    Slices<false>(a, b, starts, rows, count, sums);
  }
  const long row = line * t.rows + first;
  const bool last = end == UsedBy(t);
  const __m512d(*const earlier)[2] = begin > 0 ? wide : nullptr;
  if (last && count == 2 && blocks[0].factors.fast && blocks[1].factors.fast) {
    return StorePairs(t, row, rows, blocks, sums, earlier);
  }
  for (long i = 0; i < rows * count; ++i) {
    const __m512d low = SumOf(sums, i, 0, earlier), high = SumOf(sums, i, 1, earlier);
    wide[i][0] = low;
    wide[i][1] = high;
    if (!last) continue;
    StoreRow(t.output, blocks[i % count], low, high, row + i / count);
  }
}

// --- Windows of single channels, see word_windows.hpp --------------------------------------------

struct PartTaps {
  // Those of two taps, and their upper bytes.
  struct Weights {
    V words, upper;
  };
  using Factors = DoubleFactors;

  static Weights MakeWeights(V words) {
    // A weight of 32767 is 256 * 127 + 255.
    return {words, RightWords<8>(AddSaturated(words, SetWords(128)))};
  }
  DEVICE_FN void Add(V codes, const Weights& weights, V* sum, V* upper) {
    *sum = _mm512_dpwssd_epi32(*sum, codes, weights.words);
    *upper = _mm512_dpwssd_epi32(*upper, codes, weights.upper);
  }
  // Sums are 256 times those of the products with upper bytes, plus 32 bits.
  DEVICE_FN bool StoreCodes(const V* sum, const V* upper, const Factors* f, u16* y) {
    alignas(64) i32 parts[2][2][kLanes];
    V fixed[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      Store(parts[h][0], Sub(sum[h], Left<8>(upper[h])));
      Store(parts[h][1], upper[h]);
      fixed[h] = Fixed(Half<256>(parts[h][0], parts[h][1], 0),
                       Half<256>(parts[h][0], parts[h][1], 1), f[h]);
    }
    Store(y, Upper16(fixed[0], fixed[1]));
    return Unsure(LeastUnsigned(fixed[0], fixed[1])) == 0;
  }
};

// --- Tiles ---------------------------------------------------------------------------------------

void WordTileOf(const CodeTile& t) {
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
        const long slice = blocks[0].header->slice;
        // The weights of a slice stay in the first cache.
        for (long begin = 0, s = 0; begin < used; begin += slice, ++s) {
          const long end = used - begin < slice ? used : begin + slice;
          for (long l = 0; l < lines; ++l) {
            ForParts(all, kMostRows[count - 1], [&](long row, long rows) {
              Rows(t, line + l, first + row, rows, blocks, count, s, begin, end,
                   wide + (l * all + row) * count);
            });
          }
        }
      }
    }
  }
}

// Codes - 32768, and behind them their upper bytes.
void SplitRow(const u16* from, long count, long begin, long end, long depth, void* row) {
  u16* words = static_cast<u16*>(row) + begin;
  u8* bytes = static_cast<u8*>(row) + 2 * depth + begin;
  constexpr long kVector = 2 * kLanes;
  const V top = SetWords(0x8000);
  long i = 0;
  for (; i + kVector <= count; i += kVector) {
    const V v = Load(from + i);
    Store(words + i, Flip(v, top));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + i),
                        _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
  }
  if (i < count) {
    const __mmask32 mask = (1u << (count - i)) - 1;
    const V v = _mm512_maskz_loadu_epi16(mask, from + i);
    _mm512_mask_storeu_epi16(words + i, mask, Flip(v, top));
    _mm256_mask_storeu_epi8(bytes + i, mask, _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
  }
  for (i = count; i < end - begin; ++i) {
    words[i] = 0;
    bytes[i] = 0;
  }
}

}  // namespace
}  // namespace caffe
