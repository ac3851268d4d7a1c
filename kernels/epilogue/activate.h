// An activation over n values, for kernels whose arguments select it.
#include "epilogue/functions.h"
#define ACTIVATE_kLinear(name, formula)  \
  case Function##name:                   \
    SIMD for (Index i = 0; i < n; ++i) { \
      const Acctype v = values[i];       \
      values[i] = formula;               \
    }                                    \
    break;
#define ACTIVATE_kCurve(name, formula) ACTIVATE_kLinear(name, formula)
#define ACTIVATE_kChain(name, formula)
#define ACTIVATE(name, file, use, operand, constants, formula, ...) ACTIVATE_##use(name, formula)

DEVICE_FN void activate(Acctype* values, Index n, i32 function, Acctype a, Acctype b) {
  switch (function) { CAFFE_ELEMENT_FUNCTIONS(ACTIVATE) }
}
