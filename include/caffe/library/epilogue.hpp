#pragma once

#include "caffe/core/data_type.hpp"

namespace caffe {

// What an operator does to its result before it stores it: y = activation(result + bias).
struct Epilogue {
  enum class Bias { kNone, kPerRow, kPerColumn };
  enum class Activation { kNone, kRelu };  // ReLU with slope 0

  Bias bias = Bias::kNone;
  DataType bias_type = kFloat;  // float or double: biases are masters
  Activation activation = Activation::kNone;

  bool empty() const { return bias == Bias::kNone && activation == Activation::kNone; }
};

}  // namespace caffe
