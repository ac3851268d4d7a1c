//! types: float
// Bilinear resizing with aligned corners, row by row and column by column. Output o of O is at
// position o (I - 1) / (O - 1) of I inputs, or 0 if O is 1. Quotient and remainder are computed in
// integers. The I = in_h rows and in_w columns begin at row and column `begin` of a larger image.
// steps is max(O - 1, 1).
KERNEL(interp_forward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, begin),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_height), ARG(i32, out_width), ARG(i32, steps_h),
       ARG(i32, steps_w), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 at_h = (i32)(r - plane * out_height) * (in_h - 1), h = at_h / steps_h;
    const i32 at_w = (i32)c * (in_w - 1), w = at_w / steps_w;
    const i32 rest_h = at_h - h * steps_h, rest_w = at_w - w * steps_w;
    // Without a remainder the next row or column has weight 0 and may be out of range.
    const i32 down = rest_h > 0 ? width : 0, right = rest_w > 0 ? 1 : 0;
    const Acctype part_h = (Acctype)rest_h / (Acctype)steps_h;
    const Acctype part_w = (Acctype)rest_w / (Acctype)steps_w;
    const Index at = (plane * height + begin + h) * width + begin + w;
    const Acctype a = LOAD(MItype, x, at), b = LOAD(MItype, x, at + right);
    const Acctype d = LOAD(MItype, x, at + down), e = LOAD(MItype, x, at + down + right);
    const Acctype upper = rest_w > 0 ? (1 - part_w) * a + part_w * b : a;
    const Acctype lower = rest_w > 0 ? (1 - part_w) * d + part_w * e : d;
    const Acctype v = rest_h > 0 ? (1 - part_h) * upper + part_h * lower : upper;
    STORE(MOtype, y, r * out_width + c, v);
  }
}

// Gathers the outputs between input i - 1 and input i + 1, with the weights of the forward pass.
KERNEL(interp_backward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, begin),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_height), ARG(i32, out_width), ARG(i32, steps_h),
       ARG(i32, steps_w), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index plane = r / height;
    const i32 h = (i32)(r - plane * height) - begin, w = (i32)c - begin;
    const i32 inside = h >= 0 && h < in_h && w >= 0 && w < in_w;
    const i32 gaps_h = in_h > 1 ? in_h - 1 : 1, gaps_w = in_w > 1 ? in_w - 1 : 1;
    const i32 h0 = h > 0 ? (h - 1) * steps_h / gaps_h + 1 : 0;
    const i32 w0 = w > 0 ? (w - 1) * steps_w / gaps_w + 1 : 0;
    const i32 end_h = in_h > 1 ? ((h + 1) * steps_h - 1) / gaps_h + 1 : out_height;
    const i32 end_w = in_w > 1 ? ((w + 1) * steps_w - 1) / gaps_w + 1 : out_width;
    const i32 h1 = end_h < out_height ? end_h : out_height;
    const i32 w1 = end_w < out_width ? end_w : out_width;
    Acctype sum = 0;
    for (i32 oh = h0; inside && oh < h1; ++oh) {
      const i32 at_h = oh * (in_h - 1), from_h = at_h / steps_h;
      const Acctype part_h = (Acctype)(at_h - from_h * steps_h) / (Acctype)steps_h;
      Acctype row = 0;
      for (i32 ow = w0; ow < w1; ++ow) {
        const i32 at_w = ow * (in_w - 1), from_w = at_w / steps_w;
        const Acctype part_w = (Acctype)(at_w - from_w * steps_w) / (Acctype)steps_w;
        const Index at = (plane * out_height + oh) * out_width + ow;
        row += LOAD(MOtype, y_diff, at) * (from_w == w ? 1 - part_w : part_w);
      }
      sum += row * (from_h == h ? 1 - part_h : part_h);
    }
    STORE(MItype, x_diff, r * width + c, sum);
  }
}
