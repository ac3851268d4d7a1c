//! types: float quantized
// Rows of a mixture of experts, see moe/route.h: y [rows, columns] are rows of x [items, columns];
// row r is that of the item of pair source[r]. Rows without a pair are 0; those with an invalid one
// are NaN, or 0 in codes. `lanes` work items share a row.
#include "math/routed_row.h"
#if FLOAT_KIND
#define LOST_ROW as_f32(0x7fc00000u)
#else
#define LOST_ROW 0
#endif

KERNEL(moe_gather, ARG(i64, rows), ARG(i64, columns), ARG(i64, select), ARG(i64, lanes),
       ARG(i64, pairs), IN(MItype, x), IN(f32, source), OUT(MOtype, y)) {
  FOR_EACH_GROUP(g, rows * lanes) {
    const Index r = g / lanes, lane = g - r * lanes;
    const Index pair = (Index)routed_row(LOAD(f32, source, r), pairs), to = r * columns;
    if (pair < 0) {
      const Acctype none = pair < -1 ? LOST_ROW : 0;
      FOR_LANES(c, lane, lanes, columns) STORE(MOtype, y, to + c, none);
    } else {
      const Index from = pair / select * columns;
      SIMD
      FOR_LANES(c, lane, lanes, columns) {
        const Acctype v = LOAD(MItype, x, from + c);
        STORE(MOtype, y, to + c, v);
      }
    }
  }
}

#if FLOAT_KIND
// The gradient of an item is the sum of those of its rows.
KERNEL(moe_gather_backward, ARG(i64, items), ARG(i64, columns), ARG(i64, select), ARG(i64, rows),
       IN(MOtype, y_diff), IN(f32, slots), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(n, items, c, columns) {
    Acctype sum = 0;
    for (i32 k = 0; k < select; ++k) {
      const Index slot = (Index)routed_row(LOAD(f32, slots, n * select + k), rows);
      const Index from = slot < 0 ? 0 : slot * columns + c;
      const Acctype v = LOAD(MOtype, y_diff, from);
      sum += slot >= 0 ? v : slot < -1 ? LOST_ROW : 0;
    }
    STORE(MItype, x_diff, n * columns + c, sum);
  }
}
#endif
#undef LOST_ROW
