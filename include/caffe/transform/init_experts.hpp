#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

class Net;
class NetParameter;

// A layer of the experts of a MOE layer, and the layer of the dense net of which it took the
// weights.
struct ExpertStart {
  std::string layer;  // "moe/conv2"
  std::string dense;  // empty: none
  std::string why;    // why none
  int experts = 0;    // that have the layer
};

// Starts the experts of a net from a trained dense net (upcycling, Komatsuzaki et al. 2023).
// Outside MOE layers a layer takes the weights of the layer of the same name, as
// CopyTrainedLayersFrom does. A layer of an expert takes those of the dense layer that has its
// name, or its name without a beginning "ex_<number>_"; its shapes must be equal. To each weight of
// an expert a normally distributed number is added, whose deviation is `noise` times that of the
// weights of the blob. Other layers, and the gating net, keep their fillers.
std::vector<ExpertStart> InitExperts(const NetParameter& dense, double noise, uint64_t seed,
                                     Net* net);

}  // namespace caffe
