//! types: float
//! tests: solver
#include "dialect/training.h"
// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= rate correction m / (sqrt(v) + delta), where the correction depends on the iteration
// (arXiv 1412.6980, end of section 2).
// g becomes the update. A work item takes `unit` elements, a divisor of PARAMETER_BLOCK.
KERNEL(adam_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, m),
       OUT(Dtype, v), IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, beta1), ARG(Acctype, beta2), ARG(Acctype, delta)) {
  if (LOAD(f32, reals, STEP_SKIP) != 0.0f) return;
  const Acctype factor = LOAD(f32, reals, STEP_FACTOR) * normalize;
  FOR_EACH_GROUP(item, items) {
    const Index begin = item * unit, block = begin / PARAMETER_BLOCK;
    const Acctype rate_mult = LOAD(f32, multipliers, 2 * block);
    const Acctype decay_mult = LOAD(f32, multipliers, 2 * block + 1);
    const Acctype rate =
        LOAD(f32, reals, STEP_RATE) * LOAD(f32, reals, STEP_CORRECTION) * rate_mult;
    const Acctype decay2 = l2 * decay_mult, decay1 = l1 * decay_mult;
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      const Acctype x = LOAD(Dtype, w, i);
      const Acctype sign = (Acctype)((x > 0) - (x < 0));
      const Acctype d = LOAD(Dtype, g, i) * factor + decay2 * x + decay1 * sign;
      const Acctype mean = beta1 * LOAD(Dtype, m, i) + (REAL(1.0) - beta1) * d;
      const Acctype square = beta2 * LOAD(Dtype, v, i) + (REAL(1.0) - beta2) * (d * d);
      const Acctype step = rate * mean / (SQRT(square) + delta);
      STORE(Dtype, m, i, mean);
      STORE(Dtype, v, i, square);
      STORE(Dtype, g, i, step);
      STORE(Dtype, w, i, x - step);
    }
  }
}
