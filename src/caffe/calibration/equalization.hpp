#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/net/net.hpp"

namespace caffe {

// Scales the channels of blobs between layers with weights: a channel of a producer is divided by
// s, and the weights of its consumers for this channel are multiplied by s. Between them are only
// layers for which that does not change the result: ReLU, PReLU, MAX pooling, Dropout and Concat of
// channels. The scale of a channel is (largest value of the channel / that of all channels)^alpha.
//
// Producers whose blobs one consumer reads together have one alpha, of 0, 1/4, … 1: the one with
// the least expected noise at the consumers' sums, which is that of codes of their bottoms plus
// that of rounding their weights with one scale for each output channel.
class Equalization {
 public:
  explicit Equalization(const Net& net);
  // The blobs that Add reads.
  std::vector<std::string> blobs() const;
  // Adds the values of the blobs after a forward.
  void Add(const Net& net);
  // Scales weights and biases in the file, whose layers are those of the net by their indices;
  // returns how many producers have scales other than 1.
  int64_t Apply(NetParameter* file) const;

 private:
  // A channel of a layer's top.
  struct Channel {
    int layer;
    int64_t channel;
  };
  struct Consumer {
    int layer;
    std::string blob;
    std::vector<Channel> inputs;  // by the channels of the blob
    std::vector<double> largest, square;
    double count = 0;  // of values in each channel
  };
  int Root(int layer) const;
  double Noise(const Consumer& consumer, const NetParameter& file,
               const std::map<int, std::vector<double>>& scales) const;
  std::map<int, std::vector<double>> Scales(int root, double alpha) const;

  std::map<int, int64_t> producers_;  // layers whose channels can be scaled, with their number
  std::map<int, int> parents_;        // producers that are scaled together
  std::map<int, int64_t> groups_;     // of the consumers
  std::vector<Consumer> consumers_;
};

}  // namespace caffe
