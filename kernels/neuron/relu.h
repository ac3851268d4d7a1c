//! types: float quantized master narrow
// y = 0 if x < 0, else x; with a slope x if x > 0, else slope * x. In place allowed.
#include "epilogue/relu.h"

SPAN_KERNEL(relu_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale)) {
  MAP1(n, MOtype, y, MItype, x, v, relu_value(v, rescale))
}

SPAN_KERNEL(relu_forward_slope, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale),
            ARG(Scaletype, slope)) {
  MAP1(n, MOtype, y, MItype, x, v, leaky_value(v, rescale, slope))
}

#if FLOAT_KIND
SPAN_KERNEL(relu_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_diff), OUT(MItype, x_diff),
            ARG(Scaletype, slope)) {
  MAP2(n, MItype, x_diff, MItype, x, v, MOtype, y_diff, d, v > 0 ? d : SCALE(d, slope))
}
#endif
