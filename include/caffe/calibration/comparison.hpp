#pragma once

#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

// The content of a blob as real numbers.
std::vector<float> RealValues(const BlobBase& blob);
// The shape of an input in the net's parameter.
Shape InputShape(const Net& net, int blob);
// Whether an input of the batch has images of another height or width than the net's.
bool HasOtherSizes(const Batch& batch, const Net& net);
// Writes the inputs of a net, and runs it. They have the shapes of its parameter, or those of the
// batch, if this has images of another size. A short batch is repeated.
void Forward(const Batch& batch, Net* net);
// Infinite without noise, NaN if one of them is NaN.
double Decibels(double signal, double noise);

// Signal and noise of a blob over the held-out batches.
struct Comparison {
  double signal = 0, noise = 0, product = 0, other = 0;
  double own_noise = 0, clipped = 0, count = 0;
  // Values that are infinite or NaN in one of the nets. They are left out of the numbers above.
  double not_finite = 0;
  // Those of them that the other net does not have: the noise is infinite.
  double lost = 0;

  void Add(const std::vector<float>& real, const std::vector<float>& quantized);
  // The noise of rounding the values to codes of a range.
  void AddOwn(const std::vector<float>& real, const QuantRange& range, DataType type);
  // Whether there is nothing to compare, or the noise is infinite.
  bool undefined() const { return lost > 0 || not_finite == count; }
  // Signal to noise in dB, and the cosine of both nets' values; NaN if they are undefined.
  double snr() const;
  double cosine() const;
  double total_noise() const;     // infinite if values are lost
  double relative_noise() const;  // as a part of the signal
};

}  // namespace caffe
