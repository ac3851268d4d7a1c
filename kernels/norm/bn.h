//! types: float
// Variances and running averages of channels; all arrays are masters. norm/channel_norm.h has the
// passes over the batch.

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
