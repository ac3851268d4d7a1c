//! types: quantized
// As interp_forward (resize/interp.h) between codes of one range: the mean of the four codes around
// a position, with whole numbers as weights, whose sum is steps_h steps_w. One rounding, half away
// from zero. steps_h steps_w is at most 2^40, so that sums fit in 64 bits.
KERNEL(interp_codes, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, begin),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_height), ARG(i32, out_width), ARG(i32, steps_h),
       ARG(i32, steps_w), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 at_h = (i32)(r - plane * out_height) * (in_h - 1), h = at_h / steps_h;
    const i32 at_w = (i32)c * (in_w - 1), w = at_w / steps_w;
    const i32 rest_h = at_h - h * steps_h, rest_w = at_w - w * steps_w;
    // Without a remainder the next row or column has weight 0 and may be out of range.
    const i32 down = rest_h > 0 ? width : 0, right = rest_w > 0 ? 1 : 0;
    const Index at = (plane * height + begin + h) * width + begin + w;
    const i64 a = LOAD(MItype, x, at), b = LOAD(MItype, x, at + right);
    const i64 d = LOAD(MItype, x, at + down), e = LOAD(MItype, x, at + down + right);
    const i64 upper = a * (steps_w - rest_w) + b * rest_w;
    const i64 lower = d * (steps_w - rest_w) + e * rest_w;
    const i64 sum = upper * (steps_h - rest_h) + lower * rest_h;
    const i64 parts = (i64)steps_h * steps_w, size = sum < 0 ? -sum : sum;
    const i64 mean = (2 * size + parts) / (2 * parts);
    STORE(MOtype, y, r * out_width + c, (Acctype)(sum < 0 ? -mean : mean));
  }
}
