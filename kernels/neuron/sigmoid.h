//! types: float
// y = 1 / (1 + exp(-x)). The exponential is taken of -|x|: it never overflows, and small y keep
// their digits. In place allowed.
KERNEL(sigmoid_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    const Acctype e = EXP(v < 0 ? v : -v);
    STORE(MOtype, y, i, (v < 0 ? e : REAL(1.0)) / (REAL(1.0) + e));
  }
}

KERNEL(sigmoid_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MOtype, y, i);
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * v * (REAL(1.0) - v));
  }
}
