//! types: float
//! tests: library
//! runs: host
// Pooling with its gradient, of images whose channels are neighbours: x is [images, height, width,
// channels], y and mask are [images, out_height, out_width, channels]. Values and the order of sums
// are those of max.h and average.h. An item is a position, computed for 256 channels at a time.
// channels_last_training_spans.h has the kernels of devices.
#include "math/pool_windows.h"
KERNEL(max_pool_channels_mask_rows, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
       FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y), OUT(f32, mask)) {
  FOR_EACH_GROUP(r, images * out_height * out_width) {
    const Index line = r / out_width, image = line / out_height, base = image * height * width;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;
    const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      Acctype best[256];
      float place[256];
      SIMD for (Index i = 0; i < count; ++i) {
        best[i] = LOWEST;
        place[i] = -1;
      }
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index at = (base + h * width + w) * channels + start;
          const float here = (float)(h * width + w);
          SIMD for (Index i = 0; i < count; ++i) {
            const Acctype v = LOAD(MItype, x, at + i);
            place[i] = v > best[i] ? here : place[i];
            best[i] = v > best[i] ? v : best[i];
          }
        }
      }
      SIMD for (Index i = 0; i < count; ++i) STORE(MOtype, y, r * y_row + start + i, best[i]);
      SIMD for (Index i = 0; i < count; ++i) STORE(f32, mask, r * channels + start + i, place[i]);
    }
  }
}

// Gathers, as max_pool_backward.
KERNEL(max_pool_channels_backward_rows, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
       FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MOtype, y_diff), IN(f32, mask),
       OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, images * height * width) {
    const Index line = r / width, image = line / height, base = image * out_height * out_width;
    const i32 row = (i32)(line - image * height), column = (i32)(r - line * width);
    const i32 h0 = first_window(row + pad_h, kernel_h, stride_h);
    const i32 h1 = end_window(row + pad_h, stride_h, out_height);
    const i32 w0 = first_window(column + pad_w, kernel_w, stride_w);
    const i32 w1 = end_window(column + pad_w, stride_w, out_width);
    const float place = (float)(row * width + column);
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (i32 oh = h0; oh < h1; ++oh) {
        for (i32 ow = w0; ow < w1; ++ow) {
          const Index at = (base + oh * out_width + ow) * channels + start;
          SIMD for (Index i = 0; i < count; ++i) {
            const Acctype d = LOAD(MOtype, y_diff, at + i);
            sums[i] += LOAD(f32, mask, at + i) == place ? d : 0;
          }
        }
      }
      SIMD for (Index i = 0; i < count; ++i) {
        STORE(MItype, x_diff, r * channels + start + i, sums[i]);
      }
    }
  }
}

KERNEL(average_pool_channels_backward_rows, ARG(i64, images), FOLD(i32, channels),
       FOLD(i32, height), FOLD(i32, width), FOLD(i32, out_height),
       FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, images * height * width) {
    const Index line = r / width, image = line / height, base = image * out_height * out_width;
    const i32 row = (i32)(line - image * height), column = (i32)(r - line * width);
    const i32 h0 = first_window(row + pad_h, kernel_h, stride_h);
    const i32 h1 = end_window(row + pad_h, stride_h, out_height);
    const i32 w0 = first_window(column + pad_w, kernel_w, stride_w);
    const i32 w1 = end_window(column + pad_w, stride_w, out_width);
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (i32 oh = h0; oh < h1; ++oh) {
        const i32 extent_h = window_extent(oh, kernel_h, stride_h, height, pad_h);
        for (i32 ow = w0; ow < w1; ++ow) {
          const i32 extent_w = window_extent(ow, kernel_w, stride_w, width, pad_w);
          const Acctype area = (Acctype)(extent_h * extent_w);
          const Index at = (base + oh * out_width + ow) * channels + start;
          SIMD for (Index i = 0; i < count; ++i) sums[i] += LOAD(MOtype, y_diff, at + i) / area;
        }
      }
      SIMD for (Index i = 0; i < count; ++i) {
        STORE(MItype, x_diff, r * channels + start + i, sums[i]);
      }
    }
  }
}
