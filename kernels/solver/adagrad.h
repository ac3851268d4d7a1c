//! types: float
//! tests: solver
#include "dialect/training.h"
// h += g^2; w -= rate g / (sqrt(h) + delta).
// g becomes the update. A work item takes `unit` elements, a divisor of PARAMETER_BLOCK.
KERNEL(adagrad_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g),
       OUT(Dtype, h), IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, delta)) {
  if (LOAD(f32, reals, STEP_SKIP) != 0.0f) return;
  const Acctype factor = LOAD(f32, reals, STEP_FACTOR) * normalize;
  FOR_EACH_GROUP(item, items) {
    const Index begin = item * unit, block = begin / PARAMETER_BLOCK;
    const Acctype rate_mult = LOAD(f32, multipliers, 2 * block);
    const Acctype decay_mult = LOAD(f32, multipliers, 2 * block + 1);
    const Acctype rate = LOAD(f32, reals, STEP_RATE) * rate_mult;
    const Acctype decay2 = l2 * decay_mult, decay1 = l1 * decay_mult;
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      const Acctype x = LOAD(Dtype, w, i);
      const Acctype sign = (Acctype)((x > 0) - (x < 0));
      const Acctype d = LOAD(Dtype, g, i) * factor + decay2 * x + decay1 * sign;
      const Acctype sum = LOAD(Dtype, h, i) + d * d;
      const Acctype step = rate * d / (SQRT(sum) + delta);
      STORE(Dtype, h, i, sum);
      STORE(Dtype, g, i, step);
      STORE(Dtype, w, i, x - step);
    }
  }
}
