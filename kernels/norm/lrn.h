//! types: device
// Local response normalisation of x [rows, columns], of which `extent` rows are one group:
//   scale = k + factor * sum of x^2 over a window around the element, factor = alpha / window size
//   y = x scale^-beta
//   x_diff = y_diff scale^-beta - 2 factor beta x * sum of y_diff x scale^(-beta - 1) over windows
// The window is 2 reach + 1 rows of the group by 2 side + 1 columns. Across channels a group is an
// image, a row a channel and side is 0; within a channel a group is a plane and a row a row of it.
// Sums have one fixed order, so that float gives the same bits on every device. lrn_rows.h has the
// CPU's kernels.
#include "epilogue/lrn_power.h"
#include "math/window_sum.h"

#define LRN_SQUARE(at) (LOAD(MItype, x, at) * LOAD(MItype, x, at))
#define LRN_RATIO(at) LOAD(Mastertype, ratio, at)

KERNEL(lrn_forward, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    WINDOW_SUM(sum, r, c, LRN_SQUARE)
    const Index at = r * (Index)columns + c;
    STORE(MOtype, y, at, LOAD(MItype, x, at) * lrn_power(k + factor * sum, quarters, beta));
  }
}

// The two factors of x_diff that all elements of a window share: power = scale^-beta and
// ratio = y_diff x scale^(-beta - 1).
KERNEL(lrn_parts, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power),
       OUT(Mastertype, ratio)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    WINDOW_SUM(sum, r, c, LRN_SQUARE)
    const Index at = r * (Index)columns + c;
    const Acctype scale = k + factor * sum, t = lrn_power(scale, quarters, beta);
    STORE(Mastertype, power, at, t);
    STORE(Mastertype, ratio, at, LOAD(MOtype, y_diff, at) * LOAD(MItype, x, at) * t / scale);
  }
}

KERNEL(lrn_backward, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x),
       IN(MOtype, y_diff), IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    WINDOW_SUM(sum, r, c, LRN_RATIO)
    const Index at = r * (Index)columns + c;
    const Acctype own = LOAD(MOtype, y_diff, at) * LOAD(Mastertype, power, at);
    STORE(MItype, x_diff, at, own - 2 * factor * beta * LOAD(MItype, x, at) * sum);
  }
}
#undef LRN_SQUARE
#undef LRN_RATIO
