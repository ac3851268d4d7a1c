//! types: device
//! tests: library
#include "epilogue/bounds.h"
// Convolutions with channels last in which every channel is a group: an item computes OUTPUTS
// neighbouring positions of SPAN channels. Weights are [taps, padded], where `padded` channels are
// a multiple of SPAN; `blocks` are those of OUTPUTS positions in a row of y, whose positions are
// y_row elements apart. Defines: OUTPUTS, BIAS and RESIDUAL (1: there is one).
SPAN_KERNEL(depthwise_last, ARG(i64, rows), FOLD(i32, channels), FOLD(i32, padded),
            FOLD(i32, blocks), FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, out_h), FOLD(i32, out_w),
            FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w),
            FOLD(i32, pad_h), FOLD(i32, pad_w), FOLD(i32, dilation_h), FOLD(i32, dilation_w),
            FOLD(i32, y_row), ARG(Acctype, activation_a), ARG(Acctype, activation_b),
            ARG(Acctype, coefficient), IN(MOtype, residual), IN(Mastertype, slopes), IN(MItype, x),
            IN(MItype, weights), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_SPAN(begin, rows * padded) {
    const Index item = (Index)begin / padded, first = (Index)begin - item * padded;
    const Index line = item / blocks, column = (item - line * blocks) * OUTPUTS;
    const Index n = line / out_h, top = (line - n * out_h) * stride_h - pad_h;
    const Index left = column * stride_w - pad_w;
    Acctype sum[OUTPUTS][SPAN];
    FOR_SPAN(k) {
      const Index channel = first + k < channels ? first + k : channels - 1;
      UNROLL for (i32 o = 0; o < OUTPUTS; ++o) sum[o][k] = BIAS ? LOAD(Mastertype, bias, channel) : 0;
    }
    for (i32 kh = 0; kh < kernel_h; ++kh) {
      const Index h = top + kh * dilation_h;
      if (h < 0 || h >= in_h) continue;
      for (i32 kw = 0; kw < kernel_w; ++kw) {
        Acctype w[SPAN];
        const Index tap = (kh * kernel_w + kw) * padded;
        LOAD_SPAN(MItype, w, weights, tap + first, tap + padded);
        UNROLL for (i32 o = 0; o < OUTPUTS; ++o) {
          const Index at_w = left + o * stride_w + kw * dilation_w;
          if (at_w >= 0 && at_w < in_w) {
            const Index from = ((n * in_h + h) * in_w + at_w) * channels;
            Acctype v[SPAN];
            LOAD_SPAN(MItype, v, x, from + first, from + channels);
            FOR_SPAN(k) sum[o][k] += v[k] * w[k];
          }
        }
      }
    }
    UNROLL for (i32 o = 0; o < OUTPUTS; ++o) {
      if (column + o < out_w) {
        const i64 row = (i64)(line * out_w + column + o) * y_row;
#if RESIDUAL
        Acctype added[SPAN];
        LOAD_SPAN(MOtype, added, residual, row + first, row + channels);
#endif
        FOR_SPAN(k) {
          const Index channel = first + k < channels ? first + k : channels - 1;
          const i64 at = row + channel;
          sum[o][k] = EPILOGUE(sum[o][k], channel, channel, at);
        }
        STORE_SPAN(MOtype, y, row + first, row + channels, sum[o]);
      }
    }
  }
}

// y [taps, padded] from weights x [channels, taps].
KERNEL(pack_depthwise, ARG(i64, taps), FOLD(i32, channels), FOLD(i32, padded), IN(MItype, x),
       OUT(MItype, y)) {
  FOR_EACH_ROW(tap, taps, c, padded) {
    STORE(MItype, y, (i64)tap * padded + c,
          c < channels ? LOAD(MItype, x, (i64)c * taps + tap) : 0);
  }
}
