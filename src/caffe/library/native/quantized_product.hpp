#pragma once

#include <cstdint>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/library/native/quantized_steps.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// The steps of the instruction level that host kernels use.
const QuantizedSteps& HostQuantizedSteps();

// Rows of codes, packed: a matrix [rows, k] of weights, or of activations as one or two planes.
class PackedRows {
 public:
  PackedRows() = default;
  PackedRows(DataType type, bool weights, int64_t rows, int64_t k);
  // Rows [begin, end) of a source whose row r begins at r * row_step.
  void Pack(const void* source, int64_t row_step, int64_t k_step, int64_t begin, int64_t end);
  const int16_t* row(int64_t r) const { return data_.data() + r * step_; }
  int16_t* row(int64_t r) { return data_.data() + r * step_; }
  int64_t step() const { return step_; }    // elements from row to row, a multiple of kQuantDepth
  int64_t depth() const { return depth_; }  // elements of a plane's row: k, rounded up
  int64_t high() const {
    return high_;
  }  // from the low bytes to the high ones; 0 if there are none
  int64_t bytes() const { return static_cast<int64_t>(data_.size() * sizeof(int16_t)); }

 private:
  DataType type_;
  bool weights_ = false;
  int64_t k_ = 0, depth_ = 0, step_ = 0, high_ = 0;
  std::vector<int16_t> data_;
};

// What the tiles of one product have in common.
QuantizedTile MakeTile(const PackedRows& weights, const PackedRows& activations,
                       bool rows_are_weights, DataType type, bool wide, bool relu,
                       const QuantArguments& arguments);

}  // namespace caffe
