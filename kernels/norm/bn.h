//! types: float
// y = slope v + bias with v = (x - mean) inverse, for each channel of [outer, channels, inner].
// Element (r, i) belongs to channel r % channels in "rows", to channel i in "columns". Statistics,
// slope and bias are masters. In place allowed; the gradient reads the original x, and x_diff may
// be y_diff. norm/batch_norm.h has the sums over the batch.

// The variance from partial sums of squares, and inverse = 1 / sqrt(variance + eps).
KERNEL(bn_variance, ARG(i64, channels), ARG(i64, count), IN(Mastertype, parts),
       ARG(Acctype, factor), ARG(Acctype, eps), OUT(Mastertype, variance),
       OUT(Mastertype, inverse)) {
  FOR_EACH_GROUP(c, channels) {
    Acctype sum = 0;
    for (Index p = 0; p < count; ++p) sum += LOAD(Mastertype, parts, p * channels + c);
    const Acctype v = sum * factor;
    STORE(Mastertype, variance, c, v);
    STORE(Mastertype, inverse, c, 1 / SQRT(v + eps));
  }
}

// Updates the running average: momentum * old + (1 - momentum) * new.
KERNEL(bn_average, ARG(i64, channels), ARG(Acctype, momentum), IN(Mastertype, mean),
       IN(Mastertype, variance), OUT(Mastertype, means), OUT(Mastertype, variances)) {
  FOR_EACH(c, channels) {
    const Acctype m = LOAD(Mastertype, mean, c), v = LOAD(Mastertype, variance, c);
    const Acctype old_m = LOAD(Mastertype, means, c), old_v = LOAD(Mastertype, variances, c);
    STORE(Mastertype, means, c, momentum * old_m + (1 - momentum) * m);
    STORE(Mastertype, variances, c, momentum * old_v + (1 - momentum) * v);
  }
}

KERNEL(bn_inverse, ARG(i64, channels), ARG(Acctype, eps), IN(Mastertype, variances),
       OUT(Mastertype, inverse)) {
  FOR_EACH(c, channels) {
    STORE(Mastertype, inverse, c, 1 / SQRT(LOAD(Mastertype, variances, c) + eps));
  }
}

SPAN_KERNEL(bn_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
            IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
            IN(Mastertype, bias), OUT(MOtype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MOtype, y, MItype, x, v,
            (v - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c) *
                    LOAD(Mastertype, slope, c) +
                LOAD(Mastertype, bias, c))
}

KERNEL(bn_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(Mastertype, mean),
       IN(Mastertype, inverse), IN(Mastertype, slope), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype d = LOAD(MItype, x, r * columns + i) - LOAD(Mastertype, mean, i);
    const Acctype v = d * LOAD(Mastertype, inverse, i);
    STORE(MOtype, y, r * columns + i, v * LOAD(Mastertype, slope, i) + LOAD(Mastertype, bias, i));
  }
}

// With `batch`, sums holds [2, channels]: of y_diff and of v y_diff; factor is 1 / (outer inner).
// Without `batch` x is not needed.
SPAN_KERNEL(bn_backward_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
            ARG(i32, batch), ARG(Acctype, factor), IN(MItype, x), IN(MOtype, y_diff),
            IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
            IN(Mastertype, sums), OUT(MItype, x_diff)) {
  MAP_ROWS2(rows, columns, channels, c, MItype, x_diff, MItype, x, u, MOtype, y_diff, d,
            (d - (batch ? LOAD(Mastertype, sums, c) * factor : 0) -
             (batch ? (u - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c) *
                          (LOAD(Mastertype, sums, channels + c) * factor)
                    : 0)) *
                (LOAD(Mastertype, inverse, c) * LOAD(Mastertype, slope, c)))
}

KERNEL(bn_backward_columns, ARG(i64, rows), ARG(i64, columns), ARG(i32, batch),
       ARG(Acctype, factor), IN(MItype, x), IN(MOtype, y_diff), IN(Mastertype, mean),
       IN(Mastertype, inverse), IN(Mastertype, slope), IN(Mastertype, sums), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Index at = r * columns + i;
    const Acctype k = LOAD(Mastertype, inverse, i);
    const Acctype v = (LOAD(MItype, x, at) - LOAD(Mastertype, mean, i)) * k;
    const Acctype by_mean = batch ? LOAD(Mastertype, sums, i) * factor : 0;
    const Acctype by_variance = batch ? v * (LOAD(Mastertype, sums, columns + i) * factor) : 0;
    const Acctype d = LOAD(MOtype, y_diff, at) - by_mean - by_variance;
    STORE(MItype, x_diff, at, d * (k * LOAD(Mastertype, slope, i)));
  }
}
