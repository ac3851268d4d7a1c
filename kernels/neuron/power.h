//! types: float master narrow
// y = u^power, u = shift + scale x, with separate kernels for a constant, power 1 and power 2. In
// place allowed; the gradient reads the original x, except for "linear".
#include "epilogue/power.h"

// factor is power * scale.
DEVICE_FN Acctype square_gradient(Acctype d, Acctype x, Acctype scale, Acctype shift,
                                  Acctype factor) {
  return d * ((x * scale + shift) * factor);
}

DEVICE_FN Acctype power_gradient(Acctype d, Acctype x, Acctype scale, Acctype shift,
                                 Acctype factor, Acctype power_minus_1) {
  return d * (POW(x * scale + shift, power_minus_1) * factor);
}

// x is not read.
KERNEL(power_constant, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, value)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, value);
}

KERNEL(power_linear, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, linear_value(LOAD(MItype, x, i), scale, shift));
}

KERNEL(power_square, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, square_value(LOAD(MItype, x, i), scale, shift));
}

KERNEL(power_any, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift), ARG(Acctype, power)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, power_value(LOAD(MItype, x, i), scale, shift, power));
}

KERNEL(power_square_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, factor)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, square_gradient(d, LOAD(MItype, x, i), scale, shift, factor));
  }
}

KERNEL(power_any_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, factor),
       ARG(Acctype, power_minus_1)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i), v = LOAD(MItype, x, i);
    STORE(MItype, x_diff, i, power_gradient(d, v, scale, shift, factor, power_minus_1));
  }
}
