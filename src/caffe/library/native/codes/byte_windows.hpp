// Windows of a depthwise convolution of bytes. The instructions define ByteWeights, those of four
// taps of a vector of channels, and Dot, which adds their products to a sum.
#pragma once

namespace caffe {
namespace {

// Channels whose sums are in four vectors, and the most taps of windows.
constexpr long kWindow = 4 * kLanes, kMostTaps = 256;

// The bytes of 4 taps side by side: vector q holds, in 128-bit lane l, the channels 16 l + 4 q to
// 16 l + 4 q + 3.
struct Taps {
  V part[4];
};

DEVICE_FN Taps Interleaved(const V* x) {
  const V low = LowBytes(x[0], x[1]), high = HighBytes(x[0], x[1]);
  const V low2 = LowBytes(x[2], x[3]), high2 = HighBytes(x[2], x[3]);
  return {
      {LowWords(low, low2), HighWords(low, low2), LowWords(high, high2), HighWords(high, high2)}};
}

// The weights of four taps from `tap` on, and of part q of the channels from `channel` on.
DEVICE_FN V WindowWeights(const void* w, long tap_stride, long channel, long tap, long q) {
  const long block = channel / kByteLanes * kByteLanes;
  return Load(static_cast<const u8*>(w) + block * tap_stride + tap * kByteLanes + 64 * q + channel -
              block);
}

// The same of channels that are half a window's, for both halves.
DEVICE_FN V HalfWeights(const void* w, long tap_stride, long channel, long tap, long q) {
  if (kWindow == 16) return WindowWeights(w, tap_stride, channel, tap, q % 2);
  return Repeated(WindowWeights(w, tap_stride, channel, tap, q));
}

// The requantization of `count` channels from `channel` on in the order of Taps. Half of them are
// repeated in the other lanes.
template <class F>
void MakeLanes(const ByteOutput& o, long channel, long count, ChannelFactors<F, 4>* lanes) {
  long bias[kWindow];
  i32 multiplier[kWindow], shift[kWindow];
  for (int q = 0; q < 4; ++q) {
    for (int i = 0; i < kLanes; ++i) {
      const long lane = i / 4 * 16 + 4 * q + i % 4, at = kLanes * q + i;
      const long c = channel + (2 * count == kWindow ? lane % count : lane);
      const bool used = c < channel + count;
      bias[at] = used ? o.bias[c] : 0;
      multiplier[at] = used ? o.multiplier[c] : 0;
      shift[at] = used ? o.shift[c] : 32;
    }
  }
  MakeChannels(o, multiplier, shift, bias, kWindow, lanes);
}

// kHalves: the channels are half a window's, so that two positions are computed at once.
template <bool kHalves, bool kPositive, class F>
void FastWindows(const CodeWindows& w, const ChannelFactors<F, 4>& f, long channel, long count) {
  const ByteOutput& o = w.output;
  const Mask mask = MaskOf(count);
  ByteWeights weights[kMostTaps / kByteTaps][4];
  for (long t = 0; t < w.tap_stride; t += kByteTaps) {
    for (long q = 0; q < 4; ++q) {
      weights[t / kByteTaps][q] =
          MakeByteWeights(kHalves ? HalfWeights(w.w, w.tap_stride, channel, t, q)
                                  : WindowWeights(w.w, w.tap_stride, channel, t, q));
    }
  }
  for (long i = 0; i < w.positions; i += kHalves ? 2 : 1) {
    const long next = kHalves && i + 1 < w.positions ? i + 1 : i;
    V sum[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) sum[q] = f.bias[q];
    for (long t = 0; t < w.tap_stride; t += kByteTaps) {
      const void* const* taps = w.taps + i * w.tap_stride + t;
      const void* const* more = w.taps + next * w.tap_stride + t;
      V r[4];
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const u8* code = static_cast<const u8*>(taps[p]) + channel;
        r[p] = kHalves ? LoadHalves(code, static_cast<const u8*>(more[p]) + channel)
                       : LoadBytes(code, mask);
      }
      const Taps x = Interleaved(r);
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) sum[q] = Dot(sum[q], x.part[q], weights[t / kByteTaps][q]);
    }
    const V codes = Codes<kPositive, false>(sum, f);
    u8* y = static_cast<u8*>(o.y) + channel;
    if (kHalves) {
      StorePart<kWindow / 2, 1>(y + next * o.y_stride, codes);
      StorePart<kWindow / 2, 0>(y + i * o.y_stride, codes);
    } else {
      StoreBytes(y + i * o.y_stride, codes, mask);
    }
  }
}

