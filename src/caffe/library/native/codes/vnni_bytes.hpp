// Products of bytes with AVX512-VNNI, and with AVX512-IFMA for the factors.
#pragma once

namespace caffe {
namespace {

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

// sum + the bits of a * b from 2^52 on. The statement lets processors without the instruction have
// the other functions of this file.
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

// sum * multiplier / 2^shift for shifts of at least 32, rounded half away from zero. A shift of
// more than 63 yields 0, because both shift instructions do.
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

// The codes of a row, as 16 bits. kPositive: no code is below the zero point, as behind ReLU, so
// that sums below 0 count as 0. kBias: the sums have no bias yet.
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

// Stores rows [row, row + rows) of the block of channels that begins at `channel`.
void Store(const ByteOutput& o, long channel, long row, long rows, const i32* sums, long stride) {
  if (!StoreFast(o, channel, row, rows, sums, stride)) {
    StoreOneByOne(o, channel, row, rows, sums, stride);
  }
}

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

// --- Products ------------------------------------------------------------------------------------

// The most rows whose sums with two blocks of channels are in registers.
constexpr int kDotRows = 14;

// Sums of R rows and C blocks of channels, added to `bias`. Another line of `next` is fetched for
// each four products.
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

// --- Windows of single channels ------------------------------------------------------------------

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

// The functions of these instructions, for windows.hpp. kUpper: with AVX512-IFMA.
template <bool kUpper> struct VnniBytes {
  static constexpr auto kStore = &Store;
  static bool FastWindows(const ByteWindows&) { return false; }
  static bool FastWindows(const ByteWindows& w, long channel, long count) {
    return WindowsFast<kUpper>(w, channel, count);
  }
};

}  // namespace
}  // namespace caffe
