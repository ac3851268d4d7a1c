// Products of codes with AMX. Few rows of bytes are left to vnni_bytes.hpp.
#pragma once

namespace caffe {
namespace {

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
void MatrixRows(const CodeTile& t, long begin, long end, long rows, i32* sums) {
  const long first = rows > 16 ? (rows + 1) / 2 : rows, second = rows - first;
  Configure(first, second, t.used < kByteDepth ? t.used : kByteDepth);
  for (long c = 0; c < t.output.channels; c += kColumns) {
    const bool two = c + kByteChannels < t.output.channels;
    const signed char* b = static_cast<const signed char*>(t.b) + c * t.depth;
    TileFactors factors;
    MakeTile(t.output, c, &factors);
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
      StoreTile(t.output, factors, r, rows, sums, kColumns);
    }
  }
}

// Rows that are so few that a tile would be almost empty are multiplied one by one.
constexpr long kFewRows = 3;

void MatrixTileOf(const CodeTile& t) {
  if (t.rows < kFewRows) return ByteTileOf<Upper<true>>(t);
  alignas(64) i32 sums[kRows * kColumns];
  const long whole = t.rows / kRows * kRows;
  if (whole > 0) MatrixRows(t, 0, whole, kRows, sums);
  if (whole < t.rows) MatrixRows(t, whole, t.rows, t.rows - whole, sums);
}

// The sums of words of the four sums of products of bytes. Those of two bytes without a sign have
// none.
DEVICE_FN V WordSum(V low_low, V low_high, V high_low, V high_high) {
  const V low = Add64(ProductU(low_low, Set64(1)), ProductU(high_low, Set64(256)));
  const V high = Add64(Product(low_high, Set64(256)), Product(high_high, Set64(65536)));
  return Add64(low, high);
}

void StoreWords(const CodeTile& t, long channel, long row, long rows, const i32* sums) {
  constexpr long kPart = 16 * kByteChannels;
  WordChannels channels;
  MakeChannels(t.output, channel, nullptr, &channels);
  for (long i = 0; i < rows; ++i, sums += kByteChannels) {
    const V a = Load(sums), b = Load(sums + kPart), c = Load(sums + 2 * kPart);
    const V d = Load(sums + 3 * kPart);
    const Sums both{WordSum(a, b, c, d), WordSum(Odd(a), Odd(b), Odd(c), Odd(d))};
    StoreWords(t.output, channels, both, row + i);
  }
}

// Tiles 0 to 3: the sums low low, low high, high low, high high (of a and b); 4 and 5: the planes
// of a; 6 and 7: those of b.
void MatrixWordTileOf(const CodeTile& t) {
  constexpr long kPart = 16 * kByteChannels;
  alignas(64) i32 sums[4 * kPart];
  for (long r = 0; r < t.rows; r += 16) {
    const long rows = t.rows - r < 16 ? t.rows - r : 16;
    if (r == 0 || rows < 16) ConfigureWords(rows);
    const u8* a = t.a + r * t.a_stride;
    for (long c = 0; c < t.output.channels; c += kByteChannels) {
      const u8* b = static_cast<const u8*>(t.b) + 2 * c * t.depth;
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

// The low bytes of codes, and behind them the high ones.
void SplitBytes(const u16* from, long count, long begin, long end, long depth, void* row) {
  u8 *low = static_cast<u8*>(row), *high = low + depth;
  for (long i = 0; i < count; ++i) low[begin + i] = static_cast<u8>(from[i] & 255);
  for (long i = 0; i < count; ++i) high[begin + i] = static_cast<u8>(from[i] >> 8);
  for (long i = begin + count; i < end; ++i) low[i] = high[i] = 0;
}

void EndMatrix() { _tile_release(); }

}  // namespace
}  // namespace caffe
