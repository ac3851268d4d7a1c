//! types: float narrow
//! tests: library
//! runs: host
// y = x with a bias and stages that are arguments, for the host: blas/epilogue.h and blas/chain.h
// have them in their texts. A row is computed in pieces that stay in the first cache, stage after
// stage. Element (r, i) is at (r / per) * outer + (r % per) * stride + i, if that is below n for
// y; summands have the layout of y. bias_axis and table_axis are 0 (one constant for all), 1 (per
// row of one outer index) or 2 (per column); the bias has none of these with 0. See
// epilogue/stages.h for the stages and the table. y may be x, but no summand.
#include "epilogue/stages.h"

KERNEL(stages, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, x_outer),
       ARG(i64, x_stride), ARG(i64, y_outer), ARG(i64, y_stride), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, summand0),
       IN(Mastertype, table), ARG(i32, table_axis), ARG(i32, count), ARG(u64, functions),
       ARG(i64, pitch), ARG(i64, n), IN(MOtype, summand1), IN(MOtype, summand2),
       IN(MOtype, summand3), IN(MItype, x), ARG(i32, bias_axis), IN(Mastertype, bias),
       OUT(MOtype, y)) {
  const STORAGE(MOtype)* const summands[4] = {summand0, summand1, summand2, summand3};
  const i32 by_row = table_axis == 1, by_column = table_axis == 2;
  Acctype v[256];
  FOR_EACH_GROUP(r, rows) {
    const i64 outer = r / per, row = r - outer * per;
    const i64 x_row = outer * x_outer + row * x_stride, y_row = outer * y_outer + row * y_stride;
    const i64 end = n - y_row < columns ? n - y_row : columns;
    const Acctype offset = bias_axis == 1 ? LOAD(Mastertype, bias, row) : (Acctype)0;
    for (i64 first = 0; first < end; first += 256) {
      const Index m = end - first < 256 ? end - first : 256;
      const i64 from = x_row + first, to = y_row + first;
      if (bias_axis == 1) {
        SIMD for (Index i = 0; i < m; ++i) v[i] = LOAD(MItype, x, from + i) + offset;
      } else if (bias_axis == 2) {
        SIMD for (Index i = 0; i < m; ++i) {
          v[i] = LOAD(MItype, x, from + i) + LOAD(Mastertype, bias, first + i);
        }
      } else {
        SIMD for (Index i = 0; i < m; ++i) v[i] = LOAD(MItype, x, from + i);
      }
      apply_stages(v, m, count, functions, activation_a, activation_b, coefficient,
                   table + row * by_row + first * by_column, pitch, by_column, summands, to,
                   summand0_zero);
      SIMD for (Index i = 0; i < m; ++i) STORE(MOtype, y, to + i, v[i]);
    }
  }
}
