#include "caffe/quant/range.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/value_table.hpp"

namespace caffe {

void Range::Unite(const Range& other) {
  if (!known()) {
    *this = other;
    return;
  }
  low = std::min(low, other.low);
  high = std::max(high, other.high);
  origin.clear();
}

std::optional<ChannelRanges> ReadRange(const std::string& name, const QuantizerParameter& entry) {
  ChannelRanges range{{entry.observed_min(), entry.observed_max(), entry.method()},
                      {entry.channel_min().begin(), entry.channel_min().end()},
                      {entry.channel_max().begin(), entry.channel_max().end()},
                      {entry.channel_scale().begin(), entry.channel_scale().end()}};
  const auto ignore = [&](const auto&... what) {
    log::Warning(Concat("ignoring the stored range of '", name, "': ", what...,
                        "; calibrate the net again"));
    return std::nullopt;
  };
  const auto is_invalid = [](double low, double high) {
    return !std::isfinite(high - low) || low > high;
  };
  if (is_invalid(range.whole.low, range.whole.high)) {
    return ignore("[", range.whole.low, ", ", range.whole.high, "] is not a valid interval");
  }
  if (range.low.size() != range.high.size()) {
    return ignore("it has ", range.low.size(), " values of channel_min, but ", range.high.size(),
                  " of channel_max");
  }
  for (size_t c = 0; c < range.low.size(); ++c) {
    if (is_invalid(range.low[c], range.high[c])) {
      return ignore("[", range.low[c], ", ", range.high[c], "] of channel ", c,
                    " is not a valid interval");
    }
  }
  for (size_t c = 0; c < range.scale.size(); ++c) {
    if (!std::isfinite(range.scale[c]) || range.scale[c] <= 0) {
      return ignore("the scale ", range.scale[c], " of channel ", c, " is not a positive number");
    }
  }
  return range;
}

void WriteRange(const Range& range, QuantizerParameter* entry) {
  entry->set_observed_min(range.low);
  entry->set_observed_max(range.high);
  if (!range.origin.empty()) entry->set_method(range.origin);
}

void WriteRange(const ChannelRanges& ranges, QuantizerParameter* entry) {
  WriteRange(ranges.whole, entry);
  entry->mutable_channel_scale()->Assign(ranges.scale.begin(), ranges.scale.end());
  if (!ranges.scale.empty()) return;
  entry->mutable_channel_min()->Assign(ranges.low.begin(), ranges.low.end());
  entry->mutable_channel_max()->Assign(ranges.high.begin(), ranges.high.end());
}

QuantRange AffineRange(const Range& range, DataType type) {
  CAFFE_CHECK(std::isfinite(range.high - range.low) && range.known(), "[", range.low, ", ",
              range.high, "] is not a valid range for quantization");
  CAFFE_CHECK(type.is_quantized(), type.name(), " is not a quantized type");
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (low == high) return {1, 0, true};
  const double code_min = type.info().code_min, code_max = type.info().code_max;
  const double scale = std::max((high - low) / (code_max - code_min), 0x1p-126);
  const double zero = std::clamp(std::round(code_min - low / scale), code_min, code_max);
  return {scale, static_cast<int32_t>(zero), true};
}

QuantRange ScaledRange(const Range& range, DataType type) {
  CAFFE_CHECK(std::isfinite(range.high - range.low) && range.known(), "[", range.low, ", ",
              range.high, "] is not a valid range for a scale");
  CAFFE_CHECK(type.is_scaled(), type.name(), " is not a type with a scale for each blob");
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  if (largest == 0) return {1, 0, true};
  const double scale = PowerOfTwoFrom(largest / TableOf(type).largest());
  return {std::clamp(scale, 0x1p-100, 0x1p100), 0, true};
}

QuantRange CodeRange(const Range& range, DataType type) {
  return type.is_scaled() ? ScaledRange(range, type) : AffineRange(range, type);
}

Range LimitedRange(const Range& range, double least, double most, DataType type) {
  const TypeInfo& info = type.info();
  const auto is_code = [&](double code) {
    return code == std::floor(code) && code >= info.code_min && code <= info.code_max;
  };
  CAFFE_CHECK(is_code(least) && is_code(most) && least < most, "the limits ", least, " and ", most,
              " are not two codes of ", type.name(), ", from ", info.code_min, " to ",
              info.code_max);
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (low == high) return range;
  const double scale = (high - low) / (most - least);
  const double zero = std::clamp(std::round(least - low / scale), least, most);
  return {(info.code_min - zero) * scale, (info.code_max - zero) * scale, range.origin};
}

double PowerOfTwoFrom(double value) {
  int exponent;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return std::ldexp(1, fraction == 0.5 ? exponent - 1 : exponent);
}

Range PowerOfTwoRange(const Range& range, DataType type) {
  const QuantRange affine = AffineRange(range, type);
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (low == high) return range;
  const double codes = type.info().code_max - type.info().code_min;
  double scale = PowerOfTwoFrom(affine.scale);
  // Both ends are rounded outwards.
  while (std::ceil(-low / scale) + std::ceil(high / scale) > codes) scale *= 2;
  const double below = std::ceil(-low / scale);
  return {-below * scale, (codes - below) * scale, range.origin};
}

std::vector<QuantRange> CodeRanges(const ChannelRanges& ranges, DataType type) {
  const bool scales = !ranges.scale.empty();
  const ChannelRanges& ends = scales ? SymmetricRanges(ranges.scale, type) : ranges;
  std::vector<QuantRange> affine;
  for (size_t c = 0; c < std::max<size_t>(ends.low.size(), 1); ++c) {
    affine.push_back(CodeRange(ends.Of(c), type));
    // The ends of a range round; a stored scale is exact.
    if (scales) affine[c].scale = ranges.scale[c];
  }
  return affine;
}

ChannelRanges SymmetricRanges(const std::vector<double>& scales, DataType type) {
  const double largest = type.is_scaled() ? TableOf(type).largest() : 0;
  const double below = type.is_scaled() ? largest : (type.info().code_max + 1) / 2;
  const double above = type.is_scaled() ? largest : below - 1;
  ChannelRanges ranges{{0, 0}};
  for (const double scale : scales) {
    ranges.low.push_back(-below * scale);
    ranges.high.push_back(above * scale);
    ranges.whole.Unite({-below * scale, above * scale});
  }
  return ranges;
}

}  // namespace caffe
