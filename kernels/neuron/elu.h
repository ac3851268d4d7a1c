//! types: float master narrow
// y = x if x > 0, else alpha (e^x - 1). In place allowed; the gradient reads x and y. If alpha is
// not negative, y can replace x, since their signs are equal.
#include "epilogue/elu.h"

DEVICE_FN Acctype elu_gradient(Acctype d, Acctype x, Acctype y, Acctype alpha) {
  return x > 0 ? d : d * (y + alpha);
}

KERNEL(elu_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, alpha)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, elu_value(LOAD(MItype, x, i), alpha));
}

KERNEL(elu_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, alpha)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MOtype, y, i);
    STORE(MItype, x_diff, i, elu_gradient(LOAD(MOtype, y_diff, i), v, v, alpha));
  }
}

KERNEL(elu_backward_both, ARG(i64, n), IN(MItype, x), IN(MOtype, y), IN(MOtype, y_diff),
       OUT(MItype, x_diff), ARG(Acctype, alpha)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, elu_gradient(d, LOAD(MItype, x, i), LOAD(MOtype, y, i), alpha));
  }
}
