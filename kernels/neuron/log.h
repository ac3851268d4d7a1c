//! types: float master narrow
// y = factor ln(shift + scale x). In place allowed; the gradient reads the original x.
#include "epilogue/log.h"

// numerator is scale * factor.
DEVICE_FN Acctype log_gradient(Acctype d, Acctype x, Acctype scale, Acctype shift,
                               Acctype numerator) {
  return d * (numerator / (x * scale + shift));
}

KERNEL(log_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale),
       ARG(Acctype, shift), ARG(Acctype, factor)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, log_value(LOAD(MItype, x, i), scale, shift, factor));
}

KERNEL(log_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, scale), ARG(Acctype, shift), ARG(Acctype, numerator)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, log_gradient(d, LOAD(MItype, x, i), scale, shift, numerator));
  }
}
