#pragma once

#include <optional>

#include "caffe/core/data_type.hpp"

namespace caffe {

// A layer with weights that can have the values of codes.
class HasPseudoWeights {
 public:
  virtual ~HasPseudoWeights() = default;
  // For float kinds: the layer computes with the values that the weights have as codes of this
  // type; the gradients of these are those of the weights. Makes the operators again. Without a
  // type, with the weights themselves.
  virtual void set_pseudo_weights(std::optional<DataType> type) = 0;
};

}  // namespace caffe
