//! types: float master
// Bias and activation over y [outer, channels, inner] and the bias' gradient. MItype is the type of
// x and y, MOtype that of the bias. Element (r, i) lies at (r / per) * outer_step + (r % per) *
// row_step + i. In place allowed.
KERNEL(bias_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, outer_step),
       ARG(i64, row_step), ARG(i32, relu), IN(MItype, x), IN(MOtype, bias), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / per, channel = r - outer * per;
    const i64 at = outer * outer_step + channel * row_step + i;
    const Acctype v = LOAD(MItype, x, at) + LOAD(MOtype, bias, channel);
    STORE(MItype, y, at, relu && v < 0 ? (Acctype)0 : v);
  }
}

KERNEL(bias_columns, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, outer_step),
       ARG(i64, row_step), ARG(i32, relu), IN(MItype, x), IN(MOtype, bias), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / per;
    const i64 at = outer * outer_step + (r - outer * per) * row_step + i;
    const Acctype v = LOAD(MItype, x, at) + LOAD(MOtype, bias, i);
    STORE(MItype, y, at, relu && v < 0 ? (Acctype)0 : v);
  }
}

KERNEL(bias_none, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, outer_step),
       ARG(i64, row_step), ARG(i32, relu), IN(MItype, x), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / per;
    const i64 at = outer * outer_step + (r - outer * per) * row_step + i;
    const Acctype v = LOAD(MItype, x, at);
    STORE(MItype, y, at, relu && v < 0 ? (Acctype)0 : v);
  }
}

// b_diff += the sum of y_diff over outer and inner; each inner row is summed apart, so that long
// sums keep their digits.
KERNEL(bias_backward, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), IN(MItype, y_diff),
       OUT(MOtype, b_diff)) {
  FOR_EACH_GROUP(c, channels) {
    Acctype sum = 0;
    for (i64 o = 0; o < outer; ++o) {
      const i64 row = (o * channels + c) * inner;
      Acctype part = 0;
      SIMD_SUM(part)
      for (i64 i = 0; i < inner; ++i) part += LOAD(MItype, y_diff, row + i);
      sum += part;
    }
    STORE(MOtype, b_diff, c, LOAD(MOtype, b_diff, c) + sum);
  }
}

// The same for inner = 1, where neighbouring channels are neighbours in memory.
KERNEL(bias_backward_columns, ARG(i64, channels), ARG(i64, outer), IN(MItype, y_diff),
       OUT(MOtype, b_diff)) {
  FOR_EACH(c, channels) {
    Acctype sum = 0;
    for (i64 o = 0; o < outer; ++o) sum += LOAD(MItype, y_diff, o * channels + c);
    STORE(MOtype, b_diff, c, LOAD(MOtype, b_diff, c) + sum);
  }
}
