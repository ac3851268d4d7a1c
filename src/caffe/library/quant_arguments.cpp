#include "caffe/library/quant_arguments.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/common_shift.hpp"

namespace caffe {

CodeSum CodeSum::Make(const QuantRange& own, const QuantRange& residual, double coefficient,
                      const QuantRange& sum, const QuantRange& result) {
  const double factor = own.scale / sum.scale;
  const double residual_factor = coefficient * (residual.scale / sum.scale);
  const CommonShift common =
      CommonShift::For(std::max(std::abs(factor), std::abs(residual_factor)));
  CodeSum made;
  made.own = static_cast<int32_t>(common.Integer(factor));
  made.residual = static_cast<int32_t>(common.Integer(residual_factor));
  made.shift = common.shift;
  made.zero_residual = residual.zero;
  made.zero_sum = sum.zero;
  made.rescale = Requant::FromReal(sum.scale / result.scale);
  made.zero_result = result.zero;
  return made;
}

QuantArguments QuantArguments::From(int64_t channel) const {
  if (!bias) return *this;
  QuantArguments part = *this;
  const int64_t wide = channel * static_cast<int64_t>(sizeof(int64_t));
  const int64_t narrow = channel * static_cast<int64_t>(sizeof(int32_t));
  part.bias = bias + wide;
  part.multiplier = multiplier + narrow;
  part.shift = shift + narrow;
  if (!negative_multiplier) return part;
  part.negative_multiplier = negative_multiplier + narrow;
  part.negative_shift = negative_shift + narrow;
  return part;
}

CodeBounds::CodeBounds(const ElementFunction& activation, double scale) {
  const auto code = [scale](double value) {
    constexpr double kMost = kNone;
    return static_cast<int32_t>(std::llround(std::clamp(value / scale, -kMost, kMost)));
  };
  using Kind = ElementFunction::Kind;
  if (activation.kind == Kind::kClip) {
    low = code(activation.a);
    high = code(activation.b);
  }
  if (activation.kind == Kind::kReLU6) high = code(6);
  const bool relu = activation.kind == Kind::kReLU || activation.kind == Kind::kReLU6;
  if (relu && activation.a == 0) low = 0;
}

}  // namespace caffe
