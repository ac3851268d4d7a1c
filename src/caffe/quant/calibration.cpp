#include "caffe/quant/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr double kMargin = 1.5;

// In the order of CalibrationMethod.
constexpr const char* kNames[] = {"auto", "min_max", "percentile", "mse",
                                  "kl",   "margin",  "dynamic"};

// The values of a bin that are not 0, spread equally over [begin, end].
struct Part {
  double begin, end, count;
};

// The non-empty bins, cut to the observed range.
std::vector<Part> Parts(const Histogram& histogram, const Range& observed) {
  const auto& [low, high, origin] = observed;
  std::vector<Part> parts;
  for (int i = 0; i < static_cast<int>(histogram.counts.size()); ++i) {
    const int64_t zeros = i == Histogram::kBins / 2 ? histogram.zeros : 0;
    const double count = static_cast<double>(histogram.counts[i] - zeros);
    if (count <= 0) continue;
    // The outermost bins also hold values beyond the limit.
    const double begin = i == 0 ? std::min(low, histogram.Edge(0)) : histogram.Edge(i);
    const double end = i == Histogram::kBins - 1 ? std::max(high, histogram.Edge(Histogram::kBins))
                                                 : histogram.Edge(i + 1);
    const double from = std::clamp(low, begin, end), to = std::clamp(high, begin, end);
    parts.push_back({from, std::max(to, from), count});
  }
  return parts;
}

double Total(const Histogram& histogram) {
  return std::max<double>(1, static_cast<double>(histogram.total()));
}

double Cube(double x) { return x * x * x; }

// The integral from 0 to x of (t - nearest multiple of scale)^2: scale^3 / 12 for each multiple,
// and the rest of the last interval.
double RoundingIntegral(double x, double scale) {
  const double multiples = std::round(x / scale);
  return multiples * Cube(scale) / 12 + Cube(x - multiples * scale) / 3;
}

// The sum of squared errors.
double ErrorOfParts(const std::vector<Part>& parts, const Range& real, DataType type) {
  const QuantRange range = AffineRange(real, type);
  const double lowest = range.scale * (type.info().code_min - range.zero),
               highest = range.scale * (type.info().code_max - range.zero);
  double sum = 0;
  for (const Part& part : parts) {
    if (part.end - part.begin < 1e-3 * range.scale) {
      const double x = (part.begin + part.end) / 2;
      const double rounded = std::clamp(range.scale * std::round(x / range.scale), lowest, highest);
      sum += part.count * (x - rounded) * (x - rounded);
      continue;
    }
    double integral = 0;
    if (part.begin < lowest) {
      integral += (Cube(lowest - part.begin) - Cube(lowest - std::min(part.end, lowest))) / 3;
    }
    if (part.end > highest) {
      integral += (Cube(part.end - highest) - Cube(std::max(part.begin, highest) - highest)) / 3;
    }
    const double begin = std::clamp(part.begin, lowest, highest),
                 end = std::clamp(part.end, lowest, highest);
    if (end > begin) {
      integral += RoundingIntegral(end, range.scale) - RoundingIntegral(begin, range.scale);
    }
    sum += part.count * integral / (part.end - part.begin);
  }
  return sum;
}

Range Percentile(const Histogram& histogram, const Range& observed, double percentile) {
  const auto& [low, high, origin] = observed;
  const double rest = Total(histogram) * (1 - percentile / 100) / (low < 0 && high > 0 ? 2 : 1);
  Range result{low, high, "percentile"};
  const std::vector<Part> parts = Parts(histogram, observed);
  const auto cut = [&](const Part& part, double below) {
    return part.begin + (part.end - part.begin) * below / part.count;
  };
  double passed = 0;
  if (high > 0) {
    for (size_t i = parts.size(); i-- > 0 && parts[i].end > 0; passed += parts[i].count) {
      if (passed + parts[i].count < rest) continue;
      result.high = cut(parts[i], parts[i].count - (rest - passed));
      break;
    }
  }
  passed = 0;
  if (low < 0) {
    for (size_t i = 0; i < parts.size() && parts[i].begin < 0; passed += parts[i++].count) {
      if (passed + parts[i].count < rest) continue;
      result.low = cut(parts[i], rest - passed);
      break;
    }
  }
  return result;
}

// The ends that a search tries: the edges of bins between 0 and an observed extreme, and the
// extreme itself.
std::vector<double> Ends(const Histogram& histogram, double extreme) {
  std::vector<double> ends;
  if (extreme == 0) return {0};
  for (int i = 0; i <= Histogram::kBins; ++i) {
    const double edge = histogram.Edge(i);
    if (edge * extreme > 0 && std::abs(edge) < std::abs(extreme)) ends.push_back(edge);
  }
  ends.push_back(extreme);
  return ends;
}

// First scales both ends together, then searches each end with the other one fixed, until neither
// changes.
Range LeastError(const Histogram& histogram, const Range& observed, DataType type) {
  const std::vector<Part> parts = Parts(histogram, observed);
  const double low = std::min(observed.low, 0.0), high = std::max(observed.high, 0.0);
  Range best{low, high, "mse"};
  double least = ErrorOfParts(parts, best, type);
  const auto attempt = [&](double from, double to) {
    const double error = ErrorOfParts(parts, {from, to}, type);
    if (!(error < least)) return false;
    least = error;
    best.low = from;
    best.high = to;
    return true;
  };
  constexpr int kSteps = 128;
  for (int i = 1; i < kSteps; ++i) {
    attempt(low * i / kSteps, high * i / kSteps);
  }
  const std::vector<double> lows = Ends(histogram, low), highs = Ends(histogram, high);
  bool changed = true;
  for (int round = 0; changed && round < 4; ++round) {
    changed = false;
    for (const double end : highs) changed = attempt(best.low, end) || changed;
    for (const double end : lows) changed = attempt(end, best.high) || changed;
  }
  return best;
}

