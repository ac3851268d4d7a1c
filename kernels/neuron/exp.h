//! types: float
// y = outer e^(inner x). In place allowed.
KERNEL(exp_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, inner),
       ARG(Acctype, outer)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, EXP(LOAD(MItype, x, i) * inner) * outer);
}

KERNEL(exp_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, inner)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * (LOAD(MOtype, y, i) * inner));
  }
}
