//! types: float quantized
// Rows of a mixture of experts, see moe/route.h: y [rows, columns] are rows of x [items, columns];
// row r is that of the item of pair source[r]. Rows without a pair are 0.
KERNEL(moe_gather, ARG(i64, rows), ARG(i64, columns), ARG(i64, select), IN(MItype, x),
       IN(f32, source), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index pair = (Index)LOAD(f32, source, r);
    const Index from = pair < 0 ? 0 : pair / select * columns + c;
    const Acctype v = LOAD(MItype, x, from);
    STORE(MOtype, y, r * columns + c, pair < 0 ? 0 : v);
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
