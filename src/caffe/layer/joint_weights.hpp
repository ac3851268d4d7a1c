#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/operator_weights.hpp"
#include "caffe/library/operator.hpp"
#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// The weights of groups of equal shapes in the arrays that an operator for all groups reads: the
// groups one after the other (ConvDescriptor::row_groups).
class JointWeights {
 public:
  using Groups = std::vector<std::shared_ptr<OperatorWeights>>;
  // `key` is that of the operator's descriptor. The operator must outlive this.
  JointWeights(Groups groups, Operator* op, const std::string& key);
  ~JointWeights();
  const Groups& groups() const { return groups_; }
  // Brings the arrays up to date; for quantized types after SetRanges of each group. With
  // `forward_only` the device then holds no other copy of the weights.
  void Refresh(bool forward_only);
  // Adds what Refresh(forward_only) allocates and does not free.
  void CountMemory(bool forward_only, WorkMemory* memory) const;

  // The operands of a call. Of weights and prepared, the one that the operator does not read is
  // null.
  DevicePtr weights() const { return prepares() ? DevicePtr{} : array_->pointer(); }
  DevicePtr prepared() const { return prepares() ? array_->pointer() : DevicePtr{}; }
  // Null for quantized types, and if there is none.
  DevicePtr bias() const;
  // For quantized types.
  QuantArguments quant() const;
  // The bytes of one group: its weights in the form in which the operator reads them, bias and
  // factors.
  int64_t group_bytes() const { return WeightBytes() + ChannelBytes(); }

 private:
  class Slice;
  class Channels;

  bool prepares() const { return op_->prepared_bytes() > 0; }
  int64_t WeightBytes() const;
  // The bytes of the bias, or of bias and factors.
  int64_t ChannelBytes() const;

  Groups groups_;
  Operator* op_;
  std::unique_ptr<DeviceBuffer> array_;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::unique_ptr<Channels> channels_;
};

}  // namespace caffe
