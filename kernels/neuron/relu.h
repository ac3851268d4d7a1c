//! types: float quantized
// y = 0 if x < 0, else x; with a slope x if x > 0, else slope * x. In place allowed.
#include "epilogue/relu.h"

KERNEL(relu_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, relu_value(LOAD(MItype, x, i), rescale));
}

KERNEL(relu_forward_slope, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale),
       ARG(Scaletype, slope)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, leaky_value(LOAD(MItype, x, i), rescale, slope));
}

#if FLOAT_KIND
KERNEL(relu_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
       ARG(Scaletype, slope)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, LOAD(MItype, x, i) > 0 ? d : SCALE(d, slope));
  }
}
#endif
