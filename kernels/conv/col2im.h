//! types: float
//! tests: library
//! runs: device
// The adjoint of im2col: each element of x [planes, input…] is the sum of those elements of y
// [planes, kernel…, output…] to which im2col copies it. Gathers, in a fixed order.

// Two axes. A row is (plane, input row).
KERNEL(col2im_2d, ARG(i64, rows), FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, out_h),
       FOLD(i32, out_w), FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h),
       FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), FOLD(i32, dilation_h),
       FOLD(i32, dilation_w), IN(MItype, y), OUT(MItype, x)) {
  FOR_EACH_ROW(r, rows, w, in_w) {
    const Index plane = r / in_h;
    const i32 h = (i32)(r - plane * in_h);
    Acctype sum = 0;
    for (i32 kh = 0; kh < kernel_h; ++kh) {
      const i32 top = h + pad_h - kh * dilation_h, oh = top / stride_h;
      if (top < 0 || oh * stride_h != top || oh >= out_h) continue;
      for (i32 kw = 0; kw < kernel_w; ++kw) {
        const i32 left = (i32)w + pad_w - kw * dilation_w, ow = left / stride_w;
        if (left < 0 || ow * stride_w != left || ow >= out_w) continue;
        sum += LOAD(MItype, y, (((plane * kernel_h + kh) * kernel_w + kw) * out_h + oh) * out_w + ow);
      }
    }
    STORE(MItype, x, r * in_w + w, sum);
  }
}

// Any number of axes. geometry [axes, 6]: input, output, kernel, stride, pad, dilation.
KERNEL(col2im_nd, ARG(i64, n), FOLD(i32, axes), FOLD(i32, in_count), FOLD(i32, out_count),
       FOLD(i32, kernel_count), IN(i32, geometry), IN(MItype, y), OUT(MItype, x)) {
  FOR_EACH_GROUP(i, n) {
    const Index plane = i / in_count;
    Acctype sum = 0;
    for (i32 tap = 0; tap < kernel_count; ++tap) {
      i32 p = (i32)(i - plane * in_count), k = tap, at = 0, step = 1, hit = 1;
      for (i32 axis = axes - 1; axis >= 0; --axis) {
        const i32 extent = LOAD(i32, geometry, axis * 6), out = LOAD(i32, geometry, axis * 6 + 1);
        const i32 kernel_extent = LOAD(i32, geometry, axis * 6 + 2);
        const i32 stride = LOAD(i32, geometry, axis * 6 + 3);
        const i32 q = p % extent + LOAD(i32, geometry, axis * 6 + 4) -
                      k % kernel_extent * LOAD(i32, geometry, axis * 6 + 5);
        const i32 o = q / stride;
        hit = hit && q >= 0 && o * stride == q && o < out;
        at += o * step;
        step *= out;
        p /= extent;
        k /= kernel_extent;
      }
      if (hit) sum += LOAD(MItype, y, (plane * kernel_count + tap) * out_count + at);
    }
    STORE(MItype, x, i, sum);
  }
}
