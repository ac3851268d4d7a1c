// Products of bytes with AVX2: codes and weights are widened to 16 bits.
#pragma once

namespace caffe {
namespace {

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

// (products + bias) * multiplier / 2^shift for shifts of at least 32, rounded half away from zero.
// A shift of more than 63 yields 0, because both shift instructions do.
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

// The requantization of 16 channels, whose sums are in two vectors: channels 0 to 3 and 8 to 11 of
// them, and the others.
struct Factors {
  long count;
  bool fast;
  Eight first, second;
  __m256i zero, low, high;
};

// The factors of the block that begins at `channel`.
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

void Store(const ByteOutput& o, const Factors& f, long channel, long row, long rows,
           const i32* sums, long stride) {
  if (f.fast) return StoreFast(o, f, channel, row, rows, sums, stride);
  StoreOneByOne(o, channel, row, rows, sums, stride);
}

// --- Products ------------------------------------------------------------------------------------

// Rows whose codes are widened to 16 bits, `kWide` at a time, and those of them that are multiplied
// at once. Their pitch keeps rows apart in the first cache.
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

// Products of R rows of widened codes with 4 V channels, added to `sums` or written. Pairs of
// products are added in 32 bits: a vector holds two sums for each of 4 channels.
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
      // The sums of two vectors, for channels 0 1 4 5 2 3 6 7.
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

void TileOf(const ByteTile& t) {
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

// --- Windows of single channels ------------------------------------------------------------------

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

// The functions of these instructions, for windows.hpp.
struct Avx2Bytes {
  static constexpr auto kStore = &StoreOneByOne;
  static bool FastWindows(const ByteWindows& w) { return WindowsFast(w); }
  static bool FastWindows(const ByteWindows&, long, long) { return false; }
};

}  // namespace
}  // namespace caffe
