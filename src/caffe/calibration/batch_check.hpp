#pragma once

#include <map>
#include <string>

#include "caffe/calibration/batch.hpp"
#include "caffe/core/shape.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

// Checks batches as net.forward checks its inputs.
class BatchCheck {
 public:
  BatchCheck() = default;
  explicit BatchCheck(const Net& net);
  // Throws if the batch has not the net's inputs, if a shape does not fit, or if inputs have different
  // numbers of items. Sets the number of items if it is negative.
  void Check(int64_t index, Batch* batch) const;

 private:
  // The shape of the values, which is computed if the reader does not give it.
  Shape ShapeOf(const Batch& batch, const std::string& name, const Shape& wanted) const;

  std::vector<std::string> names_;
  std::map<std::string, Shape> inputs_;
  int64_t batch_ = 0;      // the extent of axis 0 that counts items
  int64_t sequences_ = 0;  // of a net with recurrent layers, whose batches must be whole
};

}  // namespace caffe