// Sums over P of p log(p / q); values of P where Q is 0 count as in a smoothed Q.
double Divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum_p = 0, sum_q = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum_p += p[i];
    sum_q += q[i];
  }
  if (sum_p == 0 || sum_q == 0) return INFINITY;
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) continue;
    const double mine = p[i] / sum_p, other = std::max(q[i] / sum_q, 1e-12);
    sum += mine * std::log(mine / other);
  }
  return sum;
}

// Migacz 2017: for each number of bins, P is the histogram with the values beyond added to its last
// bins, and Q the histogram merged into one level for each code, spread again over its non-empty
// bins. Bins on both sides of 0 for signed values, on one side for others. Zeros, which every code
// type represents exactly, are left out.
Range LeastDivergence(const Histogram& histogram, const Range& observed) {
  const auto& [low, high, origin] = observed;
  constexpr int kLevels = 255, kHalf = Histogram::kBins / 2;
  const bool below = low<0, above = high> 0;
  std::vector<double> counts(histogram.counts.begin(), histogram.counts.end());
  counts[kHalf] -= static_cast<double>(histogram.zeros);
  const double largest = std::max(-low, high);
  const int most =
      std::clamp(static_cast<int>(std::ceil(largest / histogram.limit * kHalf)), 1, kHalf);
  const int least = std::min(most, below && above ? (kLevels + 1) / 2 : kLevels);
  double smallest = INFINITY;
  int bins = most;
  for (int reach = least; reach <= most; ++reach) {
    const int first = below ? kHalf - reach : kHalf, last = above ? kHalf + reach : kHalf;
    std::vector<double> p(counts.begin() + first, counts.begin() + last);
    const std::vector<double> inside = p;
    for (int i = 0; i < first; ++i) p.front() += counts[i];
    for (int i = last; i < Histogram::kBins; ++i) p.back() += counts[i];
    const int size = last - first;
    std::vector<double> q(size, 0);
    for (int level = 0; level < kLevels; ++level) {
      const int from = static_cast<int>(static_cast<int64_t>(level) * size / kLevels),
                to = static_cast<int>(static_cast<int64_t>(level + 1) * size / kLevels);
      double sum = 0;
      int filled = 0;
      for (int i = from; i < to; ++i) {
        sum += inside[i];
        filled += p[i] > 0;
      }
      for (int i = from; i < to; ++i) q[i] = p[i] > 0 ? sum / filled : 0;
    }
    const double divergence = Divergence(p, q);
    if (divergence < smallest) {
      smallest = divergence;
      bins = reach;
    }
  }
  // The outermost bins also hold values beyond the limit.
  const double limit = std::max(histogram.limit, largest);
  const double threshold = bins < kHalf ? histogram.limit * bins / kHalf : limit;
  return {std::max(low, -threshold), std::min(high, threshold), "kl"};
}

}  // namespace

const char* MethodName(CalibrationMethod method) { return kNames[static_cast<int>(method)]; }

CalibrationMethod MethodByName(const std::string& name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  CAFFE_CHECK(found != std::end(kNames), "unknown calibration method '", name,
              "' (known: auto min_max percentile mse kl margin dynamic)");
  return static_cast<CalibrationMethod>(found - kNames);
}

Range Calibrate(const Histogram& histogram, const Range& observed, DataType type,
                const CalibrationOptions& options) {
  CAFFE_CHECK(options.percentile > 50 && options.percentile <= 100, "percentile ",
              options.percentile, " is not in (50, 100]");
  using Method = CalibrationMethod;
  CAFFE_CHECK(options.method != Method::kDynamic,
              "method dynamic takes ranges from the values of each forward, not from a histogram");
  const Range whole{observed.low, observed.high, MethodName(Method::kMinMax)};
  if (histogram.total() == histogram.zeros) return whole;
  const bool narrow = type == kQuant8;
  switch (options.method) {
    case Method::kMinMax: return whole;
    case Method::kPercentile: return Percentile(histogram, observed, options.percentile);
    case Method::kMse: return LeastError(histogram, observed, type);
    case Method::kKl: return narrow ? LeastDivergence(histogram, observed) : whole;
    case Method::kDynamic:
    case Method::kAuto:
      if (narrow) break;
      [[fallthrough]];
    case Method::kMargin: return {kMargin * whole.low, kMargin * whole.high, "margin"};
  }
  Range best = whole;
  double least = INFINITY;
  for (const Method method : {Method::kMinMax, Method::kPercentile, Method::kMse, Method::kKl}) {
    const Range one = Calibrate(histogram, observed, type, {method, options.percentile});
    const double error = QuantizationError(histogram, observed, one, type);
    if (!(error < least)) continue;
    least = error;
    best = one;
  }
  return best;
}

double QuantizationError(const Histogram& histogram, const Range& observed, const Range& range,
                         DataType type) {
  return ErrorOfParts(Parts(histogram, observed), range, type) / Total(histogram);
}

}  // namespace caffe
