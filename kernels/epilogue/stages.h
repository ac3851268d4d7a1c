// Stages over n values, for host kernels whose arguments select them. `functions` has 5 bits for
// each stage, the first one in the lowest bits: a number of functions.h.
#include "epilogue/functions.h"
#define STAGE_CONSTANT(j, constants, i) \
  (constants > j ? LOAD(Mastertype, constant, j * stride + i) : (Acctype)0)
#define STAGE_LOOP(formula)            \
  SIMD for (Index i = 0; i < n; ++i) { \
    const Acctype v = values[i];       \
    (void)v;                           \
    values[i] = formula;               \
  }
#define STAGE_kSame(constants, formula)                                                   \
  const Acctype a = STAGE_CONSTANT(0, constants, 0), b = STAGE_CONSTANT(1, constants, 0); \
  const Acctype c = STAGE_CONSTANT(2, constants, 0);                                      \
  (void)a, (void)b, (void)c;                                                              \
  STAGE_LOOP(formula)
#define STAGE_kChannels(constants, formula)                              \
  if (by_value) {                                                        \
    SIMD for (Index i = 0; i < n; ++i) {                                 \
      const Acctype v = values[i], a = STAGE_CONSTANT(0, constants, i);  \
      const Acctype b = STAGE_CONSTANT(1, constants, i);                 \
      (void)b;                                                           \
      values[i] = formula;                                               \
    }                                                                    \
  } else {                                                               \
    STAGE_kSame(constants, formula)                                      \
  }
#define STAGE_kSummand(constants, formula)                       \
  const Acctype a = STAGE_CONSTANT(0, constants, 0);             \
  const STORAGE(MOtype)* const summand = *summands++;            \
  SIMD for (Index i = 0; i < n; ++i) {                           \
    const Acctype v = values[i], u = LOAD(MOtype, summand, from + i);  \
    values[i] = formula;                                         \
  }
#define STAGE_OWN_kSame scalars
#define STAGE_OWN_kChannels table
#define STAGE_OWN_kSummand scalars + 2
#define STAGE(name, file, use, operand, constants, formula, ...)                           \
  case Function##name: {                                                                   \
    const STORAGE(Mastertype)* const constant = pitch > 0 ? table : STAGE_OWN_##operand;   \
    table += constants * pitch;                                                            \
    STAGE_##operand(constants, formula)                                                    \
    break;                                                                                 \
  }

// The constants of a stage are in the table, constant j at j * pitch behind those of the stages
// before it; with by_value each value has its own in the stages whose constants differ between
// channels. With pitch 0 the table has only the constants of such a stage, others are arguments.
DEVICE_FN void apply_stages(Acctype* values, Index n, i32 stages, u64 functions,
                            Acctype activation_a, Acctype activation_b, Acctype coefficient,
                            const STORAGE(Mastertype)* table, i64 pitch, i32 by_value,
                            const STORAGE(MOtype)* const* summands, i64 from,
                            const CAT(zero_, MOtype) summand_zero) {
  const STORAGE(Mastertype) scalars[3] = {activation_a, activation_b, coefficient};
  const i64 stride = pitch > 0 ? pitch : 1;
  const i32 constant_zero = 0;
  for (i32 s = 0; s < stages; ++s, functions >>= 5) {
    switch ((i32)(functions & 31)) { CAFFE_ELEMENT_FUNCTIONS(STAGE) }
  }
}
