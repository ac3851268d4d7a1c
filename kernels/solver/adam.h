//! types: float
//! tests: solver
#include "math/update_rule.h"
// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= rate correction m / (sqrt(v) + delta), where the correction depends on the iteration
// (arXiv 1412.6980, end of section 2).
KERNEL(adam_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, m),
       OUT(Dtype, v), IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, beta1), ARG(Acctype, beta2), ARG(Acctype, delta)) {
  FOR_EACH_PART(item) {
    LOAD_PART(item, LOAD(f32, reals, STEP_RATE) * LOAD(f32, reals, STEP_CORRECTION));
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      LOAD_PARAMETER(i);
      const Acctype mean = beta1 * LOAD(Dtype, m, i) + (REAL(1.0) - beta1) * d;
      const Acctype square = beta2 * LOAD(Dtype, v, i) + (REAL(1.0) - beta2) * (d * d);
      const Acctype step = rate * mean / (SQRT(square) + delta);
      STORE(Dtype, m, i, mean);
      STORE(Dtype, v, i, square);
      STORE_UPDATE(i, step);
    }
  }
}
