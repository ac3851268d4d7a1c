//! types: float quantized
//! tests: library
//! runs: device
// x [planes, input…] -> y [planes, kernel…, output…], where planes are images times channels: the
// columns with which a convolution is a matrix product. Padding is the real number 0.

// Two axes. A row is (plane, kernel row, kernel column, output row).
KERNEL(im2col_2d, ARG(i64, rows), FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, out_h),
       FOLD(i32, out_w), FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h),
       FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), FOLD(i32, dilation_h),
       FOLD(i32, dilation_w), IN(MItype, x), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, ow, out_w) {
    const Index tap = r / out_h, plane = tap / (kernel_h * kernel_w);
    const i32 k = (i32)(tap - plane * (kernel_h * kernel_w)), kh = k / kernel_w;
    const i32 h = (i32)(r - tap * out_h) * stride_h - pad_h + kh * dilation_h;
    const i32 w = (i32)ow * stride_w - pad_w + (k - kh * kernel_w) * dilation_w;
    const i32 inside = h >= 0 && h < in_h && w >= 0 && w < in_w;
    STORE(MItype, y, r * out_w + ow,
          inside ? LOAD(MItype, x, (plane * in_h + h) * in_w + w) : (Acctype)0);
  }
}

// Any number of axes. geometry [axes, 6]: input, output, kernel, stride, pad, dilation.
KERNEL(im2col_nd, ARG(i64, n), FOLD(i32, axes), FOLD(i32, in_count), FOLD(i32, out_count),
       FOLD(i32, kernel_count), IN(i32, geometry), IN(MItype, x), OUT(MItype, y)) {
  FOR_EACH_GROUP(i, n) {
    const Index tap = i / out_count, plane = tap / kernel_count;
    i32 o = (i32)(i - tap * out_count), k = (i32)(tap - plane * kernel_count);
    i32 inside = 1, at = 0, step = 1;
    for (i32 axis = axes - 1; axis >= 0; --axis) {
      const i32 extent = LOAD(i32, geometry, axis * 6), out = LOAD(i32, geometry, axis * 6 + 1);
      const i32 kernel_extent = LOAD(i32, geometry, axis * 6 + 2);
      const i32 p = o % out * LOAD(i32, geometry, axis * 6 + 3) -
                    LOAD(i32, geometry, axis * 6 + 4) +
                    k % kernel_extent * LOAD(i32, geometry, axis * 6 + 5);
      inside = inside && p >= 0 && p < extent;
      at += p * step;
      step *= extent;
      o /= out;
      k /= kernel_extent;
    }
    STORE(MItype, y, i, inside ? LOAD(MItype, x, plane * in_count + at) : (Acctype)0);
  }
}
