//! types: float quantized
// Rows of a mixture of experts, see moe/route.h: y [rows, columns] are rows of x [items, columns];
// row r is that of the item of pair source[r]. Rows without a pair are 0. `lanes` work items share a
// row.
KERNEL(moe_gather, ARG(i64, rows), ARG(i64, columns), ARG(i64, select), ARG(i64, lanes),
       IN(MItype, x), IN(f32, source), OUT(MOtype, y)) {
  FOR_EACH_GROUP(g, rows * lanes) {
    const Index r = g / lanes, lane = g - r * lanes, pair = (Index)LOAD(f32, source, r);
    const Index to = r * columns;
    if (pair < 0) {
      FOR_LANES(c, lane, lanes, columns) STORE(MOtype, y, to + c, 0);
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
KERNEL(moe_gather_backward, ARG(i64, items), ARG(i64, columns), ARG(i64, select), IN(MOtype, y_diff),
       IN(f32, slots), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(n, items, c, columns) {
    Acctype sum = 0;
    for (i32 k = 0; k < select; ++k) {
      const Index slot = (Index)LOAD(f32, slots, n * select + k);
      const Index from = slot < 0 ? 0 : slot * columns + c;
      const Acctype v = LOAD(MOtype, y_diff, from);
      sum += slot < 0 ? 0 : v;
    }
    STORE(MItype, x_diff, n * columns + c, sum);
  }
}
#endif
