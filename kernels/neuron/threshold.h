//! types: float master narrow
// y = 1 if x > threshold, else 0. In place allowed. NaN is propagated.
#include "epilogue/threshold.h"

KERNEL(threshold_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, threshold)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, threshold_value(LOAD(MItype, x, i), threshold));
}
