//! types: quantized
//! tests: library
//! runs: host
// average_quantized.h for images whose channels are neighbours: x is [images, height, width,
// channels], y is [images, out_height, out_width, channels], and its positions begin at multiples
// of y_row. An item is a window, computed for 256 channels at a time.
KERNEL(average_pool_quantized_rows, ARG(i64, images), FOLD(i32, channels), FOLD(i32, height),
       FOLD(i32, width), FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y), IN(i32, multiplier),
       IN(i32, shift)) {
  FOR_EACH_GROUP(r, images * out_height * out_width) {
    const Index line = r / out_width, image = line / out_height;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    i32 h1 = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
    i32 w1 = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
    // A stride larger than the kernel can round up to a window beyond the image, whose area is 0.
    const i32 area = h1 > h0 && w1 > w0 ? (h1 - h0) * (w1 - w0) : 1;
    h1 = h1 < height ? h1 : height;
    w1 = w1 < width ? w1 : width;
    const i32 m = LOAD(i32, multiplier, area - 1), n = LOAD(i32, shift, area - 1);
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      i64 sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
        for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
          const Index at = ((image * height + h) * width + w) * channels + start;
          SIMD for (Index i = 0; i < count; ++i) sums[i] += LOAD(MItype, x, at + i);
        }
      }
      for (Index i = 0; i < count; ++i) {
        STORE(MOtype, y, r * y_row + start + i, (Acctype)requantize_i64(sums[i], m, n));
      }
    }
  }
}
