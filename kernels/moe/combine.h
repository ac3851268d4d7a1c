//! types: float
// The output of a mixture of experts: y [items, columns] is the sum over an item's pairs of weight
// times row slots[pair] of x [rows, columns]. Rows that no pair uses are not read. An invalid slot
// or pair gives NaN.
#include "math/routed_row.h"

KERNEL(moe_combine, ARG(i64, items), ARG(i64, columns), ARG(i64, select), ARG(i64, rows),
       IN(MItype, x), IN(MItype, weights), IN(f32, slots), OUT(MOtype, y)) {
  FOR_EACH_ROW(n, items, c, columns) {
    Acctype sum = 0;
    for (i32 k = 0; k < select; ++k) {
      const Index slot = (Index)routed_row(LOAD(f32, slots, n * select + k), rows);
      if (slot >= 0) {
        sum += LOAD(MItype, weights, n * select + k) * LOAD(MItype, x, slot * columns + c);
      } else if (slot < -1) {
        sum = as_f32(0x7fc00000u);
      }
    }
    STORE(MOtype, y, n * columns + c, sum);
  }
}

KERNEL(moe_combine_backward, ARG(i64, rows), ARG(i64, columns), ARG(i64, select), ARG(i64, pairs),
       IN(MOtype, y_diff), IN(MItype, weights), IN(f32, source), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index pair = (Index)routed_row(LOAD(f32, source, r), pairs);
    Acctype v = pair < -1 ? as_f32(0x7fc00000u) : 0;
    if (pair >= 0) {
      v = LOAD(MItype, weights, pair) * LOAD(MOtype, y_diff, pair / (Index)select * columns + c);
    }
    STORE(MItype, x_diff, r * columns + c, v);
  }
}

// `lanes` work items share a pair; parts is [pairs, lanes].
KERNEL(moe_combine_weight_parts, ARG(i64, pairs), ARG(i64, columns), ARG(i64, select),
       ARG(i64, lanes), ARG(i64, rows), IN(MOtype, y_diff), IN(MItype, x), IN(f32, slots),
       OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, pairs * lanes) {
    const Index pair = g / lanes, lane = g - pair * lanes;
    const Index slot = (Index)routed_row(LOAD(f32, slots, pair), rows);
    const Index dy = pair / (Index)select * columns, row = slot * columns;
    Acctype sum = slot < -1 ? as_f32(0x7fc00000u) : 0;
    if (slot >= 0) {
      SIMD_SUM(sum)
      FOR_LANES(c, lane, lanes, columns) {
        sum += LOAD(MOtype, y_diff, dy + c) * LOAD(MItype, x, row + c);
      }
    }
    STORE(Mastertype, parts, g, sum);
  }
}

KERNEL(moe_combine_weight_sums, ARG(i64, pairs), ARG(i64, lanes), IN(Mastertype, parts),
       OUT(MItype, weights_diff)) {
  FOR_EACH_GROUP(pair, pairs) {
    Acctype sum = 0;
    for (Index lane = 0; lane < lanes; ++lane) sum += LOAD(Mastertype, parts, pair * lanes + lane);
    STORE(MItype, weights_diff, pair, sum);
  }
}
