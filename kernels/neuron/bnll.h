//! types: float master narrow
// y = ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|). In place allowed: the slope is 1 - e^-y.
#include "epilogue/bnll.h"

DEVICE_FN Acctype bnll_gradient(Acctype d, Acctype y) { return d * (0 - EXPM1(-y)); }

KERNEL(bnll_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, bnll_value(LOAD(MItype, x, i)));
}

KERNEL(bnll_backward, ARG(i64, n), IN(MOtype, y), IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    STORE(MItype, x_diff, i, bnll_gradient(LOAD(MOtype, y_diff, i), LOAD(MOtype, y, i)));
  }
}
