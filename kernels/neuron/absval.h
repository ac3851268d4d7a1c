//! types: float master narrow
// y = |x|. In place allowed; the gradient reads the original x.
#include "epilogue/absval.h"

DEVICE_FN Acctype absval_gradient(Acctype d, Acctype x) { return x > 0 ? d : x < 0 ? -d : 0; }

KERNEL(absval_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, absval_value(LOAD(MItype, x, i)));
}

KERNEL(absval_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, absval_gradient(LOAD(MOtype, y_diff, i), LOAD(MItype, x, i)));
  }
}
