//! types: float narrow
//! tests: library
//! runs: host
// blas/epilogue.h with the stages as arguments, for the host: a row is computed in pieces that stay
// in the first cache, stage after stage. bias_axis and slope_axis are 0 (none, one slope for all),
// 1 (per row) or 2 (per column); sum is 1 if the residual is added before the activation, 2 if it
// is added after it; `function` is a number of epilogue/functions.h, FunctionClip for bounds.
#include "epilogue/activate.h"

KERNEL(stages, ARG(i64, rows), ARG(i64, columns), ARG(i64, per), ARG(i64, x_outer),
       ARG(i64, x_stride), ARG(i64, y_outer), ARG(i64, y_stride), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), ARG(i32, bias_axis), ARG(i32, slope_axis), ARG(i32, sum),
       ARG(i32, function), IN(MItype, x), IN(Mastertype, bias), OUT(MOtype, y)) {
  Acctype v[256];
  FOR_EACH_GROUP(r, rows) {
    const i64 outer = r / per, row = r - outer * per;
    const Acctype offset = bias_axis == 1 ? LOAD(Mastertype, bias, row) : (Acctype)0;
    Acctype a = activation_a;
    if (function == FunctionPReLU && slope_axis != 2) {
      a = LOAD(Mastertype, slopes, slope_axis == 1 ? row : 0);
    }
    for (i64 first = 0; first < columns; first += 256) {
      const Index n = columns - first < 256 ? columns - first : 256;
      const i64 from = outer * x_outer + row * x_stride + first;
      const i64 to = outer * y_outer + row * y_stride + first;
      SIMD for (Index i = 0; i < n; ++i) v[i] = LOAD(MItype, x, from + i);
      if (bias_axis == 1) {
        SIMD for (Index i = 0; i < n; ++i) v[i] += offset;
      } else if (bias_axis == 2) {
        SIMD for (Index i = 0; i < n; ++i) v[i] += LOAD(Mastertype, bias, first + i);
      }
      if (sum == 1) {
        SIMD for (Index i = 0; i < n; ++i) {
          v[i] = sum_value(v[i], LOAD(MOtype, residual, to + i), coefficient);
        }
      }
      if (function == FunctionPReLU && slope_axis == 2) {
        SIMD for (Index i = 0; i < n; ++i) {
          v[i] = leaky_value(v[i], 1, LOAD(Mastertype, slopes, first + i));
        }
      } else {
        activate(v, n, function, a, activation_b);
      }
      if (sum == 2) {
        SIMD for (Index i = 0; i < n; ++i) {
          v[i] = sum_value(v[i], LOAD(MOtype, residual, to + i), coefficient);
        }
      }
      SIMD for (Index i = 0; i < n; ++i) STORE(MOtype, y, to + i, v[i]);
    }
  }
}
