// Products of bytes without instructions for them: codes and weights are widened to 16 bits.
#pragma once

namespace caffe {
namespace {

// Four weights of each channel, or the same for four taps: those of even and odd codes.
struct ByteWeights {
  V even, odd;
};

DEVICE_FN ByteWeights MakeByteWeights(V bytes) {
  return {RightWords<8>(LeftWords<8>(bytes)), RightWords<8>(bytes)};
}
DEVICE_FN V EvenCodes(V bytes) { return And(bytes, SetWords(255)); }
DEVICE_FN V OddCodes(V bytes) { return RightUnsignedWords<8>(bytes); }

// sum + the products of four codes and weights.
DEVICE_FN V Dot(V sum, V codes, const ByteWeights& w) {
  return Add(Add(sum, Pairs(EvenCodes(codes), w.even)), Pairs(OddCodes(codes), w.odd));
}

// Rows whose codes are widened, `kWide` at a time. The even codes of a row are followed by the odd
// ones. The pitch keeps rows apart in the first cache.
constexpr long kWideRows = 24, kWide = 512, kWidePitch = 2 * kWide + 64;
// Channels whose sums stay in the first cache.
constexpr long kWideChannels = 256;

// `used` is a multiple of 4.
void Widen(const u8* from, long used, u8* to) {
  constexpr long kBytes = sizeof(V);
  long k = 0;
  for (; k + kBytes <= used; k += kBytes) {
    const V codes = Load(from + k);
    Store(to + k, EvenCodes(codes));
    Store(to + kWide + k, OddCodes(codes));
  }
  for (; k < used; k += 4) {
    u32 four;
    __builtin_memcpy(&four, from + k, 4);
    const u32 even = four & 0xff00ff, odd = four >> 8 & 0xff00ff;
    __builtin_memcpy(to + k, &even, 4);
    __builtin_memcpy(to + kWide + k, &odd, 4);
  }
}

// Products of R rows of widened codes with C vectors of channels, added to `sums` or written. Few
// sums are divided into those of even and of odd codes, so that additions wait less for each other.
template <int R, int C>
void Dots(long used, const u8* x, const signed char* b, bool first, i32* sums) {
  constexpr int kParts = R * C <= 4 ? 2 : 1;
  V c[R][C][kParts];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      for (V& sum : c[r][j]) sum = Zero();
    }
  }
  for (long k = 0; k < used; k += 4, b += 4 * kByteChannels) {
    ByteWeights w[C];
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) w[j] = MakeByteWeights(Load(b + j * 4 * kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const u8* four = x + r * kWidePitch + k;
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) {
        c[r][j][0] = Add(c[r][j][0], Pairs(SetFour(four), w[j].even));
        Keep(c[r][j][0]);
        c[r][j][kParts - 1] = Add(c[r][j][kParts - 1], Pairs(SetFour(four + kWide), w[j].odd));
        Keep(c[r][j][kParts - 1]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      i32* to = sums + r * kWideChannels + j * kLanes;
      V sum = c[r][j][0];
      if (kParts == 2) sum = Add(sum, c[r][j][1]);
      Store(to, first ? sum : Add(sum, Load(to)));
    }
  }
}

// The sums of `channels` channels from `channel` on, of rows that are widened part by part.
void WideSums(const CodeTile& t, long channel, long channels, long row, long rows, long begin,
              long end, i32* sums) {
  alignas(64) u8 x[kWideRows * kWidePitch];
  for (long k = begin; k < end; k += kWide) {
    const long part = end - k < kWide ? end - k : kWide;
    for (long i = 0; i < rows; ++i) {
      Widen(t.a + (row + i) * t.a_stride + k, part, x + i * kWidePitch);
    }
    for (long block = 0; block < channels; block += kByteChannels) {
      const signed char* b =
          static_cast<const signed char*>(t.b) + (channel + block) * t.depth + k * kByteChannels;
      const long rest = channels - block, most = rest < kByteChannels ? rest : kByteChannels;
      ForParts(rows, kTileRows, [&](long first, long count) {
        ForRows<kTileRows>(count, [&](auto r) {
          // Few rows leave registers for all channels of a block.
          constexpr int kVectors = r.value <= 2 ? kBlockVectors : 1;
          const u8* from = x + first * kWidePitch;
          i32* to = sums + first * kWideChannels + block;
          if (most <= kLanes) return Dots<r.value, 1>(part, from, b, k == begin, to);
          for (long c = 0; c < most; c += kVectors * kLanes) {
            Dots<r.value, kVectors>(part, from, b + 4 * c, k == begin, to + c);
          }
        });
      });
    }
  }
}

// Sums of products have 32 bits over this depth: 255 * 128 * 2^15 is below 2^31.
constexpr long kNarrowSlice = 1 << 15;

// Sums of 64 bits.
void DeepTile(const CodeTile& t, long channel, long channels, long row, i32* sums) {
  const ByteOutput& o = t.output;
  i64 wide[kWideChannels] = {};
  for (long k = 0; k < t.used; k += kNarrowSlice) {
    WideSums(t, channel, channels, row, 1, k, t.used - k < kNarrowSlice ? t.used : k + kNarrowSlice,
             sums);
    for (long c = 0; c < channels; ++c) wide[c] += sums[c];
  }
  const long first = row * o.y_stride + channel;
  for (long c = 0; c < channels; ++c) {
    const long at = channel + c;
    const i64 sum = wide[c] + o.bias[at];
    if (o.result == ByteResult::kValues) {
      static_cast<float*>(o.y)[first + c] = sum_value(sum, o.multiplier[at], o.shift[at]);
    } else {
      static_cast<u8*>(o.y)[first + c] = static_cast<u8>(Code(o, sum, at));
    }
  }
}

void ByteTileOf(const CodeTile& t) {
  alignas(64) i32 sums[kWideRows * kWideChannels];
  const ByteOutput& o = t.output;
  const bool deep = t.depth > kNarrowSlice;
  const long most = deep ? 1 : kWideRows;
  for (long channel = 0; channel < o.channels; channel += kWideChannels) {
    const long rest = o.channels - channel, channels = rest < kWideChannels ? rest : kWideChannels;
    TileFactors factors[kWideChannels / kTileChannels];
    for (long c = 0; c < channels; c += kTileChannels) {
      MakeTile(o, channel + c, &factors[c / kTileChannels]);
    }
    ForParts(t.rows, most, [&](long r, long rows) {
      if (deep) return DeepTile(t, channel, channels, r, sums);
      WideSums(t, channel, channels, r, rows, 0, t.used, sums);
      for (long c = 0; c < channels; c += kTileChannels) {
        StoreTile(o, factors[c / kTileChannels], r, rows, sums + c, kWideChannels);
      }
    });
  }
}

}  // namespace
}  // namespace caffe
