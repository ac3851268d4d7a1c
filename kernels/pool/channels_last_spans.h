//! types: device
//! tests: library
// Pooling of images whose channels are neighbours, on devices; see channels_last.h. An item
// computes SPAN channels of a window if SPAN divides their number, otherwise each element of its
// span alone.
#define POOL_STEP (channels % SPAN == 0 ? SPAN : 1)

SPAN_KERNEL(max_pool_channels, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
            FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
            FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y)) {
  const i64 n = images * out_height * out_width * channels;
  FOR_EACH_SPAN(begin, n) {
    for (i64 at = begin; at < begin + SPAN && at < n; at += POOL_STEP) {
      const Index r = (Index)at / channels, c = (Index)at - r * channels;
      const Index line = r / out_width, image = line / out_height;
      const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
      const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
      const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;
      const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
      Acctype best[SPAN];
      FOR_SPAN(k) best[k] = LOWEST;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index from = ((image * height + h) * width + w) * channels + c;
          Acctype v[SPAN];
          LOAD_SPAN(MItype, v, x, from, from + POOL_STEP);
          FOR_SPAN(k) best[k] = v[k] > best[k] ? v[k] : best[k];
        }
      }
      const Index to = r * y_row + c;
      STORE_SPAN(MOtype, y, to, to + POOL_STEP, best);
    }
  }
}

SPAN_KERNEL(average_pool_channels, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
            FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
            FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y)) {
  const i64 n = images * out_height * out_width * channels;
  FOR_EACH_SPAN(begin, n) {
    for (i64 at = begin; at < begin + SPAN && at < n; at += POOL_STEP) {
      const Index r = (Index)at / channels, c = (Index)at - r * channels;
      const Index line = r / out_width, image = line / out_height;
      const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
      const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
      const i32 end_h = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
      const i32 end_w = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
      const i32 area = (end_h - h0) * (end_w - w0);
      const i32 h1 = end_h < height ? end_h : height, w1 = end_w < width ? end_w : width;
      Acctype sum[SPAN];
      FOR_SPAN(k) sum[k] = 0;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index from = ((image * height + h) * width + w) * channels + c;
          Acctype v[SPAN];
          LOAD_SPAN(MItype, v, x, from, from + POOL_STEP);
          FOR_SPAN(k) sum[k] += v[k];
        }
      }
      FOR_SPAN(k) sum[k] /= (Acctype)area;
      const Index to = r * y_row + c;
      STORE_SPAN(MOtype, y, to, to + POOL_STEP, sum);
    }
  }
}
