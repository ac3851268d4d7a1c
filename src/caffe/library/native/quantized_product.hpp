#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/library/native/quantized_steps.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// The functions for the instruction level of the host kernels.
const QuantizedSteps& HostQuantizedSteps();

// Packed rows of codes: a matrix [rows, k] of weights, or of activations as one or two planes. The
// caller owns the memory, bytes() bytes, and passes it to `Bind`.
class PackedRows {
 public:
  PackedRows() = default;
  PackedRows(DataType type, bool weights, int64_t rows, int64_t k);
  void Bind(void* memory) { data_ = static_cast<int16_t*>(memory); }
  // Rows [begin, end) of a source whose row r begins at r * row_stride.
  void Pack(const void* source, int64_t row_stride, int64_t k_stride, int64_t begin, int64_t end);
  // Writes the zeros after the last element of each row; Pack writes them, too.
  void ClearEnds();
  int16_t* row(int64_t r) const { return data_ + r * row_stride_; }
  // Elements from row to row, a multiple of kQuantDepth.
  int64_t row_stride() const { return row_stride_; }
  // Elements of a plane's row: k, rounded up.
  int64_t depth() const { return depth_; }
  // Elements from the low bytes to the high ones; 0 if there are no high bytes.
  int64_t high() const { return high_; }
  int64_t bytes() const { return rows_ * row_stride_ * static_cast<int64_t>(sizeof(int16_t)); }

 private:
  DataType type_;
  bool weights_ = false;
  int64_t rows_ = 0, k_ = 0, depth_ = 0, row_stride_ = 0, high_ = 0;
  int16_t* data_ = nullptr;
};

// The common fields of all blocks of one product.
QuantizedOutput MakeOutput(bool rows_are_weights, DataType type, bool wide,
                           const Epilogue& epilogue, const QuantArguments& arguments);
QuantizedTile MakeTile(const PackedRows& weights, const PackedRows& activations,
                       bool rows_are_weights, DataType type, bool wide, const Epilogue& epilogue,
                       const QuantArguments& arguments);
// Makes the block begin at another channel.
void StartAtChannel(int64_t channel, QuantizedOutput* output);

}  // namespace caffe
