//! types: float
//! tests: solver
#include "math/update_rule.h"
// h = decay h + (1 - decay) g^2; w -= rate g / (sqrt(h) + delta).
KERNEL(rmsprop_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g),
       OUT(Dtype, h), IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, decay), ARG(Acctype, delta)) {
  FOR_EACH_PART(item) {
    LOAD_PART(item, LOAD(f32, reals, STEP_RATE));
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      LOAD_PARAMETER(i);
      const Acctype mean = decay * LOAD(Dtype, h, i) + (REAL(1.0) - decay) * (d * d);
      const Acctype step = rate * d / (SQRT(mean) + delta);
      STORE(Dtype, h, i, mean);
      STORE_UPDATE(i, step);
    }
  }
}
