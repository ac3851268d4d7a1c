#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/net/net.hpp"

namespace caffe {

// Chooses for each weight the code above or below it so that the layer's sums on calibration data
// change least, instead of the nearest code (rounding by reconstruction: Nagel et al. 2020, "Up or
// Down? Adaptive Rounding for Post-Training Quantization", equation 15). With the differences d of
// an output channel's weights and the mean G of x x' over the inputs x of its sums, the mean
// squared change is d' G d.
//
// The codes are found weight by weight: with G = R' R, R upper triangular, the last weight is
// rounded to the nearest code, and each one before it to the nearest code of its value plus sum
// over j > i of R_ij / R_ii d_j (Frantar et al. 2022, "GPTQ"; Babai 1986). Then single weights
// change to their other code as long as that lowers d' G d, from these codes and from the nearest
// ones; the better result is taken. So it is never worse than the nearest codes on the rows in G.
class WeightRounding {
 public:
  // Rows of inputs that are read for each layer, at most. A layer whose sums have more inputs than
  // kMostInputs keeps the nearest codes.
  static constexpr int64_t kRows = 8192, kMostInputs = 4608;

  // `file` holds the weights; its layers are those of the net, by their indices. Quantized layers
  // have the type `type`. `centred`: the mean change of a
  // sum does not count, because biases are corrected afterwards. `batches`: how often Add is
  // called.
  WeightRounding(const Net& net, const NetParameter& file, DataType type, bool centred,
                 int64_t batches);
  ~WeightRounding();
  // Adds rows of the inputs of all layers after a forward.
  void Add(const Net& net);
  struct Rounded {
    std::vector<float> weights;      // in the order of the file
    double nearest = 0, chosen = 0;  // mean squared changes on the rows, summed over channels
  };
  // The weights of the layers that gain, by their indices.
  std::map<int, Rounded> Round(
      const std::function<void(int64_t done, int64_t all)>& progress) const;

 private:
  struct Layer;
  void RoundLayer(const Layer& layer, Rounded* rounded) const;

  DataType type_;
  bool centred_;
  int64_t batches_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace caffe
