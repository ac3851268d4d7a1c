#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/operator_weights.hpp"
#include "caffe/library/operator.hpp"
#include "caffe/library/prepared_weights.hpp"
#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// The weights of one or more groups of equal shapes, as an operator reads them. The weights of one
// group are where they are, or in the operator's own form. Those of several groups are in arrays,
// the groups one after the other (ConvDescriptor::row_groups).
class JointWeights {
 public:
  using Groups = std::vector<std::shared_ptr<OperatorWeights>>;
  // `key` is that of the operator's descriptor. The operator must outlive this.
  JointWeights(Groups groups, Operator* op, const std::string& key);
  ~JointWeights();
  const Groups& groups() const { return groups_; }
  // There is no backward pass: memory of weights in forms that a forward does not read is freed.
  void set_forward_only(bool value) { forward_only_ = value; }
  // Brings everything up to date; for quantized types after SetRanges of each group.
  void Refresh();
  // Adds what Refresh allocates and does not free; may be called before it.
  void CountMemory(WorkMemory* memory) const;

  // The operands of a forward. The weights are null if they were freed, and those of several groups
  // if the operator reads prepared ones.
  DevicePtr weights() const;
  // Null if the operator uses the weights unchanged.
  DevicePtr prepared() const;
  // Null for quantized types, and if there is none.
  DevicePtr bias() const;
  bool quantized() const { return groups_[0]->quantized(); }
  // For quantized types.
  QuantArguments quant() const;
  // The bytes of one group: its weights in the form in which the operator reads them, bias and
  // factors.
  int64_t group_bytes() const { return WeightBytes() + groups_[0]->channel_bytes(); }

 private:
  class Slice;
  class Channels;

  bool prepares() const { return op_->prepared_bytes() > 0; }
  bool FreesWeights() const { return forward_only_ && prepared_->data(); }
  int64_t WeightBytes() const;
  void RefreshGroups();

  Groups groups_;
  Operator* op_;
  bool forward_only_ = false;
  std::shared_ptr<PreparedWeights> prepared_;  // of one group
  // The arrays of several groups.
  std::unique_ptr<DeviceBuffer> array_;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::unique_ptr<Channels> channels_;
};

}  // namespace caffe
