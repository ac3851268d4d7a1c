//! types: float master narrow
// y = x clamped to [low, high]. The gradient passes where low <= x <= high. In place allowed; the
// gradient reads the original x. NaN is propagated.
#include "epilogue/clip.h"

DEVICE_FN Acctype clip_gradient(Acctype d, Acctype x, Acctype low, Acctype high) {
  return x < low || x > high ? 0 : d;
}

KERNEL(clip_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, low),
       ARG(Acctype, high)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, clip_value(LOAD(MItype, x, i), low, high));
}

KERNEL(clip_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Acctype, low), ARG(Acctype, high)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, clip_gradient(d, LOAD(MItype, x, i), low, high));
  }
}
