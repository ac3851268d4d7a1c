//! types: float master narrow
// y = 6 if x > 6, x if x > 0, else slope x. In place allowed; the gradient reads x, or y if slope
// is not negative. NaN is propagated.
#include "epilogue/relu6.h"

DEVICE_FN Acctype relu6_gradient(Acctype d, Acctype x, Acctype slope) {
  return x >= 6 ? 0 : x > 0 ? d : d * slope;
}

KERNEL(relu6_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, slope)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, relu6_value(LOAD(MItype, x, i), slope));
}

KERNEL(relu6_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, slope)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, relu6_gradient(d, LOAD(MItype, x, i), slope));
  }
}