template <bool kHalves, class F>
void FastWindows(const CodeWindows& w, const ChannelFactors<F, 4>& f, long channel, long count) {
  w.output.lowest >= w.output.zero_y ? FastWindows<kHalves, true>(w, f, channel, count)
                                     : FastWindows<kHalves, false>(w, f, channel, count);
}

// The channels from `channel` on with any factors.
void WindowsOneByOne(const CodeWindows& w, long channel, long count) {
  constexpr long kRows = 16;  // positions whose sums stay in the first cache
  i32 sums[kRows * kWindow], weights[kWindow];
  const signed char* from =
      static_cast<const signed char*>(w.w) + channel / kByteLanes * kByteLanes * w.tap_stride;
  for (long first = 0; first < w.positions; first += kRows) {
    const long rows = w.positions - first < kRows ? w.positions - first : kRows;
    for (long i = 0; i < rows * kWindow; ++i) sums[i] = 0;
    for (long t = 0; t < w.tap_stride; ++t) {
      for (long i = 0; i < count; ++i) {
        const long c = channel % kByteLanes + i, lane = c % 16 / 4 * 64 + (c / 16 * 4 + c % 4) * 4;
        weights[i] = from[t / 4 * 4 * kByteLanes + lane + t % 4];
      }
      for (long i = 0; i < rows; ++i) {
        const u8* x = static_cast<const u8*>(w.taps[(first + i) * w.tap_stride + t]) + channel;
        i32* sum = sums + i * kWindow;
        for (long c = 0; c < count; ++c) sum[c] += x[c] * weights[c];
      }
    }
    StoreOneByOne(w.output, channel, count, first, rows, sums, kWindow);
  }
}

// Set: Plain, or what else chooses the factors.
template <class Set> void ByteWindowsOf(const CodeWindows& w) {
  const ByteOutput& o = w.output;
  for (long channel = 0; channel < o.channels; channel += kWindow) {
    const long count = o.channels - channel < kWindow ? o.channels - channel : kWindow;
    const bool halves = 2 * count == kWindow, whole = halves || count % kMaskBytes == 0;
    if (!IsFast(o, channel, count) || !whole || w.tap_stride > kMostTaps) {
      WindowsOneByOne(w, channel, count);
      continue;
    }
    Set::With(o, channel, count, [&](auto factors) {
      ChannelFactors<decltype(factors), 4> f;
      MakeLanes(o, channel, count, &f);
      halves ? FastWindows<true>(w, f, channel, count) : FastWindows<false>(w, f, channel, count);
    });
  }
}

// --- Lines of windows of 3x3 ---------------------------------------------------------------------

// A block of channels of CodeLines.
template <class F> struct LineBlock {
  ChannelFactors<F, 4> lanes;
  ByteWeights weights[2][3][4];  // of three columns; for the second line a row below
  long column, pitch;  // bytes from one column of x to the next, and from one row to the next
  long window, line;   // bytes of y from one window to the next, and from one line to the next
  long half;           // bytes of y between both windows in the lanes; 0: there is one
};

