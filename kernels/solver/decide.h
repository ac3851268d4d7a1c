//! types: once
//! tests: solver
#include "dialect/training.h"
// sums[g] = the sum of every groups-th of the parts, from part g on.
KERNEL(gradient_sums, ARG(i64, groups), ARG(i64, n), IN(f32, parts), OUT(f32, sums)) {
  FOR_EACH_GROUP(g, groups) {
    float sum = 0;
    for (i64 i = g; i < n; i += groups) sum += LOAD(f32, parts, i);
    STORE(f32, sums, g, sum);
  }
}

// One work item. Decides whether the gradients are used (with `checks`, only if all are finite),
// computes their factor (clipping, and the inverse of the loss scale) and, with `adapts`, the next
// loss scale: half after an overflow, double after `window` steps without one.
KERNEL(gradient_decide, ARG(i64, one), ARG(i64, n), IN(f32, sums), OUT(f32, reals),
       ARG(Acctype, clip), ARG(i32, checks), ARG(i32, adapts), ARG(i32, window)) {
  FOR_EACH_GROUP(item, one) {
    float sum = 0;
    for (i64 i = 0; i < n; ++i) sum += LOAD(f32, sums, i);
    const float scale = LOAD(f32, reals, STEP_LOSS_SCALE);
    const i32 overflow = checks != 0 && !(sum - sum == 0.0f);
    const float norm = SQRT(sum) / scale;
    const float clipping = clip >= 0.0f && norm > clip ? clip / norm : 1.0f;
    STORE(f32, reals, STEP_SKIP, overflow ? 1.0f : 0.0f);
    STORE(f32, reals, STEP_FACTOR, clipping / scale);
    STORE(f32, reals, STEP_NORM, norm);
    if (adapts != 0) {
      const float good = overflow ? 0.0f : LOAD(f32, reals, STEP_GOOD_STEPS) + 1.0f;
      const i32 grows = good >= (float)window;
      const float next = overflow ? scale * 0.5f : grows ? scale * 2.0f : scale;
      STORE(f32, reals, STEP_LOSS_SCALE,
            next < 1.0f ? 1.0f : next > 16777216.0f ? 16777216.0f : next);
      STORE(f32, reals, STEP_GOOD_STEPS, grows ? 0.0f : good);
    }
    if (overflow) {
      STORE(f32, reals, STEP_SKIPPED_STEPS, LOAD(f32, reals, STEP_SKIPPED_STEPS) + 1.0f);
    }
  }
}
