// The table of element-wise layers: formula, gradient and parameters of each. The formulas of the
// kernels are in kernels/neuron/<file>.h.
#include <cmath>

#include "caffe.pb.h"
#include "caffe/layers/pointwise_layer.hpp"

namespace caffe {
namespace {

using Gradient = PointwiseFormula::Gradient;

double Logistic(double v) {
  return v < 0 ? std::exp(v) / (1 + std::exp(v)) : 1 / (1 + std::exp(-v));
}

// y = ln(1 + e^x). dy/dx = 1 / (1 + e^-x) = 1 - e^-y.
PointwiseFormula BNLL(const LayerParameter&, const std::string&) {
  PointwiseFormula formula;
  formula.gradient = Gradient::kOfTop;
  formula.value = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  formula.slope = Logistic;
  return formula;
}

// y = x, not less than min and not more than max. dy/dx = 1 if min <= x <= max, else 0.
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
  // The sign of y is that of x, unless the slope is negative.
  formula.gradient = slope >= 0 ? Gradient::kOfTop : Gradient::kOfBottom;
  formula.constants = formula.backward_constants = {slope};
  formula.value = [slope](double x) { return x > 6 ? 6 : x > 0 ? x : slope * x; };
  formula.slope = [slope](double x) { return x >= 6 ? 0 : x > 0 ? 1 : slope; };
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
  return formula;
}

// y = 1 if x > threshold, else 0. No gradient.
// threshold_param: threshold (0).
PointwiseFormula Threshold(const LayerParameter& parameter, const std::string&) {
  const double threshold = parameter.threshold_param().threshold();
  PointwiseFormula formula;
  formula.constants = {threshold};
  formula.value = [threshold](double x) { return x > threshold ? 1 : x != x ? x : 0; };
  return formula;
}

}  // namespace

const std::vector<PointwiseRow>& PointwiseRows() {
  static const auto* const rows = new std::vector<PointwiseRow>{
      {"BNLL", "bnll", "y = ln(1 + e^x)", BNLL},
      {"Clip", "clip", "y = x, not less than min and not more than max", Clip},
      {"ReLU6", "relu6", "y = min(max(x, 0), 6) + negative_slope * min(x, 0)", ReLU6},
      {"Swish", "swish", "y = x / (1 + e^(-beta x))", Swish},
      {"Threshold", "threshold", "y = 1 if x > threshold, else 0", Threshold, false},
  };
  return *rows;
}

}  // namespace caffe
