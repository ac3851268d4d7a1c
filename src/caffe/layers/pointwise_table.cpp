// Element-wise layers whose parameters are more than the constants of a function, and the table of
// all of them. Formulas and gradients are in include/caffe/library/element_functions.hpp.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "pointwise_layer.hpp"

namespace caffe {
namespace {

using Gradient = PointwiseFormula::Gradient;
using Kind = ElementFunction::Kind;

// A function whose constants are the fields of <type>Parameter, in order.
PointwiseFormula Plain(const LayerParameter& parameter, const std::string& where) {
  namespace pb = google::protobuf;
  const std::vector<Kind>& kinds = ElementFunction::Kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&parameter](Kind k) {
    return ElementFunction::RowOf(k).name == parameter.type();
  });
  ElementFunction function{*kind};
  double* const constants[] = {&function.a, &function.b, &function.c};
  const pb::Descriptor& all = *LayerParameter::descriptor();
  const std::string message_name = parameter.type() + "Parameter";
  for (int f = 0; f < all.field_count(); ++f) {
    const pb::Descriptor* type = all.field(f)->message_type();
    if (!type || type->name() != message_name) continue;
    const pb::Message& message = parameter.GetReflection()->GetMessage(parameter, all.field(f));
    for (int c = 0; c < function.row().constants; ++c) {
      *constants[c] = message.GetReflection()->GetFloat(message, type->field(c));
    }
    return function;
  }
  CAFFE_CHECK(function.row().constants == 0, where, ": there is no message ", message_name);
  return function;
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
  return ElementFunction{Kind::kClip, low, high};
}

// y = x if x > 0, else alpha (e^x - 1). dy/dx = 1 if x > 0, else alpha e^x = y + alpha.
// elu_param: alpha (1).
PointwiseFormula ELU(const LayerParameter& parameter, const std::string&) {
  const double alpha = parameter.elu_param().alpha();
  PointwiseFormula formula = ElementFunction{Kind::kELU, alpha};
  // The signs of y and x are equal unless alpha is negative.
  formula.gradient = alpha < 0 ? Gradient::kOfBoth : Gradient::kOfTop;
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
  return ElementFunction{Kind::kExp, inner, outer};
}

// y = ln(shift + scale x) / ln(base). dy/dx = scale / (ln(base) (shift + scale x)).
// log_param: base (-1, that is e; else positive and not 1), scale (1), shift (0).
PointwiseFormula Log(const LayerParameter& parameter, const std::string& where) {
  const LogParameter& log = parameter.log_param();
  const double base = log.base(), scale = log.scale(), shift = log.shift();
  CAFFE_CHECK(base == -1 || (base > 0 && base != 1 && std::isfinite(base)), where, ": base ", base,
              " must be positive and not 1, or -1 for e");
  const double factor = base == -1 ? 1 : 1 / std::log(base);
  PointwiseFormula formula = ElementFunction{Kind::kLog, scale, shift, factor};
  formula.gradient_constants = {scale, shift, scale * factor};
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
  if (factor == 0) {
    PointwiseFormula formula =
        ElementFunction{Kind::kConstant, power == 0 ? 1 : std::pow(shift, power)};
    formula.gradient_constants = {0};
    return formula;
  }
  if (power == 1) return ElementFunction{Kind::kAffine, scale, shift};
  const Kind kind = power == 2 ? Kind::kSquare : Kind::kPower;
  PointwiseFormula formula = ElementFunction{kind, scale, shift, power == 2 ? 0 : power};
  formula.gradient_constants = {scale, shift, factor, power - 1};
  return formula;
}

// y = min(max(x, 0), 6) + slope min(x, 0). dy/dx = 1 if 0 < x < 6, slope if x <= 0, else 0.
// relu6_param or relu_param: negative_slope (0).
PointwiseFormula ReLU6(const LayerParameter& parameter, const std::string& where) {
  CAFFE_CHECK(!parameter.has_relu6_param() || !parameter.has_relu_param(), where,
              ": give relu6_param or relu_param, not both");
  const double slope = parameter.has_relu_param() ? parameter.relu_param().negative_slope()
                                                  : parameter.relu6_param().negative_slope();
  PointwiseFormula formula = ElementFunction{Kind::kReLU6, slope};
  // The signs of y and x are equal unless the slope is negative.
  if (slope >= 0) formula.gradient = Gradient::kOfTop;
  return formula;
}

std::vector<PointwiseRow> MakeRows() {
  std::vector<PointwiseRow> rows{
      {"Clip", "y = x clamped to [min, max]", Clip},
      {"ELU", "y = x if x > 0, else alpha (e^x - 1)", ELU},
      {"Exp", "y = base^(shift + scale x)", Exp},
      {"Log", "y = ln(shift + scale x) / ln(base)", Log},
      {"Power", "y = (shift + scale x)^power", Power},
      {"ReLU6", "y = min(max(x, 0), 6) + negative_slope * min(x, 0)", ReLU6},
  };
  for (const Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    if (row.summary.empty()) continue;
    rows.push_back({row.name, row.summary, Plain, row.GradientReads('d')});
  }
  std::sort(rows.begin(), rows.end(), [](const PointwiseRow& left, const PointwiseRow& right) {
    return left.type < right.type;
  });
  return rows;
}

}  // namespace

const std::vector<PointwiseRow>& PointwiseRows() {
  static const auto* const rows = new std::vector<PointwiseRow>(MakeRows());
  return *rows;
}

}  // namespace caffe
