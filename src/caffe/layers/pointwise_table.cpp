// The table of element-wise layers: formula, gradient and parameters of each. The formulas of the
// kernels are in kernels/neuron/<file>.h.
#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "pointwise_layer.hpp"

namespace caffe {
namespace {

using Gradient = PointwiseFormula::Gradient;

double Logistic(double v) {
  return v < 0 ? std::exp(v) / (1 + std::exp(v)) : 1 / (1 + std::exp(-v));
}

// y = |x|. dy/dx = sign(x), 0 where x is 0.
PointwiseFormula AbsVal(const LayerParameter&, const std::string&) {
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfBottom;
  formula.value = [](double x) { return std::abs(x); };
  formula.slope = [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; };
  formula.function = ElementFunction{ChainFormula::kAbs, {}};
  return formula;
}

// y = ln(1 + e^x). dy/dx = 1 / (1 + e^-x) = 1 - e^-y.
PointwiseFormula BNLL(const LayerParameter&, const std::string&) {
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfTop;
  formula.value = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  formula.slope = Logistic;
  formula.function = ElementFunction{ChainFormula::kBNLL, {}};
  return formula;
}

// y = x clamped to [min, max]. dy/dx = 1 if min <= x <= max, else 0.
// clip_param: min, max (both needed).
PointwiseFormula Clip(const LayerParameter& parameter, const std::string& where) {
  const ClipParameter& clip = parameter.clip_param();
  CAFFE_CHECK(clip.has_min() && clip.has_max(), where, ": clip_param needs both min and max; ",
              clip.has_min()   ? "max is"
              : clip.has_max() ? "min is"
                               : "they are",
              " missing");
  const double low = clip.min(), high = clip.max();
  CAFFE_CHECK(low <= high, where, ": min ", low, " must not be larger than max ", high);
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfBottom;
  formula.constants = formula.backward_constants = {low, high};
  formula.value = [low, high](double x) { return x < low ? low : x > high ? high : x; };
  formula.slope = [low, high](double x) { return x < low || x > high ? 0.0 : 1.0; };
  formula.activation = Activation{Activation::Kind::kClip, clip.min(), clip.max()};
  return formula;
}

// y = x if x > 0, else alpha (e^x - 1). dy/dx = 1 if x > 0, else alpha e^x = y + alpha.
// elu_param: alpha (1).
PointwiseFormula ELU(const LayerParameter& parameter, const std::string&) {
  const double alpha = parameter.elu_param().alpha();
  PointwiseFormula formula;
  // The signs of y and x are equal unless alpha is negative.
  formula.gradient = alpha < 0 ? Gradient::kOfBoth : Gradient::kOfTop;
  if (alpha < 0) formula.backward = "elu_backward_both";
  formula.constants = formula.backward_constants = {alpha};
  formula.value = [alpha](double x) { return x > 0 ? x : alpha * std::expm1(x); };
  formula.slope = [alpha](double x) { return x > 0 ? 1 : alpha * std::exp(x); };
  formula.activation = Activation{Activation::Kind::kELU, parameter.elu_param().alpha()};
  return formula;
}

// y = base^(shift + scale x), computed as outer e^(inner x) with inner = scale ln(base) and outer =
// base^shift. dy/dx = inner y.
// exp_param: base (-1, that is e; else positive), scale (1), shift (0).
PointwiseFormula Exp(const LayerParameter& parameter, const std::string& where) {
  const ExpParameter& exp = parameter.exp_param();
  const double base = exp.base();
  CAFFE_CHECK(base == -1 || (base > 0 && std::isfinite(base)), where, ": base ", base,
              " must be positive, or -1 for e");
  const double log_base = base == -1 ? 1 : std::log(base);
  const double inner = log_base * exp.scale(), outer = std::exp(log_base * exp.shift());
  CAFFE_CHECK(std::isfinite(inner) && std::isfinite(outer), where, ": base ", base, ", scale ",
              exp.scale(), " and shift ", exp.shift(), " do not give finite factors");
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfTop;
  formula.constants = {inner, outer};
  formula.backward_constants = {inner};
  formula.value = [inner, outer](double x) { return outer * std::exp(inner * x); };
  formula.slope = [inner, outer](double x) { return inner * outer * std::exp(inner * x); };
  formula.function = ElementFunction{ChainFormula::kExp, formula.constants};
  return formula;
}

// y = ln(shift + scale x) / ln(base). dy/dx = scale / (ln(base) (shift + scale x)).
// log_param: base (-1, that is e; else positive and not 1), scale (1), shift (0).
PointwiseFormula Log(const LayerParameter& parameter, const std::string& where) {
  const LogParameter& log = parameter.log_param();
  const double base = log.base(), scale = log.scale(), shift = log.shift();
  CAFFE_CHECK(base == -1 || (base > 0 && base != 1 && std::isfinite(base)), where, ": base ", base,
              " must be positive and not 1, or -1 for e");
  const double factor = base == -1 ? 1 : 1 / std::log(base);
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfBottom;
  formula.constants = {scale, shift, factor};
  formula.backward_constants = {scale, shift, scale * factor};
  formula.value = [=](double x) { return std::log(shift + scale * x) * factor; };
  formula.slope = [=](double x) { return scale * factor / (shift + scale * x); };
  formula.function = ElementFunction{ChainFormula::kLog, formula.constants};
  return formula;
}

// y = u^power, u = shift + scale x; the constant shift^power (1 for power 0) if power or scale is
// 0. Negative u with a fractional power gives NaN. dy/dx = power scale u^(power - 1), which equals
// BVLC's power scale y / u where that is finite; BVLC divides 0 by 0 at u = 0.
// power_param: power (1), scale (1), shift (0).
PointwiseFormula Power(const LayerParameter& parameter, const std::string&) {
  const PowerParameter& message = parameter.power_param();
  const double power = message.power(), scale = message.scale(), shift = message.shift();
  const double factor = power * scale;
  PointwiseFormula formula;
  if (factor == 0 || power == 1) {
    formula.gradient = Gradient::kOfDiff;
    formula.backward = "power_linear";
    formula.backward_constants = {factor, 0};
    formula.slope = [factor](double) { return factor; };
  } else {
    formula.gradient = Gradient::kOfBottom;
    formula.backward = power == 2 ? "power_square_backward" : "power_any_backward";
    formula.backward_constants = {scale, shift, factor};
    if (power != 2) formula.backward_constants.push_back(power - 1);
    formula.slope = [=](double x) { return factor * std::pow(shift + scale * x, power - 1); };
  }
  if (factor == 0) {
    const double value = power == 0 ? 1 : std::pow(shift, power);
    formula.forward = "power_constant";
    formula.constants = {value};
    formula.value = [value](double) { return value; };
    formula.function = ElementFunction{ChainFormula::kConstant, formula.constants};
    return formula;
  }
  formula.forward = power == 1 ? "power_linear" : power == 2 ? "power_square" : "power_any";
  formula.constants = {scale, shift};
  if (power == 1) formula.affine = Affine::Constant(scale, shift);
  if (power != 1 && power != 2) formula.constants.push_back(power);
  if (power != 1) {
    const ChainFormula one = power == 2 ? ChainFormula::kSquare : ChainFormula::kPower;
    formula.function = ElementFunction{one, formula.constants};
  }
  formula.value = [=](double x) { return std::pow(shift + scale * x, power); };
  return formula;
}

// y = min(max(x, 0), 6) + slope min(x, 0). dy/dx = 1 if 0 < x < 6, slope if x <= 0, else 0.
// relu6_param or relu_param: negative_slope (0).
PointwiseFormula ReLU6(const LayerParameter& parameter, const std::string& where) {
  CAFFE_CHECK(!parameter.has_relu6_param() || !parameter.has_relu_param(), where,
              ": give relu6_param or relu_param, not both");
  const double slope = parameter.has_relu_param() ? parameter.relu_param().negative_slope()
                                                  : parameter.relu6_param().negative_slope();
  PointwiseFormula formula;
  // The signs of y and x are equal unless the slope is negative.
  formula.gradient = slope >= 0 ? Gradient::kOfTop : Gradient::kOfBottom;
  formula.constants = formula.backward_constants = {slope};
  formula.value = [slope](double x) { return x > 6 ? 6 : x > 0 ? x : slope * x; };
  formula.slope = [slope](double x) { return x >= 6 ? 0 : x > 0 ? 1 : slope; };
  formula.activation = Activation{Activation::Kind::kReLU6, static_cast<float>(slope)};
  return formula;
}

// y = 1 / (1 + e^-x). dy/dx = y (1 - y).
PointwiseFormula Sigmoid(const LayerParameter&, const std::string&) {
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfTop;
  formula.value = Logistic;
  formula.slope = [](double x) { return Logistic(x) * Logistic(-x); };
  formula.activation = Activation{Activation::Kind::kSigmoid};
  return formula;
}

// y = x s, s = 1 / (1 + e^(-beta x)). dy/dx = s + beta x s (1 - s).
// swish_param: beta (1).
PointwiseFormula Swish(const LayerParameter& parameter, const std::string&) {
  const double beta = parameter.swish_param().beta();
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfBottom;
  formula.constants = formula.backward_constants = {beta};
  formula.value = [beta](double x) {
    const double s = Logistic(beta * x);
    return s == 0 ? 0 : x * s;
  };
  formula.slope = [beta](double x) {
    const double s = Logistic(beta * x), both = s * Logistic(-beta * x);
    return both == 0 ? s : s + beta * x * both;
  };
  formula.activation = Activation{Activation::Kind::kSwish, parameter.swish_param().beta()};
  return formula;
}

// y = tanh(x). dy/dx = 1 - y^2.
PointwiseFormula TanH(const LayerParameter&, const std::string&) {
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfTop;
  formula.value = [](double x) { return std::tanh(x); };
  formula.slope = [](double x) { return 1 - std::tanh(x) * std::tanh(x); };
  formula.activation = Activation{Activation::Kind::kTanH};
  return formula;
}

// y = 1 if x > threshold, else 0. No gradient.
// threshold_param: threshold (0).
PointwiseFormula Threshold(const LayerParameter& parameter, const std::string&) {
  const double threshold = parameter.threshold_param().threshold();
  PointwiseFormula formula;
  formula.constants = {threshold};
  formula.value = [threshold](double x) { return x > threshold ? 1 : x != x ? x : 0; };
  formula.function = ElementFunction{ChainFormula::kThreshold, formula.constants};
  return formula;
}

}  // namespace

const std::vector<PointwiseRow>& PointwiseRows() {
  static const auto* const rows = new std::vector<PointwiseRow>{
      {"AbsVal", "absval", "y = |x|", AbsVal},
      {"BNLL", "bnll", "y = ln(1 + e^x)", BNLL},
      {"Clip", "clip", "y = x clamped to [min, max]", Clip},
      {"ELU", "elu", "y = x if x > 0, else alpha (e^x - 1)", ELU},
      {"Exp", "exp", "y = base^(shift + scale x)", Exp},
      {"Log", "log", "y = ln(shift + scale x) / ln(base)", Log},
      {"Power", "power", "y = (shift + scale x)^power", Power},
      {"ReLU6", "relu6", "y = min(max(x, 0), 6) + negative_slope * min(x, 0)", ReLU6},
      {"Sigmoid", "sigmoid", "y = 1 / (1 + e^-x)", Sigmoid},
      {"Swish", "swish", "y = x / (1 + e^(-beta x))", Swish},
      {"TanH", "tanh", "y = tanh(x)", TanH},
      {"Threshold", "threshold", "y = 1 if x > threshold, else 0", Threshold, false},
  };
  return *rows;
}

}  // namespace caffe
