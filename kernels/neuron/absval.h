//! types: float
// y = |x|.
KERNEL(absval_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    STORE(MOtype, y, i, v > 0 ? v : 0 - v);
  }
}

KERNEL(absval_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i), d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, v > 0 ? d : v < 0 ? -d : 0);
  }
}
