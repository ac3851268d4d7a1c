//! types: float master
//! tests: library
//! runs: host bias_backward
// The gradient of a bias of y [outer, channels, inner]. MItype is the type of y_diff, MOtype that
// of the bias.

// b_diff += the sum of y_diff over outer and inner; each inner row is summed separately, so that
// long sums stay accurate.
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

// The same for inner = 1, where neighbouring channels are adjacent in memory.
KERNEL(bias_backward_columns, ARG(i64, channels), ARG(i64, outer), IN(MItype, y_diff),
       OUT(MOtype, b_diff)) {
  FOR_EACH(c, channels) {
    Acctype sum = 0;
    for (i64 o = 0; o < outer; ++o) sum += LOAD(MItype, y_diff, o * channels + c);
    STORE(MOtype, b_diff, c, LOAD(MOtype, b_diff, c) + sum);
  }
}
