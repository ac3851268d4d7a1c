//! types: float master narrow
// y = outer e^(inner x). In place allowed.
#include "epilogue/exp.h"

DEVICE_FN Acctype exp_gradient(Acctype d, Acctype y, Acctype inner) { return d * (y * inner); }

KERNEL(exp_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, inner),
       ARG(Acctype, outer)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, exp_value(LOAD(MItype, x, i), inner, outer));
}

KERNEL(exp_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, inner)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, exp_gradient(LOAD(MOtype, y_diff, i), LOAD(MOtype, y, i), inner));
  }
}