// kLines x kWindows windows, which are kStride columns apart. `last`: of both windows in the lanes
// there is only the first one.
template <int kLines, int kWindows, int kStride, bool kPositive, class F>
void LineWindows(const LineBlock<F>& b, Mask mask, bool last, const u8* x, u8* y) {
  V sum[kLines][kWindows][4];
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
    V r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = i < kLines + 2 ? LoadBytes(x + column * b.column + i * b.pitch, mask) : Zero();
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
          sum[l][i][q] = Dot(sum[l][i][q], taps.part[q], b.weights[l][tap][q]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 2
    for (int i = 0; i < kWindows; ++i) {
      const V codes = Codes<kPositive, false>(sum[l][i], b.lanes);
      u8* to = y + l * b.line + i * b.window;
      if (b.half == 0) {
        StoreBytes(to, codes, mask);
        continue;
      }
      StorePart<kWindow / 2, 0>(to, codes);
      if (!last) StorePart<kWindow / 2, 1>(to + b.half, codes);
    }
  }
}

template <int kLines, int kStride, bool kPositive, class F>
void LineOf(const LineBlock<F>& b, long count, long width, const u8* x, u8* y) {
  // Two windows of half a vector are one.
  const long windows = b.half ? width / 2 : width;
  const Mask mask = MaskOf(b.half ? kWindow : count);
  long i = 0;
  for (; i + 2 <= windows; i += 2) {
    LineWindows<kLines, 2, kStride, kPositive>(b, mask, false, x + i * kStride * b.column,
                                               y + i * b.window);
  }
  for (; i * (b.half ? 2 : 1) < width; ++i) {
    const bool last = i == windows;
    LineWindows<kLines, 1, kStride, kPositive>(b, last ? MaskOf(count) : mask, last,
                                               x + i * kStride * b.column, y + i * b.window);
  }
}

template <int kStride, bool kPositive, class F>
void LinesOfBlock(const CodeLines& t, const LineBlock<F>& b, long count, const u8* x, u8* y) {
  long line = 0;
  for (; t.line_stride == t.pitch && line + 2 <= t.lines; line += 2) {
    LineOf<2, kStride, kPositive>(b, count, t.width, x + line * t.line_stride, y + line * b.line);
  }
  for (; line < t.lines; ++line) {
    LineOf<1, kStride, kPositive>(b, count, t.width, x + line * t.line_stride, y + line * b.line);
  }
}

// The channels from `channel` on.
template <class F> void LinesOfChannels(const CodeLines& t, long channel, long count) {
  const ByteOutput& o = t.output;
  // Windows beside each other, because the pixels of half a vector are.
  const bool pairs = 2 * o.channels == kWindow && t.stride == 1;
  LineBlock<F> b;
  MakeLanes(o, channel, count, &b.lanes);
  b.column = o.channels;
  b.pitch = t.pitch;
  b.window = pairs ? 2 * o.y_stride : o.y_stride;
  b.line = t.width * o.y_stride;
  b.half = pairs ? o.y_stride : 0;
  for (int i = 0; i < 12; ++i) {
    const V w = pairs ? HalfWeights(t.w, 12, channel, i / 4 * 4, i % 4)
                      : WindowWeights(t.w, 12, channel, i / 4 * 4, i % 4);
    b.weights[0][i / 4][i % 4] = MakeByteWeights(w);
    b.weights[1][i / 4][i % 4] = MakeByteWeights(Left<8>(w));
  }
  const u8* x = static_cast<const u8*>(t.x) + channel;
  u8* y = static_cast<u8*>(o.y) + channel;
  const bool positive = o.lowest >= o.zero_y;
  if (t.stride == 2 || pairs) {
    positive ? LinesOfBlock<2, true>(t, b, count, x, y) : LinesOfBlock<2, false>(t, b, count, x, y);
  } else {
    positive ? LinesOfBlock<1, true>(t, b, count, x, y) : LinesOfBlock<1, false>(t, b, count, x, y);
  }
}

template <class Set> bool ByteLinesOf(const CodeLines& t) {
  const ByteOutput& o = t.output;
  if (!IsFast(o, 0, o.channels)) return false;
  for (long channel = 0; channel < o.channels; channel += kWindow) {
    const long count = o.channels - channel < kWindow ? o.channels - channel : kWindow;
    Set::With(o, channel, count,
              [&](auto factors) { LinesOfChannels<decltype(factors)>(t, channel, count); });
  }
  return true;
}

}  // namespace
}  // namespace caffe
