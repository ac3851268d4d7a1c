//! types: float master
// y = x if x > 0, else slope * x. Element (r, i) belongs to channel r % channels in "rows", to
// channel i in "columns". MItype is the type of x and y, MOtype that of slopes. In place allowed;
// the gradients read the original x, and x_diff may be y_diff.
#include "epilogue/relu.h"
#include "math/channel_parts.h"

KERNEL(prelu_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
       IN(MOtype, slope), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + i);
    STORE(MItype, y, r * columns + i, leaky_value(v, 1, LOAD(MOtype, slope, r % (Index)channels)));
  }
}

KERNEL(prelu_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(MOtype, slope),
       OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + i);
    STORE(MItype, y, r * columns + i, leaky_value(v, 1, LOAD(MOtype, slope, i)));
  }
}

KERNEL(prelu_backward_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
       IN(MOtype, slope), IN(MItype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype d = LOAD(MItype, y_diff, r * columns + i);
    const i32 positive = LOAD(MItype, x, r * columns + i) > 0;
    const Index c = r % (Index)channels;
    STORE(MItype, x_diff, r * columns + i, positive ? d : d * LOAD(MOtype, slope, c));
  }
}

KERNEL(prelu_backward_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(MOtype, slope),
       IN(MItype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype d = LOAD(MItype, y_diff, r * columns + i);
    const i32 positive = LOAD(MItype, x, r * columns + i) > 0;
    STORE(MItype, x_diff, r * columns + i, positive ? d : d * LOAD(MOtype, slope, i));
  }
}

// Partial sums of x y_diff where x <= 0; see math/channel_parts.h.
KERNEL(prelu_slope_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, x), IN(MItype, y_diff), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(,
                FOR_LANES(i, lane, lanes, inner) {
                  const Acctype v = LOAD(MItype, x, row + i);
                  part += v > 0 ? 0 : v * LOAD(MItype, y_diff, row + i);
                },
                sum)
}
