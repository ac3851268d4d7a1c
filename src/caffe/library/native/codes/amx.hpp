// Products of codes with AMX. Few rows of bytes are left to vnni_bytes.hpp, which must be read
// before.
#pragma once

namespace caffe {
namespace {

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

struct alignas(64) TileConfig {
  u8 palette = 1, start = 0, reserved[14] = {};
  u16 bytes[16] = {};
  u8 rows[16] = {};
};

// Tiles 0 to 3: sums of 2x2 blocks; 4 and 5: rows of a; 6 and 7: blocks of b. Rows are divided into
// `first` for tiles 0, 1 and 4, and `second` for tiles 2, 3 and 5. `columns` are the bytes of a row
// of a.
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

// Rows of sums between the products and their requantization.
constexpr long kRows = 32;

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

// Tiles 0 to 3: the sums low low, low high, high low, high high (of a and b); 4 and 5: the planes
// of a; 6 and 7: those of b.
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

}  // namespace
}  // namespace caffe
