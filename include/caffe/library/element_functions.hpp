// The functions of one element v, with constants a, b and c: a table that the library
// (element_function.hpp) and the host kernels (kernels/epilogue/functions.h) read. A row has, in
// order:
//   name      of the kind, Kind::k<name> in C++ and Function<name> in kernels, and of the layer
//   file      kernels/epilogue/<file>.h, which has what `formula` and `gradient` call
//   use       kLinear: may be the activation of an epilogue, and of one in codes; kCurve: of one in
//             float kinds; kChain: a stage of chains only
//   operand   kSame: all elements have the same constants; kChannels: they may differ between
//             channels; kSummand: the function also has an element u of another array
//   constants their number
//   formula   of kernels: a call. It mentions v once: text that needs it twice is a function of the
//             file
//   gradient  of kernels: dE/dv of d = dE/dy, v, y, the constants and one more, e; 0 if there is
//             none. A layer may give it other constants than the formula
//   value     of C++, in double
//   slope     of C++: the derivative of the value
//   summary   of the layer, if the table is all of it: the constants are then the fields of the
//             message <name>Parameter, in order. "" for other functions
#pragma once

// clang-format off
#define CAFFE_ELEMENT_FUNCTIONS(ROW) \
  ROW(ReLU, relu, kLinear, kSame, 0, relu_value(v, 1), 0, \
      v < 0 ? 0 : v, v > 0 ? 1 : 0, "") \
  ROW(Leaky, relu, kLinear, kSame, 1, leaky_value(v, 1, a), 0, \
      v > 0 ? v : a * v, v > 0 ? 1 : a, "") \
  ROW(PReLU, relu, kLinear, kChannels, 1, leaky_value(v, 1, a), 0, \
      v > 0 ? v : a * v, v > 0 ? 1 : a, "") \
  ROW(ReLU6, relu6, kLinear, kSame, 1, relu6_value(v, a), v >= 6 ? 0 : v > 0 ? d : d * a, \
      v > 6 ? 6 : v > 0 ? v : a * v, v >= 6 ? 0 : v > 0 ? 1 : a, "") \
  ROW(Clip, clip, kLinear, kSame, 2, clip_value(v, a, b), v < a || v > b ? 0 : d, \
      v < a ? a : v > b ? b : v, v < a || v > b ? 0 : 1, "") \
  ROW(ELU, elu, kCurve, kSame, 1, elu_value(v, a), v > 0 ? d : d * (y + a), \
      v > 0 ? v : a * std::expm1(v), v > 0 ? 1 : a * std::exp(v), "") \
  ROW(Sigmoid, sigmoid, kCurve, kSame, 0, sigmoid_value(v), d * y * (REAL(1.0) - y), \
      Logistic(v), Logistic(v) * Logistic(-v), "y = 1 / (1 + e^-x)") \
  ROW(TanH, tanh, kCurve, kSame, 0, tanh_value(v), d * (1 - y * y), \
      std::tanh(v), 1 - std::tanh(v) * std::tanh(v), "y = tanh(x)") \
  ROW(Swish, swish, kCurve, kSame, 1, swish_value(v, a), swish_gradient(d, v, a), \
      Logistic(a * v) == 0 ? 0 : v * Logistic(a * v), SwishSlope(v, a), \
      "y = x / (1 + e^(-beta x))") \
  ROW(HardSigmoid, clip, kCurve, kSame, 2, clip_value(v * a + b, 0, 1), \
      v * a + b > 0 && v * a + b < 1 ? d * a : 0, \
      a * v + b < 0 ? 0 : a * v + b > 1 ? 1 : a * v + b, \
      a * v + b > 0 && a * v + b < 1 ? a : 0, "y = min(max(alpha x + beta, 0), 1)") \
  ROW(AbsVal, absval, kChain, kSame, 0, absval_value(v), v > 0 ? d : v < 0 ? -d : 0, \
      std::abs(v), v > 0 ? 1 : v < 0 ? -1 : 0, "y = |x|") \
  ROW(BNLL, bnll, kChain, kSame, 0, bnll_value(v), d * (0 - EXPM1(-y)), \
      std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))), Logistic(v), "y = ln(1 + e^x)") \
  ROW(Threshold, threshold, kChain, kSame, 1, threshold_value(v, a), 0, \
      v > a ? 1 : v != v ? v : 0, 0, "y = 1 if x > threshold, else 0") \
  ROW(Constant, power, kChain, kSame, 1, a, linear_value(d, a, 0), a, 0, "") \
  ROW(Affine, power, kChain, kChannels, 2, linear_value(v, a, b), linear_value(d, a, 0), \
      a * v + b, a, "") \
  ROW(Square, power, kChain, kSame, 2, square_value(v, a, b), d * (linear_value(v, a, b) * c), \
      std::pow(b + a * v, 2), 2 * a * (b + a * v), "") \
  ROW(Power, power, kChain, kSame, 3, power_value(v, a, b, c), d * (power_value(v, a, b, e) * c), \
      std::pow(b + a * v, c), c * a * std::pow(b + a * v, c - 1), "") \
  ROW(Exp, exp, kChain, kSame, 2, exp_value(v, a, b), d * (y * a), \
      b * std::exp(a * v), a * b * std::exp(a * v), "") \
  ROW(Log, log, kChain, kSame, 3, log_value(v, a, b, c), d * (c / (v * a + b)), \
      std::log(b + a * v) * c, a * c / (b + a * v), "") \
  ROW(Sum, sum, kChain, kSummand, 1, sum_value(v, u, a), 0, v + a * u, 1, "")
// clang-format on
