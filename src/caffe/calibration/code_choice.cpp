#include "code_choice.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace caffe {
namespace {

// Values this near to a code have no other one: the largest weight of a channel decides its scale.
constexpr double kExact = 1e-4;
constexpr int kMostSweeps = 20;

bool IsCode(double w) { return std::abs(w - std::round(w)) < kExact; }

double Clamped(double code, double codes) { return std::clamp(code, -codes, codes); }

// The code on the other side of w.
double Other(double w, double q) { return q > w ? std::floor(w) : std::ceil(w); }

}  // namespace

CodeChoice::CodeChoice(std::vector<double> gram, int64_t size)
    : size_(size), gram_(std::move(gram)) {
  Factor();
}

// Cholesky's decomposition in blocks of rows, so that a block stays in the cache.
void CodeChoice::Factor() {
  constexpr int64_t kBlock = 48;
  const int64_t n = size_;
  std::vector<double> r = gram_;  // becomes R in its upper triangle
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) trace += r[i * n + i];
  const double smallest = std::max(1e-6 * trace / static_cast<double>(n), 1e-30);
  for (int64_t i = 0; i < n; ++i) r[i * n + i] += smallest;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t last = std::min(first + kBlock, n);
    for (int64_t k = first; k < last; ++k) {
      for (int64_t p = first; p < k; ++p) {
        const double factor = r[p * n + k];
        for (int64_t j = k; j < n; ++j) r[k * n + j] -= factor * r[p * n + j];
      }
      const double root = std::sqrt(std::max(r[k * n + k], smallest));
      for (int64_t j = k; j < n; ++j) r[k * n + j] /= root;
      r[k * n + k] = root;
    }
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = last; i < n; ++i) {
      for (int64_t k = first; k < last; ++k) {
        const double factor = r[k * n + i];
        for (int64_t j = i; j < n; ++j) r[i * n + j] -= factor * r[k * n + j];
      }
    }
  }
  factor_.assign(n * n, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i; j < n; ++j) factor_[j * n + i] = r[i * n + j];
  }
}

std::vector<double> CodeChoice::Sequential(const std::vector<double>& w, double codes) const {
  std::vector<double> q(size_), carried(size_, 0);  // sum over later j of R_ij d_j, d = w - q
  for (int64_t i = size_; i-- > 0;) {
    const double* column = &factor_[i * size_];
    const double centre = w[i] + carried[i] / column[i];
    q[i] = IsCode(w[i]) ? std::round(w[i])
                        : std::clamp(std::round(centre), std::floor(w[i]), std::ceil(w[i]));
    q[i] = Clamped(q[i], codes);
    const double d = w[i] - q[i];
    for (int64_t k = 0; k < i; ++k) carried[k] += column[k] * d;
  }
  return q;
}

double CodeChoice::Improve(const std::vector<double>& w, double codes, std::vector<double>* q,
                           double* before) const {
  std::vector<double> slope(size_, 0);  // G d
  for (int64_t j = 0; j < size_; ++j) {
    const double d = (*q)[j] - w[j];
    if (d == 0) continue;
    for (int64_t i = 0; i < size_; ++i) slope[i] += d * gram_[j * size_ + i];
  }
  const auto error = [&] {
    double sum = 0;
    for (int64_t i = 0; i < size_; ++i) sum += ((*q)[i] - w[i]) * slope[i];
    return std::max(sum, 0.0);
  };
  *before = error();
  bool changed = true;
  for (int sweep = 0; changed && sweep < kMostSweeps; ++sweep) {
    changed = false;
    for (int64_t i = 0; i < size_; ++i) {
      if (IsCode(w[i])) continue;
      const double step = Clamped(Other(w[i], (*q)[i]), codes) - (*q)[i];
      const double own = gram_[i * size_ + i];
      if (2 * step * slope[i] + step * step * own >= -1e-12 * own) continue;
      (*q)[i] += step;
      for (int64_t k = 0; k < size_; ++k) slope[k] += step * gram_[i * size_ + k];
      changed = true;
    }
  }
  return error();
}

std::vector<double> CodeChoice::Choose(const std::vector<double>& w, double codes, double* nearest,
                                       double* chosen) const {
  std::vector<double> plain(size_);
  for (int64_t i = 0; i < size_; ++i) plain[i] = Clamped(std::round(w[i]), codes);
  std::vector<double> improved = plain, sequential = Sequential(w, codes);
  double before = 0;
  const double one = Improve(w, codes, &improved, nearest);
  const double other = Improve(w, codes, &sequential, &before);
  *chosen = std::min({*nearest, one, other});
  if (*chosen == *nearest) return plain;
  return other < one ? sequential : improved;
}

}  // namespace caffe
