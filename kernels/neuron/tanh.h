//! types: float
// y = tanh(x). In place allowed.
KERNEL(tanh_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, TANH(LOAD(MItype, x, i)));
}

KERNEL(tanh_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    const Acctype t = LOAD(MOtype, y, i);
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * (1 - t * t));
  }
}
