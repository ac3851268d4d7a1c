#pragma once

#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

// How the range of a blob is chosen from the values that were observed.
//   min_max     the smallest and the largest value (thesis of Tschopp 2018, eq. 1.1-1.3)
//   percentile  leaves out the same share of the values at both ends; of blobs without negative
//               values at the upper end only (Wu et al. 2020, "Integer Quantization for Deep
//               Learning Inference", section 3.3)
//   mse         the range whose expected squared error of quantization is least (Banner et al.
//               2019, "Post training 4-bit quantization", section 3; found by search)
//   kl          the threshold whose quantized distribution has the least Kullback-Leibler
//               divergence from the clipped one (Migacz 2017, "8-bit Inference with TensorRT")
//   margin      min_max, 1.5 times as wide: other data than the observed ones have larger values
//   auto        for 8 bits the one of the first four with the least expected squared error, min_max
//               if equal; for 16 bits margin, since steps of 16 bits cost less than clipping
//   dynamic     no range: that of the values of each forward, for 8 bits
enum class CalibrationMethod { kAuto, kMinMax, kPercentile, kMse, kKl, kMargin, kDynamic };

const char* MethodName(CalibrationMethod method);
// Throws for an unknown name, and lists the known names.
CalibrationMethod MethodByName(const std::string& name);

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::kAuto;
  double percentile = 99.99;  // the percentage of the values that stays in the range
  bool power_of_two = false;  // ranges are widened until their scale is a power of two
};

// The range for codes of `type`, with the name of its method, which is never auto. `observed` has
// the smallest and the largest value; only the range of margin is wider. With kl for 16 bits, for
// which the histogram is too coarse, the result is that of min_max, and its origin says so.
Range Calibrate(const Histogram& histogram, const Range& observed, DataType type,
                const CalibrationOptions& options);

// The mean square of (x - quantized x) over the values x, if those of a bin are spread equally over
// the part of the bin within the observed range. `range` is given to AffineRange.
double QuantizationError(const Histogram& histogram, const Range& observed, const Range& range,
                         DataType type);

}  // namespace caffe
