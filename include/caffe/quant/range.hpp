#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"

namespace caffe {

class QuantizerParameter;

// The smallest and the largest value of a blob, and how they were found.
struct Range {
  double low = INFINITY, high = -INFINITY;
  // As QuantizerParameter.method: min_max, percentile, …, given, scores, tied. Empty: observed.
  std::string origin;

  bool known() const { return low <= high; }
  // Widens this by another range. The union of two has no origin.
  void Unite(const Range& other);
};

// The range of a parameter, and those of its output channels, if they are given.
struct ChannelRanges {
  Range whole;
  std::vector<double> low, high;
  // Instead of both: the scales of symmetric codes.
  std::vector<double> scale;

  Range Of(size_t channel) const {
    return low.empty() ? whole : Range{low[channel], high[channel]};
  }
};

// Reads the range of an entry, in which each interval must be finite with low <= high, and each
// scale positive. If not, warns with the name and returns nothing: the weights of such a file are
// still loaded, and a layer that needs the range reports that it is missing.
std::optional<ChannelRanges> ReadRange(const std::string& name, const QuantizerParameter& entry);
void WriteRange(const Range& range, QuantizerParameter* entry);
void WriteRange(const ChannelRanges& ranges, QuantizerParameter* entry);

// Scale and zero point of the affine quantization of [low, high] to the codes of `type` (thesis of
// Tschopp 2018, eq. 1.1-1.3 with gemmlowp's conditions): the range is widened to include 0, the
// zero point is an integer, 0 is exact. [0, 0] gives scale 1 and zero point 0. Throws on NaN,
// infinities and low > high.
QuantRange AffineRange(const Range& range, DataType type);
// The scale of a type with TypeInfo::scaled: the smallest power of two with which the largest
// finite value of the type is not below |low| and |high|, from 2^-100 to 2^100. [0, 0] gives 1.
QuantRange ScaledRange(const Range& range, DataType type);
// The one of both for the kind of the type.
QuantRange CodeRange(const Range& range, DataType type);
// The range of all codes of `type` if those from `least` to `most` have the given one, by the same
// formula: what the OpenCL fork's limits of codes mean. Throws if they are not codes, or not two.
Range LimitedRange(const Range& range, double least, double most, DataType type);
// The least power of two that is not below a positive number.
double PowerOfTwoFrom(double value);
// The range, widened until its scale is a power of two and its ends are codes. [0, 0] stays.
Range PowerOfTwoRange(const Range& range, DataType type);
// Those of each channel, or of the whole parameter.
std::vector<QuantRange> CodeRanges(const ChannelRanges& ranges, DataType type);

// The ranges of channels with these scales: [-128 s, 127 s], likewise for 16 bits, so that the
// affine formula returns the scale and the middle zero point. Of a scaled type: from -s to s times
// its largest value.
ChannelRanges SymmetricRanges(const std::vector<double>& scales, DataType type);

}  // namespace caffe
