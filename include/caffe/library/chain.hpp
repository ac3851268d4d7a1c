#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/element_function.hpp"

namespace caffe {

// y = the functions applied to x, one after the other, in one launch. All arrays have one float
// kind and the same order of elements; the arithmetic is that of the type, and y is rounded once. y
// may be x, but no summand.
class ChainOp {
 public:
  static constexpr int kMaxStages = 12;
  static constexpr int kMaxSummands = 4;

  // Element i belongs to channel (i / inner) % channels.
  struct Shape {
    int64_t count = 0, channels = 1, inner = 1;
  };
  ChainOp(Device* device, DataType type, std::vector<ElementFunction::Kind> functions,
          const Shape& shape);
  // The constants of all functions, in their order.
  int constants() const { return constants_; }
  // The table of constants has the master type and the shape [constants, width]. Column c holds
  // those of channel c % channels.
  int64_t width() const { return width_; }
  // `summands` are those of kSum, in the order of the functions. `table` is not read if there are
  // no constants.
  void Run(DevicePtr table, DevicePtr x, std::span<const DevicePtr> summands, DevicePtr y) const;

 private:
  std::string Text() const;

  std::vector<ElementFunction::Kind> functions_;
  Shape shape_;
  bool on_host_;
  int constants_ = 0, sums_ = 0;
  int64_t rows_ = 0, columns_ = 0, width_ = 1;
  bool by_column_ = false;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
