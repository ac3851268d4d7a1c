//! types: quantized
// The mean of windows: the sum of the codes, requantized by multiplier[area - 1] / 2^shift[area -
// 1], where area is that of the window within the padded image.
KERNEL(average_pool_quantized, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MItype, x),
       OUT(MOtype, y), IN(i32, multiplier), IN(i32, shift)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 h0 = (i32)(r - plane * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)c * stride_w - pad_w;
    i32 h1 = h0 + kernel_h < height + pad_h ? h0 + kernel_h : height + pad_h;
    i32 w1 = w0 + kernel_w < width + pad_w ? w0 + kernel_w : width + pad_w;
    // A stride larger than the kernel can round up to a window beyond the image, whose area is 0.
    const i32 area = h1 > h0 && w1 > w0 ? (h1 - h0) * (w1 - w0) : 1;
    h1 = h1 < height ? h1 : height;
    w1 = w1 < width ? w1 : width;
    const Index base = plane * height * width;
    i64 sum = 0;
    for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
      for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) sum += LOAD(MItype, x, base + h * width + w);
    }
    const i64 mean =
        requantize_i64(sum, LOAD(i32, multiplier, area - 1), LOAD(i32, shift, area - 1));
    STORE(MOtype, y, r * out_width + c, (Acctype)mean);
  }
}
