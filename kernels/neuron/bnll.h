//! types: float
// y = ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|). In place allowed: the slope is 1 - e^-y.
DEVICE_FN Acctype bnll_value(Acctype x) {
  const Acctype e = EXP(x < 0 ? x : -x), u = REAL(1.0) + e;
  // ln(1 + e) without the rounding error of u = 1 + e: Goldberg, What every computer scientist
  // should know about floating-point arithmetic, theorem 4.
  const Acctype log_u = u == 1 ? e : LOG(u) * (e / (u - REAL(1.0)));
  return x > 0 ? x + log_u : log_u;
}

DEVICE_FN Acctype bnll_gradient(Acctype d, Acctype y) { return d * (0 - EXPM1(-y)); }

KERNEL(bnll_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, bnll_value(LOAD(MItype, x, i)));
}

KERNEL(bnll_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, bnll_gradient(LOAD(MOtype, y_diff, i), LOAD(MOtype, y, i)));
  }
}
