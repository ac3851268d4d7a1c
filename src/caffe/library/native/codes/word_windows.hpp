// Windows of a depthwise convolution of words. Set: the products of a set of instructions and their
// requantization, see RunTaps.
#pragma once

namespace caffe {
namespace {

constexpr long kMostWordTaps = 64, kWordWindow = 2 * kLanes;  // channels of two vectors of sums

// Channels [begin, end) of a window with any factors. code(t, c): the code of tap t.
template <class Tap>
void WindowOneByOne(const ByteOutput& o, const void* weights, long taps, long begin, long end,
                    u16* y, const Tap& code) {
  const short* w = static_cast<const short*>(weights);
  for (long c = begin; c < end; ++c) {
    i64 sum = o.bias[c];
    for (long t = 0; t < taps; ++t) {
      // A product has less than 32 bits.
      sum += static_cast<i32>(code(t, c)) * static_cast<i32>(w[t * o.channels + c]);
    }
    y[c] = static_cast<u16>(Code(o, sum, c));
  }
}

void WindowOneByOne(const CodeWindows& w, long position, long begin, long end) {
  const void* const* taps = w.taps + position * w.tap_stride;
  u16* y = static_cast<u16*>(w.output.y) + position * w.output.y_stride;
  WindowOneByOne(w.output, w.w, w.tap_stride, begin, end, y,
                 [taps](long t, long c) { return static_cast<const u16*>(taps[t])[c]; });
}

// Elements of both in turns: the first four of each eight channels, and the others.
DEVICE_FN void Interleave(V a, V b, V* to) {
  to[0] = LowWords(a, b);
  to[1] = HighWords(a, b);
}

// Two vectors of channels in this order: the weights of kPairs pairs of taps, and the factors.
template <class Set, long kPairs> struct WordLanes {
  typename Set::Weights weights[kPairs][2];
  typename Set::Factors factors[2];
  V sums[2] = {Zero(), Zero()};  // of the weights
  bool fast;

  // Pair p are the taps `first` and `second`. It is inlined, because factors whose address a
  // function gets would be read again after each store.
  __attribute__((always_inline)) void SetPair(long p, const short* w, long channels, long first,
                                              long second) {
    V words[2];
    Interleave(Load(w + first * channels), Load(w + second * channels), words);
    for (int h = 0; h < 2; ++h) {
      weights[p][h] = Set::MakeWeights(words[h]);
      sums[h] = Add(sums[h], Pairs(words[h], SetWords(1)));
    }
  }
  // After all pairs.
  __attribute__((always_inline)) void SetFactors(const ByteOutput& o, long channel) {
    for (long h = 0; h < 2; ++h) {
      alignas(64) i32 lanes[kLanes];
      long order[kLanes], all[kLanes];
      Store(lanes, sums[h]);
      for (long i = 0; i < kLanes; ++i) {
        order[i] = channel + i / 4 * 8 + 4 * h + i % 4;
        all[i] = lanes[i];
      }
      MakeFactors(o, order, all, &factors[h]);
    }
    fast = factors[0].fast && factors[1].fast;
  }
};

// Whether the weights of two taps, from `tap` on, are 0: taps are rounded up.
bool HasNoWeights(const CodeWindows& w, long tap) {
  for (long i = 0; i < 2 * w.output.channels; ++i) {
    if (static_cast<const short*>(w.w)[tap * w.output.channels + i] != 0) return false;
  }
  return true;
}

// The channels of two vectors. kPairs: of taps; 0: `pairs`.
template <class Set, int kPairs>
void WindowsOfVector(const CodeWindows& w, long channel, long pairs) {
  if (kPairs > 0) pairs = kPairs;
  WordLanes<Set, kMostWordTaps / 2> lanes;
  for (long p = 0; p < pairs; ++p) {
    lanes.SetPair(p, static_cast<const short*>(w.w) + channel, w.output.channels, 2 * p, 2 * p + 1);
  }
  lanes.SetFactors(w.output, channel);
  const V top = SetWords(0x8000);
  for (long i = 0; i < w.positions; ++i) {
    if (!lanes.fast) {
      WindowOneByOne(w, i, channel, channel + kWordWindow);
      continue;
    }
    const void* const* taps = w.taps + i * w.tap_stride;
    V sum[2] = {Zero(), Zero()}, upper[2] = {Zero(), Zero()};
#pragma GCC unroll 8
    for (long p = 0; p < pairs; ++p) {
      V x[2];
      const auto codes = [&](long t) {
        return Flip(Load(static_cast<const u16*>(taps[t]) + channel), top);
      };
      Interleave(codes(2 * p), codes(2 * p + 1), x);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) Set::Add(x[h], lanes.weights[p][h], &sum[h], &upper[h]);
    }
    u16* y = static_cast<u16*>(w.output.y) + i * w.output.y_stride + channel;
    if (__builtin_expect(!Set::StoreCodes(sum, upper, lanes.factors, y), 0)) {
      WindowOneByOne(w, i, channel, channel + kWordWindow);
    }
  }
}

template <class Set> void WordWindowsOf(const CodeWindows& w) {
  long channel = 0, taps = w.tap_stride;
  while (taps > 2 && HasNoWeights(w, taps - 2)) taps -= 2;
  for (; channel + kWordWindow <= w.output.channels && taps <= kMostWordTaps;
       channel += kWordWindow) {
    if (taps == 10) {
      WindowsOfVector<Set, 5>(w, channel, 5);  // of 3x3 taps
    } else {
      WindowsOfVector<Set, 0>(w, channel, taps / 2);
    }
  }
  for (long i = 0; i < w.positions; ++i) WindowOneByOne(w, i, channel, w.output.channels);
}

// --- Lines of windows of 3x3 ---------------------------------------------------------------------

// The weights of a window: rows 0 and 1 of its columns; row 2 of columns 0 and 1; row 2 of column
// 2.
constexpr long kLinePairs = 5;
constexpr long kLineTaps[kLinePairs][2] = {{0, 1}, {4, 5}, {8, 9}, {2, 6}, {10, 11}};

template <class Set, int kStride>
void LineOf(const CodeLines& w, long channel, const WordLanes<Set, kLinePairs>& lanes,
            const short* line, u16* y) {
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
  for (long i = 0; i < w.width; ++i, x += kStride * next, y += w.output.y_stride) {
    if (kStride == 2) Interleave(Load(x + next), Load(x + next + w.pitch), b.upper);
    read(x + 2 * next, c);
    V sum[2], upper[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const V pairs[kLinePairs] = {a.upper[h], b.upper[h], c.upper[h], a.lower[h], c.lower[h]};
      sum[h] = upper[h] = Zero();
#pragma GCC unroll 5
      for (int p = 0; p < kLinePairs; ++p) {
        Set::Add(pairs[p], lanes.weights[p][h], &sum[h], &upper[h]);
      }
    }
    if (__builtin_expect(!Set::StoreCodes(sum, upper, lanes.factors, y + channel), 0)) {
      const short* const at = x - channel;
      WindowOneByOne(w.output, w.w, 12, channel, channel + kWordWindow, y, [&](long t, long c) {
        return t % 4 == 3 ? 0 : at[t % 4 * w.pitch + t / 4 * next + c] + 32768;
      });
    }
    if (kStride == 1) {
      a = b;
      b = c;
    } else {
      a = c;
    }
  }
}

template <class Set> bool WordLinesOf(const CodeLines& w) {
  for (long channel = 0; channel < w.output.channels; channel += kWordWindow) {
    WordLanes<Set, kLinePairs> lanes;
    for (long p = 0; p < kLinePairs; ++p) {
      lanes.SetPair(p, static_cast<const short*>(w.w) + channel, w.output.channels, kLineTaps[p][0],
                    kLineTaps[p][1]);
    }
    lanes.SetFactors(w.output, channel);
    if (!lanes.fast) return false;
    for (long i = 0; i < w.lines; ++i) {
      const short* line = static_cast<const short*>(w.x) + i * w.line_stride;
      u16* y = static_cast<u16*>(w.output.y) + i * w.width * w.output.y_stride;
      if (w.stride == 1) {
        LineOf<Set, 1>(w, channel, lanes, line, y);
      } else {
        LineOf<Set, 2>(w, channel, lanes, line, y);
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace caffe
