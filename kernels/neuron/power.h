//! types: float
// y = (shift + scale x)^power. In place allowed.
KERNEL(power_constant, ARG(i64, n), OUT(MOtype, y), ARG(Acctype, value)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, value);
}

KERNEL(power_linear, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, LOAD(MItype, x, i) * scale + shift);
}

KERNEL(power_square, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift)) {
  FOR_EACH(i, n) {
    const Acctype u = LOAD(MItype, x, i) * scale + shift;
    STORE(MOtype, y, i, u * u);
  }
}

KERNEL(power_any, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift), ARG(Acctype, power)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, POW(LOAD(MItype, x, i) * scale + shift, power));
}

// factor is power * scale.
KERNEL(power_square_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, factor)) {
  FOR_EACH(i, n) {
    const Acctype u = LOAD(MItype, x, i) * scale + shift;
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * (u * factor));
  }
}

KERNEL(power_any_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, factor),
       ARG(Acctype, power_minus_1)) {
  FOR_EACH(i, n) {
    const Acctype u = LOAD(MItype, x, i) * scale + shift;
    STORE(MItype, x_diff, i, LOAD(MOtype, y_diff, i) * (POW(u, power_minus_1) * factor));
  }
}
