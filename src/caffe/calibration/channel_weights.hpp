#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

// The weights of one output channel, in the shape [group, outer, channels / group, inner].
class ChannelWeights {
 public:
  ChannelWeights(const LayerFacts::Weighted& weighted, int64_t count)
      : outer_(weighted.outer),
        middle_(weighted.channels / weighted.group),
        inner_(count / (weighted.channels * weighted.outer)) {}
  // The number of weights of a channel.
  int64_t size() const { return outer_ * inner_; }
  // Calls function(index of the element) for the elements of a channel.
  template <class Function> void ForEach(int64_t channel, const Function& function) const {
    const int64_t group = channel / middle_, position = channel % middle_;
    for (int64_t o = 0; o < outer_; ++o) {
      const int64_t first = ((group * outer_ + o) * middle_ + position) * inner_;
      for (int64_t i = 0; i < inner_; ++i) function(first + i);
    }
  }

 private:
  int64_t outer_, middle_, inner_;
};

// The largest code of a weight; the smallest is its negative.
inline double WeightCodes(DataType type) { return type == kQuant8 ? 127 : 32767; }

// The step of a channel's codes.
inline double WeightScale(double largest, DataType type) {
  return std::max(largest / WeightCodes(type), 0x1p-126);
}

}  // namespace caffe
