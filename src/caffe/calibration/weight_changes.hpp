#pragma once

#include "caffe/calibration/steps.hpp"

namespace caffe {

// Changes of the float weights of a net before they are quantized. `file` holds the weights; its
// layers are those of the net, by their indices. Quantized layers have the type `type`.

// The mean square of the difference between the net's weights and the quantized ones of `file`, as
// a part of the mean square of the weights.
double WeightNoise(const Net& net, const NetParameter& file, int layer, DataType type);

// The errors of the layers' tops that rounding the weights makes: each layer runs with the
// differences of the weights on the bottoms of the float net.
class RoundingErrors {
 public:
  RoundingErrors(const FloatNet& net, const NetParameter& file, DataType type);
  // Adds the errors on the current blobs of the net, which must all be kept.
  void Add(const Net& net);
  // The sum of the squares of a layer's errors; with `corrects_biases` of their differences from
  // the channels' means, which CorrectBiases removes.
  double Square(int layer, bool corrects_biases) const;
  // Subtracts the mean error of each output channel from the biases in the file; returns how many
  // layers it changed. Layers without a bias do not change.
  int64_t CorrectBiases(NetParameter* file) const;

 private:
  struct Sum {
    std::vector<double> errors;  // of the channels
    double square = 0, count = 0;
    bool has_bias = false;
  };
  std::unique_ptr<Net> differences_;
  std::map<int, Sum> sums_;  // of layers
};

}  // namespace caffe
