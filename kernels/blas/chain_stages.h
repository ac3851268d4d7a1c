//! types: float
//! tests: library
//! runs: host
// blas/chain.h with the stages as arguments, for the host: a row is computed in pieces that stay in
// the first cache, stage after stage. `functions` has 5 bits for each stage, the first stage in the
// lowest ones: a number of epilogue/functions.h. The table is [constants, width]. With by_column,
// column i has the constants i, and width is `columns`; otherwise row r has the constants r %
// width. The last row may have fewer columns: there are n elements. y may be x, but no summand.
#include "epilogue/functions.h"
#define STAGE_kSame(constants, formula)    \
  SIMD for (Index i = 0; i < count; ++i) { \
    const Acctype v = values[i];           \
    (void)v;                               \
    values[i] = formula;                   \
  }
#define STAGE_CONSTANT(j, constants) \
  (constants > j ? LOAD(Mastertype, table, at + j * width + i) : (Acctype)0)
#define STAGE_kChannels(constants, formula)                                             \
  if (by_column) {                                                                      \
    SIMD for (Index i = 0; i < count; ++i) {                                            \
      const Acctype v = values[i], a = STAGE_CONSTANT(0, constants);                    \
      const Acctype b = STAGE_CONSTANT(1, constants), c = STAGE_CONSTANT(2, constants); \
      (void)b, (void)c;                                                                 \
      values[i] = formula;                                                              \
    }                                                                                   \
  } else {                                                                              \
    STAGE_kSame(constants, formula)                                                     \
  }
#define STAGE_ADD(formula, summand)                    \
  SIMD for (Index i = 0; i < count; ++i) {             \
    const Acctype v = values[i];                       \
    const Acctype u = LOAD(MItype, summand, from + i); \
    values[i] = formula;                               \
  }
#define STAGE_kSummand(constants, formula)      \
  switch (summand++) {                          \
    case 0: STAGE_ADD(formula, summand0) break; \
    case 1: STAGE_ADD(formula, summand1) break; \
    case 2: STAGE_ADD(formula, summand2) break; \
    default: STAGE_ADD(formula, summand3)       \
  }
#define STAGE(name, file, use, operand, constants, formula, ...)    \
  case Function##name:                                              \
    if (constants > 0) a = LOAD(Mastertype, table, at);             \
    if (constants > 1) b = LOAD(Mastertype, table, at + width);     \
    if (constants > 2) c = LOAD(Mastertype, table, at + 2 * width); \
    STAGE_##operand(constants, formula)                             \
    at += constants * width;                                        \
    break;

KERNEL(chain_stages, ARG(i64, rows), ARG(i64, n), ARG(i64, columns), ARG(i64, width),
       ARG(i32, by_column), ARG(i32, stages), ARG(u64, functions), IN(Mastertype, table),
       IN(MItype, x), IN(MItype, summand0), IN(MItype, summand1), IN(MItype, summand2),
       IN(MItype, summand3), OUT(MOtype, y)) {
  Acctype values[256];
  FOR_EACH_GROUP(r, rows) {
    const i64 row = r * columns, end = n - row < columns ? n - row : columns;
    for (i64 first = 0; first < end; first += 256) {
      const Index count = end - first < 256 ? end - first : 256;
      const i64 from = row + first;
      SIMD for (Index i = 0; i < count; ++i) values[i] = LOAD(MItype, x, from + i);
      i64 at = by_column ? first : r % width;
      u64 rest = functions;
      i32 summand = 0;
      Acctype a = 0, b = 0, c = 0;
      for (i32 s = 0; s < stages; ++s, rest >>= 5) {
        switch ((i32)(rest & 31)) { CAFFE_ELEMENT_FUNCTIONS(STAGE) }
      }
      SIMD for (Index i = 0; i < count; ++i) STORE(MOtype, y, from + i, values[i]);
    }
  }
}
