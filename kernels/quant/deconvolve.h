//! types: quantized
// The transpose of a convolution over three spatial axes, in codes. x is [batch, group, channels,
// in], w is [outputs, channels, kernel], y is [batch, outputs, positions].
// The sum of x w with the bias is requantized once, by the output's multiplier and shift.
DEVICE_FN i32 deconvolve_begin(i32 at, i32 reach, i32 stride) {
  return at > reach ? (at - reach + stride - 1) / stride : 0;
}

// One past the last input; `at` may be beyond it.
DEVICE_FN i32 deconvolve_end(i32 at, i32 stride, i32 in) {
  return at / stride < in ? at / stride + 1 : in;
}

KERNEL(deconvolve_codes, ARG(i64, planes), ARG(i64, positions), ARG(i32, outputs), ARG(i32, group),
       ARG(i32, channels), ARG(i32, in_0), ARG(i32, in_1), ARG(i32, in_2), ARG(i32, out_1),
       ARG(i32, out_2), ARG(i32, kernel_0), ARG(i32, kernel_1), ARG(i32, kernel_2),
       ARG(i32, stride_0), ARG(i32, stride_1), ARG(i32, stride_2), ARG(i32, pad_0), ARG(i32, pad_1),
       ARG(i32, pad_2), ARG(i32, dilation_0), ARG(i32, dilation_1), ARG(i32, dilation_2),
       IN(MItype, x), IN(MItype, w), IN(i64, bias), IN(i32, multiplier), IN(i32, shift),
       OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes, p, positions) {
    const Index image = r / outputs, output = r - image * outputs;
    const Index first = (image * group + output / (outputs / group)) * channels;
    const i32 row = (i32)p / out_2, at_2 = (i32)p - row * out_2 + pad_2;
    const i32 at_0 = row / out_1 + pad_0, at_1 = row - row / out_1 * out_1 + pad_1;
    const i32 end_0 = deconvolve_end(at_0, stride_0, in_0);
    const i32 end_1 = deconvolve_end(at_1, stride_1, in_1);
    const i32 end_2 = deconvolve_end(at_2, stride_2, in_2);
    i64 sum = LOAD(i64, bias, output);
    for (i32 i = deconvolve_begin(at_0, dilation_0 * (kernel_0 - 1), stride_0); i < end_0; ++i) {
      const i32 k_0 = (at_0 - i * stride_0) / dilation_0;
      if (k_0 * dilation_0 != at_0 - i * stride_0) continue;
      for (i32 j = deconvolve_begin(at_1, dilation_1 * (kernel_1 - 1), stride_1); j < end_1; ++j) {
        const i32 k_1 = (at_1 - j * stride_1) / dilation_1;
        if (k_1 * dilation_1 != at_1 - j * stride_1) continue;
        for (i32 k = deconvolve_begin(at_2, dilation_2 * (kernel_2 - 1), stride_2); k < end_2; ++k) {
          const i32 k_2 = (at_2 - k * stride_2) / dilation_2;
          if (k_2 * dilation_2 != at_2 - k * stride_2) continue;
          for (i32 c = 0; c < channels; ++c) {
            const Index from = (((first + c) * in_0 + i) * in_1 + j) * in_2 + k;
            const Index tap =
                (((output * channels + c) * kernel_0 + k_0) * kernel_1 + k_1) * kernel_2 + k_2;
            sum += (i64)LOAD(MItype, x, from) * LOAD(MItype, w, tap);
          }
        }
      }
    }
    const i64 v = requantize_i64(sum, LOAD(i32, multiplier, output), LOAD(i32, shift, output));
    STORE(MOtype, y, r * positions + p, (Acctype)v);
  }
}
