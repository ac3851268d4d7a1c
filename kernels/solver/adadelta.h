//! types: float
//! tests: solver
#include "math/update_rule.h"
// h = momentum h + (1 - momentum) g^2; u = g sqrt((k + delta) / (h + delta));
// k = momentum k + (1 - momentum) u^2; w -= rate u.
KERNEL(adadelta_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g),
       OUT(Dtype, h), OUT(Dtype, k), IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2),
       ARG(Acctype, l1), ARG(Acctype, normalize), ARG(Acctype, momentum), ARG(Acctype, delta)) {
  FOR_EACH_PART(item) {
    LOAD_PART(item, LOAD(f32, reals, STEP_RATE));
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      LOAD_PARAMETER(i);
      const Acctype mean = momentum * LOAD(Dtype, h, i) + (REAL(1.0) - momentum) * (d * d);
      const Acctype old = LOAD(Dtype, k, i);
      const Acctype u = d * SQRT((old + delta) / (mean + delta));
      const Acctype step = rate * u;
      STORE(Dtype, h, i, mean);
      STORE(Dtype, k, i, momentum * old + (REAL(1.0) - momentum) * (u * u));
      STORE_UPDATE(i, step);
    }
  }
}
