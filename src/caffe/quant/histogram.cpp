#include "caffe/quant/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace caffe {

int64_t Histogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void Histogram::Widen(double wanted) {
  if (counts.empty()) {
    counts.assign(kBins, 0);
    limit = wanted;
  }
  if (wanted <= limit) return;
  const int shift = std::min(static_cast<int>(std::log2(wanted / limit)), 30);
  std::vector<int64_t> wider(kBins, 0);
  for (int i = 0; i < kBins; ++i) wider[((i - kBins / 2) >> shift) + kBins / 2] += counts[i];
  counts = std::move(wider);
  limit = wanted;
}

void Histogram::Add(double value) {
  if (!std::isfinite(value)) return;
  int exponent = -100;
  if (value != 0) std::frexp(value, &exponent);
  Widen(std::ldexp(1, std::clamp(exponent, -100, 1023)));
  const double position = std::floor(value / limit * (kBins / 2));
  ++counts[static_cast<int>(std::clamp<double>(position, -kBins / 2, kBins / 2 - 1)) + kBins / 2];
  zeros += value == 0;
}

void Histogram::Add(const Histogram& other) {
  if (other.counts.empty()) return;
  Widen(other.limit);
  Histogram same = other;
  same.Widen(limit);
  for (int i = 0; i < kBins; ++i) counts[i] += same.counts[i];
  zeros += same.zeros;
}

}  // namespace caffe
