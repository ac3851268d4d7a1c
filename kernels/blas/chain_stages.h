//! types: float
//! tests: library
//! runs: host
// blas/chain.h with the stages as arguments, for the host: a row is computed in pieces that stay in
// the first cache, stage after stage. `formulas` has 5 bits for each stage, the first stage in the
// lowest ones: a number of ChainFormula in caffe/library/chain.hpp. The table is [constants, width].
// With by_column, column i has the constants i, and width is `columns`; otherwise row r has the
// constants r % width. The last row may have fewer columns: there are n elements. y may be x, but no
// summand.
#include "epilogue/absval.h"
#include "epilogue/bnll.h"
#include "epilogue/clip.h"
#include "epilogue/elu.h"
#include "epilogue/exp.h"
#include "epilogue/log.h"
#include "epilogue/power.h"
#include "epilogue/relu.h"
#include "epilogue/relu6.h"
#include "epilogue/sigmoid.h"
#include "epilogue/sum.h"
#include "epilogue/swish.h"
#include "epilogue/tanh.h"
#include "epilogue/threshold.h"
#define CHAIN_EACH(value) SIMD for (Index i = 0; i < count; ++i) v[i] = (value)
#define CHAIN_COLUMN(j) LOAD(Mastertype, table, at + (j) * width + i)
#define CHAIN_ADD(summand) CHAIN_EACH(sum_value(v[i], LOAD(MItype, summand, from + i), a))

KERNEL(chain_stages, ARG(i64, rows), ARG(i64, n), ARG(i64, columns), ARG(i64, width),
       ARG(i32, by_column), ARG(i32, stages), ARG(u64, formulas), IN(Mastertype, table),
       IN(MItype, x), IN(MItype, summand0), IN(MItype, summand1), IN(MItype, summand2),
       IN(MItype, summand3), OUT(MOtype, y)) {
  Acctype v[256];
  FOR_EACH_GROUP(r, rows) {
    const i64 row = r * columns, end = n - row < columns ? n - row : columns;
    for (i64 first = 0; first < end; first += 256) {
      const Index count = end - first < 256 ? end - first : 256;
      const i64 from = row + first;
      CHAIN_EACH(LOAD(MItype, x, from + i));
      i64 at = by_column ? first : r % width;
      u64 rest = formulas;
      i32 summand = 0;
      for (i32 s = 0; s < stages; ++s, rest >>= 5) {
        const i32 formula = (i32)(rest & 31);
        const i32 constants = formula < 5 ? 0 : formula < 12 ? 1 : formula < 16 ? 2 : 3;
        const Acctype a = constants > 0 ? LOAD(Mastertype, table, at) : (Acctype)0;
        const Acctype b = constants > 1 ? LOAD(Mastertype, table, at + width) : (Acctype)0;
        const Acctype c = constants > 2 ? LOAD(Mastertype, table, at + 2 * width) : (Acctype)0;
        switch (formula) {
          case 0: CHAIN_EACH(relu_value(v[i], 1)); break;
          case 1: CHAIN_EACH(sigmoid_value(v[i])); break;
          case 2: CHAIN_EACH(tanh_value(v[i])); break;
          case 3: CHAIN_EACH(absval_value(v[i])); break;
          case 4: CHAIN_EACH(bnll_value(v[i])); break;
          case 5:
            if (by_column) {
              CHAIN_EACH(leaky_value(v[i], 1, CHAIN_COLUMN(0)));
            } else {
              CHAIN_EACH(leaky_value(v[i], 1, a));
            }
            break;
          case 6: CHAIN_EACH(relu6_value(v[i], a)); break;
          case 7: CHAIN_EACH(elu_value(v[i], a)); break;
          case 8: CHAIN_EACH(swish_value(v[i], a)); break;
          case 9: CHAIN_EACH(threshold_value(v[i], a)); break;
          case 10: CHAIN_EACH(a); break;
          case 11:
            switch (summand++) {
              case 0: CHAIN_ADD(summand0); break;
              case 1: CHAIN_ADD(summand1); break;
              case 2: CHAIN_ADD(summand2); break;
              default: CHAIN_ADD(summand3);
            }
            break;
          case 12:
            if (by_column) {
              CHAIN_EACH(linear_value(v[i], CHAIN_COLUMN(0), CHAIN_COLUMN(1)));
            } else {
              CHAIN_EACH(linear_value(v[i], a, b));
            }
            break;
          case 13: CHAIN_EACH(clip_value(v[i], a, b)); break;
          case 14: CHAIN_EACH(exp_value(v[i], a, b)); break;
          case 15: CHAIN_EACH(square_value(v[i], a, b)); break;
          case 16: CHAIN_EACH(log_value(v[i], a, b, c)); break;
          default: CHAIN_EACH(power_value(v[i], a, b, c));
        }
        at += constants * width;
      }
      SIMD for (Index i = 0; i < count; ++i) STORE(MOtype, y, from + i, v[i]);
    }
  }
}
