//! types: float narrow
//! tests: library
// y = x with a bias per row, per column or none, and an epilogue. Element (r, i) of y and of the
// residual is at (r / per) * y_outer + (r % per) * y_stride + i, likewise for x. Slopes are per row
// of one outer index, or per column. In place allowed. On the host, blas/stages.h computes
// epilogues other than bounds.
#include "epilogue/bounds.h"

KERNEL(bias_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, x_outer),
       ARG(i64, x_stride), ARG(i64, y_outer), ARG(i64, y_stride), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), IN(MItype, x), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / (Index)per, row = r - outer * per;
    const i64 at = outer * y_outer + row * y_stride + i;
    const Acctype v = LOAD(MItype, x, outer * x_outer + row * x_stride + i);
    const Acctype sum = v + LOAD(Mastertype, bias, row);
    STORE(MOtype, y, at, EPILOGUE(sum, row, i, at));
  }
}

KERNEL(bias_columns, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, x_outer),
       ARG(i64, x_stride), ARG(i64, y_outer), ARG(i64, y_stride), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), IN(MItype, x), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / (Index)per, row = r - outer * per;
    const i64 at = outer * y_outer + row * y_stride + i;
    const Acctype v = LOAD(MItype, x, outer * x_outer + row * x_stride + i);
    const Acctype sum = v + LOAD(Mastertype, bias, i);
    STORE(MOtype, y, at, EPILOGUE(sum, row, i, at));
  }
}

KERNEL(bias_none, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, x_outer),
       ARG(i64, x_stride), ARG(i64, y_outer), ARG(i64, y_stride), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i64 outer = r / (Index)per, row = r - outer * per;
    const i64 at = outer * y_outer + row * y_stride + i;
    const Acctype sum = LOAD(MItype, x, outer * x_outer + row * x_stride + i);
    STORE(MOtype, y, at, EPILOGUE(sum, row, i, at));
  }
}
