//! types: float quantized
//! tests: library
//! runs: host
// Pooling of images whose channels are neighbours: x is [images, height, width, channels], y is
// [images, out_height, out_width, channels], and its positions begin at multiples of y_row. There
// is no mask, hence no gradient. Values and the order of sums are those of max.h and average.h. An
// item is a window, computed for 256 channels at a time. channels_last_spans.h has the kernels of
// devices.

// NaN is ignored.
DEVICE_FN Acctype greater_value(Acctype v, Acctype best) { return v > best ? v : best; }

KERNEL(max_pool_channels_rows, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
       FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, images * out_height * out_width) {
    const Index line = r / out_width, image = line / out_height;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;
    const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
    // The usual window, whole: a loop that stores the maximum once.
    if (h0 >= 0 && w0 >= 0 && h1 - h0 == 3 && w1 - w0 == 3) {
      const Index a = ((image * height + h0) * width + w0) * channels, b = a + channels;
      const Index d = b + channels, row = width * channels;
      SIMD for (Index i = 0; i < channels; ++i) {
        Acctype best = greater_value(LOAD(MItype, x, a + i), LOWEST);
        best = greater_value(LOAD(MItype, x, b + i), best);
        best = greater_value(LOAD(MItype, x, d + i), best);
        best = greater_value(LOAD(MItype, x, a + row + i), best);
        best = greater_value(LOAD(MItype, x, b + row + i), best);
        best = greater_value(LOAD(MItype, x, d + row + i), best);
        best = greater_value(LOAD(MItype, x, a + 2 * row + i), best);
        best = greater_value(LOAD(MItype, x, b + 2 * row + i), best);
        best = greater_value(LOAD(MItype, x, d + 2 * row + i), best);
        STORE(MOtype, y, r * y_row + i, best);
      }
      continue;
    }
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      Acctype best[256];
      SIMD for (Index i = 0; i < count; ++i) best[i] = LOWEST;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index at = ((image * height + h) * width + w) * channels + start;
          SIMD for (Index i = 0; i < count; ++i) {
            const Acctype v = LOAD(MItype, x, at + i);
            best[i] = v > best[i] ? v : best[i];
          }
        }
      }
      SIMD for (Index i = 0; i < count; ++i) STORE(MOtype, y, r * y_row + start + i, best[i]);
    }
  }
}

#if FLOAT_KIND
KERNEL(average_pool_channels_rows, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
       FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, images * out_height * out_width) {
    const Index line = r / out_width, image = line / out_height;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 end_h = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
    const i32 end_w = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
    const i32 area = (end_h - h0) * (end_w - w0);
    const i32 h1 = end_h < height ? end_h : height, w1 = end_w < width ? end_w : width;
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index at = ((image * height + h) * width + w) * channels + start;
          SIMD for (Index i = 0; i < count; ++i) sums[i] += LOAD(MItype, x, at + i);
        }
      }
      SIMD for (Index i = 0; i < count; ++i) {
        STORE(MOtype, y, r * y_row + start + i, sums[i] / (Acctype)area);
      }
    }
  }
}
#endif
