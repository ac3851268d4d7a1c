//! types: device
//! tests: library
// Convolution in which every channel is its own group: x [images, channels, in_h, in_w], weights
// [channels, multiplier, kernel_h, kernel_w], y [images, channels, multiplier, out_h, out_w]. Rows
// are those of all planes. depthwise_planes.h has the CPU's kernels.
#include "epilogue/bounds.h"

KERNEL(depthwise_forward, ARG(i64, rows), FOLD(i64, channels), FOLD(i32, multiplier),
       FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, out_h), FOLD(i32, out_w), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, dilation_h), FOLD(i32, dilation_w), ARG(i32, has_bias),
       ARG(Acctype, activation_a), ARG(Acctype, activation_b), ARG(Acctype, coefficient),
       IN(MOtype, residual), IN(Mastertype, slopes), IN(MItype, x), IN(MItype, weights),
       IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, ow, out_w) {
    const Index plane = r / out_h, source = plane / multiplier, o = plane % (channels * multiplier);
    const i32 top = (i32)(r - plane * out_h) * stride_h - pad_h;
    const i32 left = (i32)ow * stride_w - pad_w;
    Acctype sum = has_bias ? LOAD(Mastertype, bias, o) : (Acctype)0;
    for (i32 kh = 0; kh < kernel_h; ++kh) {
      const i32 h = top + kh * dilation_h;
      if (h < 0 || h >= in_h) continue;
      for (i32 kw = 0; kw < kernel_w; ++kw) {
        const i32 w = left + kw * dilation_w;
        if (w < 0 || w >= in_w) continue;
        sum += LOAD(MItype, weights, (o * kernel_h + kh) * kernel_w + kw) *
               LOAD(MItype, x, (source * in_h + h) * in_w + w);
      }
    }
    STORE(MOtype, y, r * out_w + ow, EPILOGUE(sum, o, 0, r * out_w + ow));
  }
}

// Gathers: x_diff is the sum over the windows that contain the element.
KERNEL(depthwise_backward_data, ARG(i64, rows), FOLD(i64, channels), FOLD(i32, multiplier),
       FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, out_h), FOLD(i32, out_w), FOLD(i32, kernel_h),
       FOLD(i32, kernel_w), FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h),
       FOLD(i32, pad_w), FOLD(i32, dilation_h), FOLD(i32, dilation_w), IN(MOtype, y_diff),
       IN(MItype, weights), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, w, in_w) {
    const Index plane = r / in_h, c = plane % channels;
    const i32 h = (i32)(r - plane * in_h) + pad_h;
    Acctype sum = 0;
    for (i32 m = 0; m < multiplier; ++m) {
      for (i32 kh = 0; kh < kernel_h; ++kh) {
        const i32 top = h - kh * dilation_h, oh = top / stride_h;
        if (top < 0 || oh * stride_h != top || oh >= out_h) continue;
        for (i32 kw = 0; kw < kernel_w; ++kw) {
          const i32 left = (i32)w + pad_w - kw * dilation_w, ow = left / stride_w;
          if (left < 0 || ow * stride_w != left || ow >= out_w) continue;
          sum += LOAD(MItype, weights, ((c * multiplier + m) * kernel_h + kh) * kernel_w + kw) *
                 LOAD(MOtype, y_diff, ((plane * multiplier + m) * out_h + oh) * out_w + ow);
        }
      }
    }
    STORE(MItype, x_diff, r * in_w + w, sum);
  }
}

// The gradient of the weights in work groups of GROUP: one group for every weight and each of
// `slices` parts of the sum over images and positions. With one slice w_diff += the sum; with
// several each group writes its part to w_diff [slices, weights], for accumulate_parts. The order
// of the sum is fixed.
KERNEL(depthwise_backward_weights, ARG(i32, count), ARG(i32, images), ARG(i32, slices),
       FOLD(i32, channels), FOLD(i32, multiplier), FOLD(i32, in_h), FOLD(i32, in_w),
       FOLD(i32, out_h), FOLD(i32, out_w), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w),
       FOLD(i32, dilation_h), FOLD(i32, dilation_w), IN(MItype, x), IN(MOtype, y_diff),
       OUT(Mastertype, w_diff)) {
  LOCAL Acctype parts[GROUP];
  const i32 t = LOCAL_ID(0), weight = (i32)GROUP_ID(0), slice = (i32)GROUP_ID(1);
  const i32 o = weight / (kernel_h * kernel_w), tap = weight - o * (kernel_h * kernel_w);
  const i32 kh = tap / kernel_w, kw = tap - kh * kernel_w;
  const i32 top = kh * dilation_h - pad_h, left = kw * dilation_w - pad_w;
  const i32 positions = out_h * out_w, total = images * positions;
  Acctype sum = 0;
  for (i32 j = slice * GROUP + t; j < total; j += slices * GROUP) {
    const i32 n = j / positions, p = j - n * positions, oh = p / out_w;
    const i32 h = oh * stride_h + top, w = (p - oh * out_w) * stride_w + left;
    if (h < 0 || h >= in_h || w < 0 || w >= in_w) continue;
    sum += LOAD(MOtype, y_diff, (i64)(n * channels * multiplier + o) * positions + p) *
           LOAD(MItype, x, ((i64)(n * channels + o / multiplier) * in_h + h) * in_w + w);
  }
  parts[t] = sum;
  BARRIER;
  for (i32 width = GROUP / 2; width > 0; width >>= 1) {
    if (t < width) parts[t] += parts[t + width];
    BARRIER;
  }
  if (t == 0) {
    const Acctype before = slices == 1 ? LOAD(Mastertype, w_diff, weight) : (Acctype)0;
    STORE(Mastertype, w_diff, slice * count + weight, before + parts[0]);
  }
}
