//! types: float master narrow
// y = tanh(x). In place allowed.
#include "epilogue/tanh.h"

DEVICE_FN Acctype tanh_gradient(Acctype d, Acctype y) { return d * (1 - y * y); }

KERNEL(tanh_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, tanh_value(LOAD(MItype, x, i)));
}

KERNEL(tanh_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, tanh_gradient(LOAD(MOtype, y_diff, i), LOAD(MOtype, y, i)));
  }
}
