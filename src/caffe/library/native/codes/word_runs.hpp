// Products of words as kWords, see byte_steps.hpp: pairs of codes - 32768 and weights.
#pragma once

namespace caffe {
namespace {

// The products behind `sum`, which is their sum modulo 2^32, and `upper`, the sum of their upper
// halves: the difference is the sum of up to 2^16 lower halves without sign.
DEVICE_FN Sums Wide(V sum, V upper) {
  const V half = Set64(65536), one = Set64(1), lower = Sub(sum, Left<16>(upper));
  return {Add64(Product(upper, half), ProductU(lower, one)),
          Add64(Product(Odd(upper), half), Odd(lower))};
}

// Adds the products of `pairs` pairs of R rows and C vectors of channels, in runs of `kPairs`.
template <int kPairs, int R, int C>
DEVICE_FN void AddRuns(long pairs, const u8* a, long a_stride, const u8* b, V (&sum)[R][C],
                       V (&upper)[R][C]) {
  for (long k = 0; k < pairs; k += kPairs) {
    V run[R][C];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      V w[C];
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) w[j] = Load(b + 4 * (kByteChannels * (k + p) + kLanes * j));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const V x = SetFour(a + r * a_stride + 4 * (k + p));
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) {
          const V products = Pairs(x, w[j]);
          run[r][j] = p == 0 ? products : Add(run[r][j], products);
          Keep(run[r][j]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) {
        sum[r][j] = Add(sum[r][j], run[r][j]);
        upper[r][j] = Add(upper[r][j], Right<16>(run[r][j]));
      }
    }
  }
}

// Products [begin, end) of R rows and C vectors of channels, added to `wide`, rows of
// kBlockVectors, or written.
template <int R, int C>
__attribute__((noinline)) void Dots(const CodeTile& t, long begin, long end, const u8* a,
                                    const u8* runs, const u8* b, Sums* wide) {
  V sum[R][C], upper[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) sum[r][j] = upper[r][j] = Zero();
  }
  for (long k = begin; k < end; k += kRunDepth) {
    const long pairs = (end - k < kRunDepth ? end - k : kRunDepth) / 2;
    const u8 *from = a + 2 * k, *w = b + 2 * kByteChannels * k;
    if (runs[k / kRunDepth] == 4) {
      AddRuns<4>(pairs, from, t.a_stride, w, sum, upper);
    } else if (runs[k / kRunDepth] == 2) {
      AddRuns<2>(pairs, from, t.a_stride, w, sum, upper);
    } else {
      AddRuns<1>(pairs, from, t.a_stride, w, sum, upper);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      Sums s = Wide(sum[r][j], upper[r][j]);
      Sums& to = wide[r * kBlockVectors + j];
      if (begin > 0) s = {Add64(s.even, to.even), Add64(s.odd, to.odd)};
      to = s;
    }
  }
}

void WordTileOf(const CodeTile& t) {
  constexpr long kSlice = 1 << 15;        // products of Wide
  constexpr long kFirstCache = 24 << 10;  // bytes of weights
  constexpr int kTwoRowVectors = kBlockVectors < 2 ? 1 : 2;
  const long header = WordHeaderBytes(t.depth), bytes = 2 * kByteChannels * t.depth;
  for (long block = 0; block < t.output.channels; block += kByteChannels) {
    const u8* at = static_cast<const u8*>(t.b) + block / kByteChannels * (header + bytes);
    const WordHeader* h = reinterpret_cast<const WordHeader*>(at);
    WordChannels channels[kBlockVectors];
    long vectors = 0;
    for (; vectors < kBlockVectors && block + vectors * kLanes < t.output.channels; ++vectors) {
      const long first = vectors * kLanes;
      MakeChannels(t.output, block + first, h->sums + first, &channels[vectors]);
    }
    ForParts(t.rows, bytes > kFirstCache ? kRunRows : kFewRunRows, [&](long row, long rows) {
      Sums wide[kRunRows][kBlockVectors];
      ForRows<kRunRows>(rows, [&](auto r) {
        constexpr int kVectors = r.value == 1 ? kBlockVectors : r.value == 2 ? kTwoRowVectors : 1;
        const u8* const a = t.a + row * t.a_stride;
        for (long begin = 0; begin < t.depth; begin += kSlice) {
          const long end = t.depth - begin < kSlice ? t.depth : begin + kSlice;
          if (vectors == 1) Dots<r.value, 1>(t, begin, end, a, h->runs, at + header, wide[0]);
          for (long v = 0; v < vectors && vectors > 1; v += kVectors) {
            Dots<r.value, kVectors>(t, begin, end, a, h->runs, at + header + 4 * kLanes * v,
                                    &wide[0][v]);
          }
        }
      });
      for (long r = 0; r < rows; ++r) {
        for (long v = 0; v < vectors; ++v) {
          StoreWords(t.output, channels[v], wide[r][v], row + r);
        }
      }
    });
  }
}

// For the windows of word_windows.hpp.
struct RunTaps {
  using Weights = V;  // of two taps, in the order of LowWords and HighWords
  using Factors = WordFactors;
  static Weights MakeWeights(V words) { return words; }
  // Adds the products of codes - 32768 of two taps.
  DEVICE_FN void Add(V codes, V weights, V* sum, V* upper) {
    const V products = Pairs(codes, weights);
    *sum = caffe::Add(*sum, products);
    *upper = caffe::Add(*upper, Right<16>(products));
  }
  // Stores two vectors of codes. Returns false if they must be computed one by one.
  DEVICE_FN bool StoreCodes(const V* sum, const V* upper, const Factors* f, u16* y) {
    const V low = Codes(Wide(sum[0], upper[0]), f[0]), high = Codes(Wide(sum[1], upper[1]), f[1]);
    Store(y, PackedUnsigned(low, high));
    return true;
  }
};

// Codes - 32768.
void SplitRow(const u16* from, long count, long begin, long end, long, void* row) {
  u16* codes = static_cast<u16*>(row);
  for (long i = 0; i < count; ++i) codes[begin + i] = static_cast<u16>(from[i] ^ 0x8000);
  for (long i = begin + count; i < end; ++i) codes[i] = 0;
}

}  // namespace
}  // namespace caffe
