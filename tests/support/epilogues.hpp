#pragma once

#include <vector>

#include "caffe/library/epilogue.hpp"

namespace caffe::test {

// Every activation, with and without a slope where it may have one.
inline std::vector<ElementFunction> Activations() {
  using Kind = ElementFunction::Kind;
  std::vector<ElementFunction> all{{}, {Kind::kReLU6}};
  for (const Kind kind : ElementFunction::Kinds()) {
    ElementFunction function{kind};
    if (!function.activation()) continue;
    const std::vector<double> constants = function.constants();
    if (kind == Kind::kClip) {
      function.a = -0.5f;
      function.b = 1.25f;
    } else if (function.row().operand == ElementFunction::Operand::kSame) {
      if (constants.size() > 0) function.a = 0.2f;
      if (constants.size() > 1) function.b = 0.7f;
    }
    all.push_back(function);
  }
  return all;
}

// The activation alone, behind a residual sum, and before one.
inline std::vector<std::vector<Epilogue::Stage>> StagesWith(const ElementFunction& activation) {
  if (activation.kind == ElementFunction::Kind::kNone) return {{}, {ResidualSum{0.5f}}};
  return {{activation}, {ResidualSum{}, activation}, {activation, ResidualSum{-1.5f}}};
}

}  // namespace caffe::test
