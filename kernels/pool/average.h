//! types: float quantized
#include "math/pool_windows.h"
// The mean of windows: the sum over the window's area within the padded image. With codes it is the
// sum requantized by multiplier[area - 1] / 2^shift[area - 1]. The positions of y begin at
// multiples of y_row.
#if FLOAT_KIND
#define POOL_SUM Acctype
#define POOL_MEAN(sum) ((sum) / (Acctype)area)
#else
#define POOL_SUM i64
#define POOL_MEAN(sum) ((Acctype)requantize_i64(sum, factor, bits))
#endif
BLOCK_KERNEL(average_pool_forward, FOLD(i32, channels), ARG(i64, images), FOLD(i32, height),
             FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
             FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
             FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y),
             IN(i32, multiplier), IN(i32, shift)) {
  FOR_EACH_POSITION(out_height, out_width) {
    POSITION(out_height, out_width)
    WINDOW
    const i32 extent_h = window_extent(row, kernel_h, stride_h, height, pad_h);
    const i32 extent_w = window_extent(column, kernel_w, stride_w, width, pad_w);
    POOL_SUM sums[BLOCK];
    FOR_BLOCK(i, count, sums[i] = 0)
    FOR_EACH_TAP(h, w) { BLOCK1(i, count, TAP(h, w), MItype, x, v, sums[i] += v) }
#if FLOAT_KIND
    const i32 area = extent_h * extent_w;
#else
    // A stride larger than the kernel can round up to a window beyond the image, whose area is 0.
    const i32 area = extent_h > 0 && extent_w > 0 ? extent_h * extent_w : 1;
    const i32 factor = LOAD(i32, multiplier, area - 1), bits = LOAD(i32, shift, area - 1);
#endif
    STORE_BLOCK(i, count, position * y_row + c, MOtype, y, POOL_MEAN(sums[i]))
  }
}
#undef POOL_SUM
#undef POOL_MEAN

#if FLOAT_KIND
BLOCK_KERNEL(average_pool_backward, FOLD(i32, channels), ARG(i64, images), FOLD(i32, height),
             FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
             FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
             FOLD(i32, pad_w), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_POSITION(height, width) {
    POSITION(height, width)
    WINDOWS
    Acctype sums[BLOCK];
    FOR_BLOCK(i, count, sums[i] = 0)
    for (i32 oh = h0; oh < h1; ++oh) {
      const i32 extent_h = window_extent(oh, kernel_h, stride_h, height, pad_h);
      for (i32 ow = w0; ow < w1; ++ow) {
        const i32 extent_w = window_extent(ow, kernel_w, stride_w, width, pad_w);
        const Acctype area = (Acctype)(extent_h * extent_w);
        BLOCK1(i, count, WINDOW_AT(oh, ow), MOtype, y_diff, d, sums[i] += d / area)
      }
    }
    STORE_BLOCK(i, count, position * LANES + c, MItype, x_diff, sums[i])
  }
}
#endif
