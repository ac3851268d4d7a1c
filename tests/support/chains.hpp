#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "caffe/library/chain.hpp"

namespace caffe::test {

// The first formula after the last one.
inline constexpr int kChainFormulas = static_cast<int>(ChainFormula::kPower) + 1;

inline std::vector<ChainFormula> ChainFormulas(int first, int last) {
  std::vector<ChainFormula> formulas;
  for (int f = first; f < last; ++f) formulas.push_back(static_cast<ChainFormula>(f));
  return formulas;
}

// A formula by definition, in double. `k`: its constants; u: the element of the other array.
inline double ChainValue(ChainFormula formula, double v, const double* k, double u) {
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  switch (formula) {
    case ChainFormula::kReLU: return v < 0 ? 0 : v;
    case ChainFormula::kSigmoid: return logistic(v);
    case ChainFormula::kTanH: return std::tanh(v);
    case ChainFormula::kAbs: return std::abs(v);
    case ChainFormula::kBNLL: return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
    case ChainFormula::kSlope: return v > 0 ? v : k[0] * v;
    case ChainFormula::kReLU6: return v > 6 ? 6 : v > 0 ? v : k[0] * v;
    case ChainFormula::kELU: return v > 0 ? v : k[0] * std::expm1(v);
    case ChainFormula::kSwish: return v * logistic(k[0] * v);
    case ChainFormula::kThreshold: return v > k[0] ? 1 : 0;
    case ChainFormula::kConstant: return k[0];
    case ChainFormula::kSum: return v + k[0] * u;
    case ChainFormula::kAffine: return k[0] * v + k[1];
    case ChainFormula::kClip: return std::min(std::max(v, k[0]), k[1]);
    case ChainFormula::kExp: return k[1] * std::exp(k[0] * v);
    case ChainFormula::kSquare: return (k[0] * v + k[1]) * (k[0] * v + k[1]);
    case ChainFormula::kLog: return k[2] * std::log(k[0] * v + k[1]);
    case ChainFormula::kPower: return std::pow(k[0] * v + k[1], k[2]);
  }
  return 0;
}

}  // namespace caffe::test
