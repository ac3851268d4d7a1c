//! types: float
// y = factor ln(shift + scale x). In place allowed.
KERNEL(log_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift), ARG(Acctype, factor)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, LOG(LOAD(MItype, x, i) * scale + shift) * factor);
}

KERNEL(log_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, numerator)) {
  FOR_EACH(i, n) {
    const Acctype u = LOAD(MItype, x, i) * scale + shift;
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * (numerator / u));
  }
}
