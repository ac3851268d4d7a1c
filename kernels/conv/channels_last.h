//! types: float master
//! tests: library
// Between arrays of convolutions and the form in which a library computes them, with channels last.
// A window of kernel_h x kernel_w with strides fold_h x fold_w is a window of folded_h x folded_w
// with stride 1 on positions that hold fold_h x fold_w elements of the image each, as channels:
//   element (h, w, c) is channel ((rh fold_w) + rw) channels + c of position (jh, jw),
//   h + pad_h = jh fold_h + rh, w + pad_w = jw fold_w + rw.
// There are `padded` channels; those that stand for nothing are 0. With a fold of 1x1 and no
// padding this only adds channels.

// y [n, out_h, out_w, padded] = x [n, in_h, in_w, channels]; rows = n out_h out_w. The strides are
// those of x, which may also be [n, channels, in_h, in_w].
KERNEL(fold_input, ARG(i64, rows), FOLD(i64, in_h), FOLD(i64, in_w), FOLD(i64, channels),
       FOLD(i64, padded), FOLD(i64, fold_h), FOLD(i64, fold_w), FOLD(i64, pad_h), FOLD(i64, pad_w),
       FOLD(i64, out_h), FOLD(i64, out_w), FOLD(i64, channel_stride), FOLD(i64, position_stride),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, padded) {
    const Index row = r / out_w, jw = r - row * out_w, n = row / out_h, jh = row - n * out_h;
    const Index tap = c / channels, channel = c - tap * channels;
    const Index rh = tap / fold_w, rw = tap - rh * fold_w;
    const Index h = jh * fold_h + rh - pad_h, w = jw * fold_w + rw - pad_w;
    const i32 inside = rh < fold_h && h >= 0 && h < in_h && w >= 0 && w < in_w;
    STORE(MOtype, y, (i64)r * padded + c,
          inside ? LOAD(MItype, x,
                        (i64)n * in_h * in_w * channels + (h * in_w + w) * position_stride +
                            channel * channel_stride)
                 : 0);
  }
}

// The reverse: y [n, in_h, in_w, channels] from x [n, out_h, out_w, padded]; rows = n in_h in_w.
// Elements that no position has are 0.
KERNEL(unfold_input, ARG(i64, rows), FOLD(i64, in_h), FOLD(i64, in_w), FOLD(i64, channels),
       FOLD(i64, padded), FOLD(i64, fold_h), FOLD(i64, fold_w), FOLD(i64, pad_h), FOLD(i64, pad_w),
       FOLD(i64, out_h), FOLD(i64, out_w), FOLD(i64, channel_stride), FOLD(i64, position_stride),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, channels) {
    const Index row = r / in_w, w = r - row * in_w + pad_w;
    const Index n = row / in_h, h = row - n * in_h + pad_h;
    const Index jh = h / fold_h, jw = w / fold_w;
    const Index tap = (h - jh * fold_h) * fold_w + (w - jw * fold_w);
    const i32 inside = jh < out_h && jw < out_w;
    STORE(MOtype, y,
          (i64)n * in_h * in_w * channels + (r - n * in_h * in_w) * position_stride +
              c * channel_stride,
          inside ? LOAD(MItype, x, ((i64)(n * out_h + jh) * out_w + jw) * padded +
                                       tap * channels + c)
                 : 0);
  }
}

// y [out, folded_h, folded_w, padded] = x [out, channels, kernel_h, kernel_w]; rows = out folded_h
// folded_w.
KERNEL(fold_filter, ARG(i64, rows), FOLD(i64, channels), FOLD(i64, padded), FOLD(i64, fold_h),
       FOLD(i64, fold_w), FOLD(i64, kernel_h), FOLD(i64, kernel_w), FOLD(i64, folded_h),
       FOLD(i64, folded_w), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, padded) {
    const Index row = r / folded_w, jw = r - row * folded_w;
    const Index o = row / folded_h, jh = row - o * folded_h;
    const Index tap = c / channels, channel = c - tap * channels;
    const Index rh = tap / fold_w, rw = tap - rh * fold_w;
    const Index h = jh * fold_h + rh, w = jw * fold_w + rw;
    const i32 inside = rh < fold_h && h < kernel_h && w < kernel_w;
    STORE(MOtype, y, (i64)r * padded + c,
          inside ? LOAD(MItype, x, ((i64)(o * channels + channel) * kernel_h + h) * kernel_w + w)
                 : 0);
  }
}

// y [out, channels, kernel_h, kernel_w] += x [out, folded_h, folded_w, padded]; rows = out
// channels.
KERNEL(add_filter_gradient, ARG(i64, rows), FOLD(i64, channels), FOLD(i64, padded),
       FOLD(i64, fold_h), FOLD(i64, fold_w), FOLD(i64, kernel_h), FOLD(i64, kernel_w),
       FOLD(i64, folded_h), FOLD(i64, folded_w), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, t, kernel_h * kernel_w) {
    const Index o = r / channels, channel = r - o * channels;
    const Index h = t / kernel_w, w = t - h * kernel_w;
    const Index jh = h / fold_h, jw = w / fold_w;
    const Index tap = (h - jh * fold_h) * fold_w + (w - jw * fold_w);
    const i64 at = (i64)r * (kernel_h * kernel_w) + t;
    const i64 from = ((i64)(o * folded_h + jh) * folded_w + jw) * padded + tap * channels + channel;
    STORE(MOtype, y, at, LOAD(MOtype, y, at) + LOAD(MItype, x, from));
  }
}
