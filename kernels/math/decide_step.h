// Decides from the sum of the squares of all gradients whether they are used (with `checks`, only
// if all are finite), computes their factor (clipping, and the inverse of the loss scale) and, with
// `adapts`, the next loss scale: half after an overflow, double after `window` steps without one.
#include "dialect/training.h"
#define DECIDE_STEP(sum)                                                                          \
  const float scale = LOAD(f32, reals, STEP_LOSS_SCALE);                                          \
  const i32 overflow = checks != 0 && !(sum - sum == 0.0f);                                       \
  const float norm = SQRT(sum) / scale;                                                           \
  const float clipping = clip >= 0.0f && norm > clip ? clip / norm : 1.0f;                        \
  STORE(f32, reals, STEP_SKIP, overflow ? 1.0f : 0.0f);                                           \
  STORE(f32, reals, STEP_FACTOR, clipping / scale);                                               \
  STORE(f32, reals, STEP_NORM, norm);                                                             \
  if (adapts != 0) {                                                                              \
    const float good = overflow ? 0.0f : LOAD(f32, reals, STEP_GOOD_STEPS) + 1.0f;                \
    const i32 grows = good >= (float)window;                                                      \
    const float next = overflow ? scale * 0.5f : grows ? scale * 2.0f : scale;                    \
    STORE(f32, reals, STEP_LOSS_SCALE,                                                            \
          next < 1.0f ? 1.0f : next > 16777216.0f ? 16777216.0f : next);                          \
    STORE(f32, reals, STEP_GOOD_STEPS, grows ? 0.0f : good);                                      \
  }                                                                                               \
  if (overflow) {                                                                                 \
    STORE(f32, reals, STEP_SKIPPED_STEPS, LOAD(f32, reals, STEP_SKIPPED_STEPS) + 1.0f);           \
  }
