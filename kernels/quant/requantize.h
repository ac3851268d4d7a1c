//! types: once
//! tests: device
// y = x * multiplier / 2^shift by channel, with one rounding, half away from zero: converts sums of
// products to the output's scale. x and y are [rows, channels]. See math/requantize.h.
KERNEL(requantize_sums_i32, ARG(i64, rows), ARG(i64, channels), IN(i32, x), IN(i32, multiplier),
       IN(i32, shift), OUT(i32, y)) {
  FOR_EACH_ROW(r, rows, c, channels) {
    const Index at = r * channels + c;
    STORE(i32, y, at, requantize_i32(LOAD(i32, x, at), LOAD(i32, multiplier, c), LOAD(i32, shift, c)));
  }
}

KERNEL(requantize_sums_i64, ARG(i64, rows), ARG(i64, channels), IN(i64, x), IN(i32, multiplier),
       IN(i32, shift), OUT(i32, y)) {
  FOR_EACH_ROW(r, rows, c, channels) {
    const Index at = r * channels + c;
    const i64 v = requantize_i64(LOAD(i64, x, at), LOAD(i32, multiplier, c), LOAD(i32, shift, c));
    STORE(i32, y, at, (i32)v);
  }
}
