//! types: device float
//! tests: library
// Pooling with its gradient, of images whose channels are neighbours, on devices; see
// channels_last_training.h. An item computes SPAN channels of a position if SPAN divides their
// number, otherwise each element of its span alone.
#include "math/pool_windows.h"
#define POOL_STEP (channels % SPAN == 0 ? SPAN : 1)
#define EACH_POSITION(n, r, c)                                                             \
  FOR_EACH_SPAN(begin, n)                                                                  \
  for (Index at_ = (Index)begin; at_ < (Index)begin + SPAN && at_ < (n); at_ += POOL_STEP) \
    for (Index r = at_ / channels, c = at_ - r * channels, once_ = 1; once_; once_ = 0)

SPAN_KERNEL(max_pool_channels_mask, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
            FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
            FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y), OUT(f32, mask)) {
  const Index n = (Index)images * out_height * out_width * channels;
  EACH_POSITION(n, r, c) {
    const Index line = r / out_width, image = line / out_height, base = image * height * width;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;
    const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
    Acctype best[SPAN];
    float place[SPAN];
    FOR_SPAN(k) {
      best[k] = LOWEST;
      place[k] = -1;
    }
    for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
      for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
        const Index from = (base + h * width + w) * channels + c;
        const float here = (float)(h * width + w);
        Acctype v[SPAN];
        LOAD_SPAN(MItype, v, x, from, from + POOL_STEP);
        FOR_SPAN(k) {
          place[k] = v[k] > best[k] ? here : place[k];
          best[k] = v[k] > best[k] ? v[k] : best[k];
        }
      }
    }
    const Index to = r * y_row + c, of = r * channels + c;
    STORE_SPAN(MOtype, y, to, to + POOL_STEP, best);
    for (i32 k = 0; k < POOL_STEP; ++k) STORE(f32, mask, of + k, place[k]);
  }
}

// Gathers, as max_pool_backward.
SPAN_KERNEL(max_pool_channels_backward, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
            FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
            FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, y_row), IN(MOtype, y_diff), IN(f32, mask),
            OUT(MItype, x_diff)) {
  const Index n = (Index)images * height * width * channels;
  EACH_POSITION(n, r, c) {
    const Index line = r / width, image = line / height, base = image * out_height * out_width;
    const i32 row = (i32)(line - image * height), column = (i32)(r - line * width);
    const i32 h0 = first_window(row + pad_h, kernel_h, stride_h);
    const i32 h1 = end_window(row + pad_h, stride_h, out_height);
    const i32 w0 = first_window(column + pad_w, kernel_w, stride_w);
    const i32 w1 = end_window(column + pad_w, stride_w, out_width);
    const float place = (float)(row * width + column);
    Acctype sums[SPAN];
    FOR_SPAN(k) sums[k] = 0;
    for (i32 oh = h0; oh < h1; ++oh) {
      for (i32 ow = w0; ow < w1; ++ow) {
        const Index at = (base + oh * out_width + ow) * channels + c;
        Acctype d[SPAN];
        float from[SPAN];
        LOAD_SPAN(MOtype, d, y_diff, at, at + POOL_STEP);
        LOAD_SPAN(f32, from, mask, at, at + POOL_STEP);
        FOR_SPAN(k) sums[k] += from[k] == place ? d[k] : 0;
      }
    }
    const Index to = r * channels + c;
    STORE_SPAN(MItype, x_diff, to, to + POOL_STEP, sums);
  }
}

SPAN_KERNEL(average_pool_channels_backward, ARG(i64, images), FOLD(i32, channels),
            FOLD(i32, height), FOLD(i32, width), FOLD(i32, out_height),
            FOLD(i32, out_width), FOLD(i32, kernel_h),
            FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, y_row), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  const Index n = (Index)images * height * width * channels;
  EACH_POSITION(n, r, c) {
    const Index line = r / width, image = line / height, base = image * out_height * out_width;
    const i32 row = (i32)(line - image * height), column = (i32)(r - line * width);
    const i32 h0 = first_window(row + pad_h, kernel_h, stride_h);
    const i32 h1 = end_window(row + pad_h, stride_h, out_height);
    const i32 w0 = first_window(column + pad_w, kernel_w, stride_w);
    const i32 w1 = end_window(column + pad_w, stride_w, out_width);
    Acctype sums[SPAN];
    FOR_SPAN(k) sums[k] = 0;
    for (i32 oh = h0; oh < h1; ++oh) {
      const i32 extent_h = window_extent(oh, kernel_h, stride_h, height, pad_h);
      for (i32 ow = w0; ow < w1; ++ow) {
        const i32 extent_w = window_extent(ow, kernel_w, stride_w, width, pad_w);
        const Acctype area = (Acctype)(extent_h * extent_w);
        const Index at = (base + oh * out_width + ow) * channels + c;
        Acctype d[SPAN];
        LOAD_SPAN(MOtype, d, y_diff, at, at + POOL_STEP);
        FOR_SPAN(k) sums[k] += d[k] / area;
      }
    }
    const Index to = r * channels + c;
    STORE_SPAN(MItype, x_diff, to, to + POOL_STEP, sums);
  }
}
