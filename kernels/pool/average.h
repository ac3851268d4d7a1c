//! types: float
#include "math/pool_windows.h"
// The mean of windows. The divisor is the window's area within the padded image.
KERNEL(average_pool_forward, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MItype, x),
       OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 h0 = (i32)(r - plane * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)c * stride_w - pad_w;
    i32 h1 = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
    i32 w1 = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
    const i32 area = (h1 - h0) * (w1 - w0);
    h1 = h1 < height ? h1 : height;
    w1 = w1 < width ? w1 : width;
    const Index base = plane * height * width;
    Acctype sum = 0;
    for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
      for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) sum += LOAD(MItype, x, base + h * width + w);
    }
    STORE(MOtype, y, r * out_width + c, sum / (Acctype)area);
  }
}

KERNEL(average_pool_backward, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w),
       IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index plane = r / height;
    const i32 h = (i32)(r - plane * height) + pad_h, w = (i32)c + pad_w;
    const i32 h0 = first_window(h, kernel_h, stride_h), h1 = end_window(h, stride_h, out_height);
    const i32 w0 = first_window(w, kernel_w, stride_w), w1 = end_window(w, stride_w, out_width);
    const Index base = plane * out_height * out_width;
    Acctype sum = 0;
    for (i32 oh = h0; oh < h1; ++oh) {
      const i32 extent_h = window_extent(oh, kernel_h, stride_h, height, pad_h);
      for (i32 ow = w0; ow < w1; ++ow) {
        const i32 area = extent_h * window_extent(ow, kernel_w, stride_w, width, pad_w);
        sum += LOAD(MOtype, y_diff, base + oh * out_width + ow) / (Acctype)area;
      }
    }
    STORE(MItype, x_diff, r * width + c, sum);
  }
}
