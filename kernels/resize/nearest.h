//! types: float quantized
// Nearest neighbours: output (h, w) is input (h height / out_height, w width / out_width), rounded
// down.
KERNEL(nearest_forward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 h = (i32)(r - plane * out_height) * height / out_height;
    const i32 w = (i32)c * width / out_width;
    STORE(MOtype, y, r * out_width + c, LOAD(MItype, x, (plane * height + h) * width + w));
  }
}

#if FLOAT_KIND
// The sum over the outputs that copy this input.
KERNEL(nearest_backward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index plane = r / height;
    const i32 h = (i32)(r - plane * height), w = (i32)c;
    const i32 h0 = (h * out_height + height - 1) / height, w0 = (w * out_width + width - 1) / width;
    const i32 h1 = ((h + 1) * out_height + height - 1) / height;
    const i32 w1 = ((w + 1) * out_width + width - 1) / width;
    Acctype sum = 0;
    for (i32 oh = h0; oh < h1; ++oh) {
      for (i32 ow = w0; ow < w1; ++ow) {
        sum += LOAD(MOtype, y_diff, (plane * out_height + oh) * out_width + ow);
      }
    }
    STORE(MItype, x_diff, r * width + c, sum);
  }
}
#endif
