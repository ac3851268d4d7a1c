//! types: float master narrow
// y = 1 / (1 + e^-x). In place allowed.
#include "epilogue/sigmoid.h"

DEVICE_FN Acctype sigmoid_gradient(Acctype d, Acctype y) { return d * y * (REAL(1.0) - y); }

KERNEL(sigmoid_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, sigmoid_value(LOAD(MItype, x, i)));
}

KERNEL(sigmoid_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, sigmoid_gradient(LOAD(MOtype, y_diff, i), LOAD(MOtype, y, i)));
  }
}
