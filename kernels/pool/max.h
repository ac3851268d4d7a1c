//! types: float quantized
#include "math/pool_windows.h"
// mask [windows, channels] is the index h width + w in the image of the element that y comes from,
// or -1 for a window that is empty or holds only NaN; it is written if `masks` is 1. The positions
// of y begin at multiples of y_row.
BLOCK_KERNEL(max_pool_forward, FOLD(i32, channels), ARG(i64, images), FOLD(i32, height),
             FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
             FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
             FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y), FOLD(i32, masks),
             OUT(f32, mask)) {
  FOR_EACH_POSITION(out_height, out_width) {
    POSITION(out_height, out_width)
    WINDOW
    Acctype best[BLOCK];
    i32 place[BLOCK];
    FOR_BLOCK(i, count, best[i] = LOWEST; place[i] = -1)
    FOR_EACH_TAP(h, w) {
      if (masks || BLOCK == 1) {
        BLOCK1(i, count, TAP(h, w), MItype, x, v, place[i] = v > best[i] ? h * width + w : place[i];
               best[i] = v > best[i] ? v : best[i])
      } else {
        BLOCK1(i, count, TAP(h, w), MItype, x, v, best[i] = v > best[i] ? v : best[i])
      }
    }
    STORE_BLOCK(i, count, position * y_row + c, MOtype, y, best[i])
    if (masks) STORE_BLOCK(i, count, position * LANES + c, f32, mask, (float)place[i])
  }
}

#if FLOAT_KIND
// Gathers: x_diff is the sum over the windows whose maximum is this element.
BLOCK_KERNEL(max_pool_backward, FOLD(i32, channels), ARG(i64, images), FOLD(i32, height),
             FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
             FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
             FOLD(i32, pad_w), IN(MOtype, y_diff), IN(f32, mask), OUT(MItype, x_diff)) {
  FOR_EACH_POSITION(height, width) {
    POSITION(height, width)
    WINDOWS
    const float place = (float)(row * width + column);
    Acctype sums[BLOCK];
    FOR_BLOCK(i, count, sums[i] = 0)
    for (i32 oh = h0; oh < h1; ++oh) {
      for (i32 ow = w0; ow < w1; ++ow) {
        BLOCK2(i, count, WINDOW_AT(oh, ow), MOtype, y_diff, d, f32, mask, from,
               sums[i] += from == place ? d : 0)
      }
    }
    STORE_BLOCK(i, count, position * LANES + c, MItype, x_diff, sums[i])
  }
}
#endif
