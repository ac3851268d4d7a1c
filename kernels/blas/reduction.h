//! types: float
// Sums of x, |x| and x^2 times factor, as partial sums for norm/channel_sums.h, and their
// gradients.
#include "math/channel_parts.h"

KERNEL(reduction_sum, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, x), ARG(Acctype, factor), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(, LANES1(lane, lanes, row, inner, MItype, x, v, part += v), sum * factor)
}

KERNEL(reduction_asum, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, x), ARG(Acctype, factor), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(,
                LANES1(lane, lanes, row, inner, MItype, x, v, part += v < 0 ? -v : v),
                sum * factor)
}

KERNEL(reduction_sumsq, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, x), ARG(Acctype, factor), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(, LANES1(lane, lanes, row, inner, MItype, x, v, part += v * v), sum * factor)
}

// Row r of x belongs to element r * y_stride of y; y_stride is 0 if all rows share one element.
KERNEL(reduction_sum_backward, ARG(i64, rows), ARG(i64, columns), ARG(i64, y_stride),
       IN(MOtype, y_diff), ARG(Acctype, factor), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MItype, x_diff, r * columns + c, LOAD(MOtype, y_diff, r * y_stride) * factor);
  }
}

KERNEL(reduction_asum_backward, ARG(i64, rows), ARG(i64, columns), ARG(i64, y_stride),
       IN(MItype, x), IN(MOtype, y_diff), ARG(Acctype, factor), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + c);
    const Acctype d = LOAD(MOtype, y_diff, r * y_stride) * factor;
    STORE(MItype, x_diff, r * columns + c, v > 0 ? d : v < 0 ? -d : 0);
  }
}

// factor is twice that of the sum.
KERNEL(reduction_sumsq_backward, ARG(i64, rows), ARG(i64, columns), ARG(i64, y_stride),
       IN(MItype, x), IN(MOtype, y_diff), ARG(Acctype, factor), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Acctype d = LOAD(MOtype, y_diff, r * y_stride) * factor;
    STORE(MItype, x_diff, r * columns + c, LOAD(MItype, x, r * columns + c) * d);
  }
}
