//! types: device
//! tests: library
// fold_input of channels_last.h on devices: an item computes SPAN channels of a position, of which
// there are a multiple of SPAN. Elements that stand for nothing are 0: the zero point of codes.
SPAN_KERNEL(fold_channels, ARG(i64, rows), FOLD(i32, in_h), FOLD(i32, in_w), FOLD(i32, channels),
            FOLD(i32, padded), FOLD(i32, fold_h), FOLD(i32, fold_w), FOLD(i32, pad_h),
            FOLD(i32, pad_w), FOLD(i32, out_h), FOLD(i32, out_w), FOLD(i32, channel_stride),
            FOLD(i32, position_stride), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_SPAN(begin, rows * padded) {
    const Index row = (Index)begin / padded, c0 = (Index)begin - row * padded;
    const Index line = row / out_w, jw = row - line * out_w;
    const Index n = line / out_h, jh = line - n * out_h;
    const Index image = n * (in_h * in_w * channels);
    const Index top = jh * fold_h - pad_h, left = jw * fold_w - pad_w;
    Acctype v[SPAN];
    FOR_SPAN(k) {
      const Index c = c0 + k, pixel = c / channels, channel = c - pixel * channels;
      const Index rh = pixel / fold_w, h = top + rh, w = left + pixel - rh * fold_w;
      const i32 inside = rh < fold_h && h >= 0 && h < in_h && w >= 0 && w < in_w;
      v[k] = inside ? LOAD(MItype, x, image + (h * in_w + w) * position_stride +
                                          channel * channel_stride)
                    : 0;
    }
    STORE_SPAN(MOtype, y, begin, rows * padded, v);
  }
}
