// The codes of 8 bits of sums of 32 bits, vector by vector: those of math/requantize.h. F: Factors,
// or others that a set of instructions has.
#pragma once

namespace caffe {
namespace {

// Factors of a vector of channels, for shifts of at least 32. Even and odd channels are multiplied
// separately, in 64 bits.
struct Factors {
  V even, odd, even_shift, odd_shift, even_half, odd_half;
};

void MakeFactors(V multiplier, V shift, Factors* f) {
  const V one = Set64(1);
  // A shift of more than 63 yields 0, and so does 63.
  shift = Between(shift, Set(32), Set(63));
  f->even = multiplier;
  f->odd = Odd(multiplier);
  f->even_shift = Even(shift);
  f->odd_shift = Odd(shift);
  f->even_half = Left64(one, Sub64(f->even_shift, one));
  f->odd_half = Left64(one, Sub64(f->odd_shift, one));
}

// a * multiplier / 2^shift, rounded half up.
DEVICE_FN V Magnitude(V a, const Factors& f) {
  const V even = Right64(Add64(ProductU(a, f.even), f.even_half), f.even_shift);
  const V odd = Right64(Add64(ProductU(Odd(a), f.odd), f.odd_half), f.odd_shift);
  return Join(even, odd);
}

// Rounded half away from zero.
template <class F> DEVICE_FN V Requantized(V sum, const F& f) {
  return WithSign(Magnitude(Abs(sum), f), sum);
}

bool IsFast(const ByteOutput& o, long channel, long count) {
  if (o.result != ByteResult::kCodes) return false;
  int least = 63;
  for (long c = channel; c < channel + count; ++c) least = o.shift[c] < least ? o.shift[c] : least;
  return !o.negative_multiplier && least >= 32;
}

// The factors of all channels: call(factors) with a value of their type.
struct Plain {
  template <class Call> static void With(const ByteOutput&, long, long, const Call& call) {
    call(Factors{});
  }
};

// The requantization of N vectors of channels.
template <class F, int N> struct ChannelFactors {
  F f[N];
  V bias[N], zero, lowest, highest;
};

template <class F, int N>
DEVICE_FN void MakeChannels(const ByteOutput& o, const int* multiplier, const int* shift,
                            const long* bias, long count, ChannelFactors<F, N>* c) {
  for (int j = 0; j < N; ++j) {
    const long at = j * kLanes, rest = count - at;
    MakeFactors(LoadSome(multiplier + at, rest, 0), LoadSome(shift + at, rest, 32), &c->f[j]);
    c->bias[j] = LoadSome(bias + at, rest, 0);
  }
  c->zero = SetWords(o.zero_y);
  c->lowest = SetWords(o.lowest);
  c->highest = SetWords(o.highest);
}

// The `count` channels from `channel` on.
template <class F, int N>
void MakeChannels(const ByteOutput& o, long channel, long count, ChannelFactors<F, N>* c) {
  MakeChannels(o, o.multiplier + channel, o.shift + channel, o.bias + channel, count, c);
}

// The codes of four vectors. kPositive: no code is below the zero point, as behind ReLU, so that
// sums below 0 count as 0. kBias: the sums have no bias yet.
template <bool kPositive, bool kBias, class F, int N>
DEVICE_FN V Codes(const V* sums, const ChannelFactors<F, N>& c) {
  V v[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const V sum = kBias ? Add(sums[q], c.bias[q % N]) : sums[q];
    v[q] = kPositive ? Magnitude(Most(sum, Zero()), c.f[q % N]) : Requantized(sum, c.f[q % N]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 4; h += 2) {
    // Saturation keeps values beyond the codes.
    v[h] = AddSaturated(PackedWords(v[h], v[h + 1]), c.zero);
    v[h] = BetweenWords(v[h], c.lowest, c.highest);
  }
  return PackedBytes(v[0], v[2]);
}

// Stores rows [row, row + rows) of N vectors of channels, or the first `count` channels of them.
template <bool kWhole, bool kPositive, bool kBias, class F, int N>
void StoreRows(const ByteOutput& o, const ChannelFactors<F, N>& c, long channel, long count,
               long row, long rows, const i32* sums, long stride) {
  constexpr long kRows = 4 / N, kBytes = N * kLanes;
  if (kWhole) count = kBytes;
  for (long i = 0; i < rows; i += kRows) {
    u8* y[kRows];
    V v[4];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const long at = i + r < rows ? i + r : i;
      y[r] = static_cast<u8*>(o.y) + (row + at) * o.y_stride + channel;
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) v[r * N + j] = Load(sums + at * stride + j * kLanes);
    }
    const V codes = Ordered(Codes<kPositive, kBias>(v, c));
    // Rows that are not there are the first one again, which is stored last.
    if constexpr (kRows == 4) {
      StorePart<kBytes, 3>(y[3], codes, count);
      StorePart<kBytes, 2>(y[2], codes, count);
    }
    if constexpr (kRows >= 2) StorePart<kBytes, 1>(y[1], codes, count);
    StorePart<kBytes, 0>(y[0], codes, count);
  }
}

template <bool kBias, class F, int N>
void StoreRows(const ByteOutput& o, const ChannelFactors<F, N>& c, long channel, long count,
               long row, long rows, const i32* sums, long stride) {
  const auto store = [&](auto whole) {
    constexpr bool kWhole = whole.value != 0;
    o.lowest >= o.zero_y
        ? StoreRows<kWhole, true, kBias>(o, c, channel, count, row, rows, sums, stride)
        : StoreRows<kWhole, false, kBias>(o, c, channel, count, row, rows, sums, stride);
  };
  count >= N* kLanes ? store(Count<1>()) : store(Count<0>());
}

constexpr int kTileVectors = kTileChannels / kLanes;

// The requantization of up to kTileChannels channels from `channel` on, whose sums lack the bias.
struct TileFactors {
  long channel, count;
  bool fast;
  ChannelFactors<Factors, kTileVectors> all;
  ChannelFactors<Factors, kTileVectors / 2> half;  // of up to half as many channels
};

DEVICE_FN void MakeTile(const ByteOutput& o, long channel, TileFactors* f) {
  const long rest = o.channels - channel;
  f->channel = channel;
  f->count = rest < kTileChannels ? rest : kTileChannels;
  f->fast = IsFast(o, channel, f->count);
  if (!f->fast) return;
  if (f->count > kTileChannels / 2) {
    MakeChannels(o, channel, f->count, &f->all);
  } else {
    MakeChannels(o, channel, f->count, &f->half);
  }
}

void StoreTile(const ByteOutput& o, const TileFactors& f, long row, long rows, const i32* sums,
               long stride) {
  if (!f.fast) {
    StoreOneByOne(o, f.channel, f.count, row, rows, sums, stride);
  } else if (f.count > kTileChannels / 2) {
    StoreRows<true>(o, f.all, f.channel, f.count, row, rows, sums, stride);
  } else {
    StoreRows<true>(o, f.half, f.channel, f.count, row, rows, sums, stride);
  }
}

}  // namespace
}  // namespace caffe
