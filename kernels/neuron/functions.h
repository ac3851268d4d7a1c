//! types: float master narrow
//! runs: host
// The kernels of neuron/function.h, for the host: `function` is a number of epilogue/functions.h.
#include "epilogue/functions.h"
#define FUNCTION_FORWARD(name, file, use, operand, constants, formula, ...) \
  case Function##name:                                                      \
    FOR_EACH(i, n) {                                                        \
      const Acctype v = LOAD(MItype, x, i), u = 0;                          \
      (void)v, (void)u;                                                     \
      STORE(MOtype, y, i, (formula));                                       \
    }                                                                       \
    break;
#define FUNCTION_BACKWARD(name, file, use, operand, constants, formula, gradient, ...) \
  case Function##name:                                                                 \
    FOR_EACH(i, n) {                                                                   \
      const Acctype v = LOAD(MItype, x, i), y = LOAD(MOtype, y_data, i);               \
      const Acctype d = LOAD(MOtype, y_diff, i);                                       \
      (void)v, (void)y, (void)d;                                                       \
      STORE(MItype, x_diff, i, (gradient));                                            \
    }                                                                                  \
    break;

KERNEL(function_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(i32, function),
       ARG(Acctype, a), ARG(Acctype, b), ARG(Acctype, c)) {
  switch (function) { CAFFE_ELEMENT_FUNCTIONS(FUNCTION_FORWARD) }
}

KERNEL(function_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_data), IN(MOtype, y_diff),
       OUT(MItype, x_diff), ARG(i32, function), ARG(Acctype, a), ARG(Acctype, b), ARG(Acctype, c),
       ARG(Acctype, e)) {
  switch (function) { CAFFE_ELEMENT_FUNCTIONS(FUNCTION_BACKWARD) }
}
