#pragma once

#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

// The content of a blob as real numbers.
std::vector<float> RealValues(const BlobBase& blob);
// Writes the inputs of a net. A short batch is repeated.
void Fill(const Batch& batch, Net* net);
double Decibels(double signal, double noise);

// Signal and noise of a blob over the held-out batches.
struct Comparison {
  double signal = 0, noise = 0, product = 0, other = 0;
  double own_noise = 0, clipped = 0, count = 0;

  void Add(const std::vector<float>& real, const std::vector<float>& quantized);
  // The noise of rounding the values to codes of a range.
  void AddOwn(const std::vector<float>& real, const QuantRange& range, DataType type);
  double cosine() const;
};

}  // namespace caffe
