//! types: float
#include "math/pool_windows.h"
// Draws the first value of a window at which the running sum reaches a random fraction of the
// total. The backward pass is that of MAX, with the same mask.
KERNEL(stochastic_pool_draw, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MItype, x),
       OUT(MOtype, y), OUT(f32, mask), IN(i32, counters), ARG(u64, seed)) {
  FOR_EACH_GROUP(i, planes * out_height * out_width) {
    const Index r = i / out_width, plane = r / out_height, base = plane * height * width;
    const i32 row = (i32)(r - plane * out_height), column = (i32)(i - r * out_width);
    WINDOW
    Acctype sum = 0;
    FOR_EACH_TAP(h, w) sum += LOAD(MItype, x, base + h * width + w);
    const u64 counter = ((u64)(u32)LOAD(i32, counters, 0) << 32) + (u64)i;
    const Random4 random = philox(counter, seed);
    const Acctype part = sum * ((Acctype)(random.v0 >> 8) * REAL(5.9604644775390625e-8));
    Acctype running = 0, value = 0;
    i32 place = -1;
    FOR_EACH_TAP(h, w) {
      const Acctype v = LOAD(MItype, x, base + h * width + w);
      if (running <= part && v > 0) {
        place = h * width + w;
        value = v;
      }
      running += v;
    }
    STORE(MOtype, y, i, value);
    STORE(f32, mask, i, (float)place);
  }
}

// The expectation of a draw: the sum of squares over the sum.
KERNEL(stochastic_pool_expect, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MItype, x),
       OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height, base = plane * height * width;
    const i32 row = (i32)(r - plane * out_height), column = (i32)c;
    WINDOW
    // FLT_MIN and not 0, so that a window of zeros gives 0.
    Acctype sum = REAL(1.17549435e-38), squares = 0;
    FOR_EACH_TAP(h, w) {
      const Acctype v = LOAD(MItype, x, base + h * width + w);
      sum += v;
      squares += v * v;
    }
    STORE(MOtype, y, r * out_width + c, squares / sum);
  }
}
