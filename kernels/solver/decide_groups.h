//! types: device once
//! tests: solver
#include "math/decide_step.h"
// One work group of GROUP items adds n parts, in a fixed order.
KERNEL(gradient_decide_groups, ARG(i64, n), IN(f32, sums), OUT(f32, reals), ARG(Acctype, clip),
       ARG(i32, checks), ARG(i32, adapts), ARG(i32, window)) {
  LOCAL float parts[GROUP];
  const i32 t = LOCAL_ID(0);
  float own = 0;
  for (i64 i = t; i < n; i += GROUP) own += LOAD(f32, sums, i);
  parts[t] = own;
  BARRIER;
  for (i32 width = GROUP / 2; width > 0; width >>= 1) {
    if (t < width) parts[t] += parts[t + width];
    BARRIER;
  }
  if (t == 0) {
    const float sum = parts[0];
    DECIDE_STEP(sum)
  }
}
