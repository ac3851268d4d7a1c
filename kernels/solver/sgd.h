//! types: float
//! tests: solver
#include "math/update_rule.h"
// h = momentum h + rate g; w -= h.
KERNEL(sgd_update, ARG(i64, items), FOLD(i64, unit), OUT(Dtype, w), OUT(Dtype, g), OUT(Dtype, h),
       IN(f32, reals), IN(f32, multipliers), ARG(Acctype, l2), ARG(Acctype, l1),
       ARG(Acctype, normalize), ARG(Acctype, momentum)) {
  FOR_EACH_PART(item) {
    LOAD_PART(item, LOAD(f32, reals, STEP_RATE));
    SIMD
    for (Index i = begin; i < begin + unit; ++i) {
      LOAD_PARAMETER(i);
      const Acctype step = momentum * LOAD(Dtype, h, i) + rate * d;
      STORE(Dtype, h, i, step);
      STORE_UPDATE(i, step);
    }
  }
}
