// Windows of a depthwise convolution of bytes, over the functions of any instructions.
#pragma once

namespace caffe {
namespace {

// Positions of a depthwise convolution whose sums stay in the first cache.
constexpr long kWindowRows = 16;

template <class Set> void WindowsOf(const ByteWindows& w) {
  const ByteOutput& o = w.output;
  if (Set::FastWindows(w)) return;
  for (long channel = 0; channel < o.channels; channel += kByteLanes) {
    const long count = o.channels - channel < kByteLanes ? o.channels - channel : kByteLanes;
    if (Set::FastWindows(w, channel, count)) continue;
    alignas(64) i32 sums[kWindowRows * kByteLanes];
    i32 weights[kByteLanes];
    for (long first = 0; first < w.positions; first += kWindowRows) {
      const long rows = w.positions - first < kWindowRows ? w.positions - first : kWindowRows;
      for (long i = 0; i < rows * kByteLanes; ++i) sums[i] = 0;
      for (long t = 0; t < w.tap_stride; ++t) {
        const signed char* four = w.w + channel * w.tap_stride + t / 4 * 4 * kByteLanes;
        for (long c = 0; c < count; ++c) weights[c] = four[WindowWeight(c, t % 4)];
        for (long i = 0; i < rows; ++i) {
          const u8* x = w.taps[(first + i) * w.tap_stride + t] + channel;
          i32* sum = sums + i * kByteLanes;
          for (long c = 0; c < count; ++c) sum[c] += x[c] * weights[c];
        }
      }
      for (long c = 0; c < count; c += kByteChannels) {
        Set::kStore(o, channel + c, first, rows, sums + c, kByteLanes);
      }
    }
  }
}

}  // namespace
}  // namespace caffe
