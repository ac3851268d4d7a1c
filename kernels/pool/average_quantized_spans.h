//! types: device
//! tests: library
// average_quantized_rows.h on devices. An item computes SPAN channels of a window if SPAN divides
// their number, otherwise each element of its span alone.
#define POOL_STEP (channels % SPAN == 0 ? SPAN : 1)

SPAN_KERNEL(average_pool_quantized_channels, ARG(i64, images), FOLD(i32, channels),
            FOLD(i32, height), FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width),
            FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w),
            FOLD(i32, pad_h), FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y),
            IN(i32, multiplier), IN(i32, shift)) {
  const i64 n = images * out_height * out_width * channels;
  FOR_EACH_SPAN(begin, n) {
    for (i64 at = begin; at < begin + SPAN && at < n; at += POOL_STEP) {
      const Index r = (Index)at / channels, c = (Index)at - r * channels;
      const Index line = r / out_width, image = line / out_height;
      const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
      const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
      i32 h1 = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
      i32 w1 = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
      const i32 area = h1 > h0 && w1 > w0 ? (h1 - h0) * (w1 - w0) : 1;
      h1 = h1 < height ? h1 : height;
      w1 = w1 < width ? w1 : width;
      i64 sum[SPAN];
      FOR_SPAN(k) sum[k] = 0;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index from = ((image * height + h) * width + w) * channels + c;
          Acctype v[SPAN];
          LOAD_SPAN(MItype, v, x, from, from + POOL_STEP);
          FOR_SPAN(k) sum[k] += v[k];
        }
      }
      const i32 m = LOAD(i32, multiplier, area - 1), s = LOAD(i32, shift, area - 1);
      Acctype mean[SPAN];
      FOR_SPAN(k) mean[k] = (Acctype)requantize_i64(sum[k], m, s);
      const Index to = r * y_row + c;
      STORE_SPAN(MOtype, y, to, to + POOL_STEP, mean);
    }
  }
}
#undef POOL_STEP
