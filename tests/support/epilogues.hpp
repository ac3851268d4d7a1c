#pragma once

#include <vector>

#include "caffe/library/epilogue.hpp"

namespace caffe::test {

// Every activation, with and without a slope where it may have one.
inline std::vector<Activation> Activations() {
  using Kind = Activation::Kind;
  return {{Kind::kNone},        {Kind::kReLU},        {Kind::kReLU, 0.1f},
          {Kind::kReLU6},       {Kind::kReLU6, 0.2f}, {Kind::kClip, -0.5f, 1.25f},
          {Kind::kELU, 0.7f},   {Kind::kSigmoid},     {Kind::kTanH},
          {Kind::kSwish, 1.5f}, {Kind::kPReLU}};
}

// The activation alone, behind a residual sum, and before one.
inline std::vector<std::vector<Epilogue::Stage>> StagesWith(const Activation& activation) {
  if (activation.kind == Activation::Kind::kNone) return {{}, {ResidualSum{0.5f}}};
  return {{activation}, {ResidualSum{}, activation}, {activation, ResidualSum{-1.5f}}};
}

}  // namespace caffe::test
