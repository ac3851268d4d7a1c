#include "caffe/library/quant_arguments.hpp"

#include <algorithm>
#include <cmath>

namespace caffe {

QuantArguments QuantArguments::From(int64_t channel) const {
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

CodeBounds::CodeBounds(const Activation& activation, double scale) {
  const auto code = [scale](double value) {
    constexpr double kMost = kNone;
    return static_cast<int32_t>(std::llround(std::clamp(value / scale, -kMost, kMost)));
  };
  using Kind = Activation::Kind;
  if (activation.kind == Kind::kClip) {
    low = code(activation.a);
    high = code(activation.b);
  }
  if (activation.kind == Kind::kReLU6) high = code(6);
  const bool relu = activation.kind == Kind::kReLU || activation.kind == Kind::kReLU6;
  if (relu && activation.a == 0) low = 0;
}

}  // namespace caffe
