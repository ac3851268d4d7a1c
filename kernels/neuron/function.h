//! types: device
// y = f(x) for each element, and its gradient, on devices: FunctionProgram defines FUNCTION_VALUE
// and FUNCTION_GRADIENT by the row of the function. Arrays that the texts do not mention are not
// read. In place allowed; x and y may be one array where one of them is enough. On the host,
// neuron/functions.h has these kernels.
#ifndef FUNCTION_VALUE
#define FUNCTION_VALUE v
#define FUNCTION_GRADIENT d
#endif

KERNEL(function_forward, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(i32, function),
       ARG(Acctype, a), ARG(Acctype, b), ARG(Acctype, c)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    STORE(MOtype, y, i, FUNCTION_VALUE);
  }
}

KERNEL(function_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y_data), IN(MOtype, y_diff),
       OUT(MItype, x_diff), ARG(i32, function), ARG(Acctype, a), ARG(Acctype, b), ARG(Acctype, c),
       ARG(Acctype, e)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i), y = LOAD(MOtype, y_data, i), d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, FUNCTION_GRADIENT);
  }
}
