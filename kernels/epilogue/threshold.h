// 1 if x > threshold, else 0. NaN is propagated.
DEVICE_FN Acctype threshold_value(Acctype x, Acctype threshold) {
  return x > threshold ? REAL(1.0) : x != x ? x : 0;
}
