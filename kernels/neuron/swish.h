//! types: float master narrow
// y = x s(beta x) with the logistic function s(v) = 1 / (1 + e^-v). s and 1 - s can be exactly 0: y
// is 0 at one end and x at the other. In place allowed; the gradient reads the original x.
#include "epilogue/swish.h"

// s + v s (1 - s), where s (1 - s) is e / (1 + e)^2. If that is 0, its product with v is skipped.
DEVICE_FN Acctype swish_gradient(Acctype d, Acctype x, Acctype beta) {
  const Acctype v = x * beta, e = EXP(v < 0 ? v : -v), sum = REAL(1.0) + e;
  const Acctype s = (v < 0 ? e : REAL(1.0)) / sum, both = e / (sum * sum);
  return d * (both == 0 ? s : s + v * both);
}

KERNEL(swish_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, beta)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, swish_value(LOAD(MItype, x, i), beta));
}

KERNEL(swish_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, beta)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, swish_gradient(d, LOAD(MItype, x, i), beta));
  }
}
