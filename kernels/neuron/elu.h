//! types: float
// y = x if x > 0, else alpha (e^x - 1). In place allowed; then x may be y in the gradient, too,
// unless alpha is negative.
KERNEL(elu_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, alpha)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    STORE(MOtype, y, i, v > 0 ? v : alpha * EXPM1(v));
  }
}

KERNEL(elu_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y), IN(MOtype, y_diff),
       OUT(MItype, x_diff), ARG(Acctype, alpha)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, LOAD(MItype, x, i) > 0 ? d : d * (LOAD(MOtype, y, i) + alpha));
  }
}
