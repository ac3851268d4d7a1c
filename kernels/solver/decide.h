//! types: once
//! tests: solver
//! runs: host
#include "math/decide_step.h"
// One work item adds n parts, those of BLOCK before those of the next.
#define BLOCK 256
KERNEL(gradient_decide, ARG(i64, one), ARG(i64, n), IN(f32, sums), OUT(f32, reals),
       ARG(Acctype, clip), ARG(i32, checks), ARG(i32, adapts), ARG(i32, window)) {
  FOR_EACH_GROUP(item, one) {
    float sum = 0;
    for (i64 begin = 0; begin < n; begin += BLOCK) {
      float part = 0;
      for (i64 i = begin; i < n && i < begin + BLOCK; ++i) part += LOAD(f32, sums, i);
      sum += part;
    }
    DECIDE_STEP(sum)
  }
}
