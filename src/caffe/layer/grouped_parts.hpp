#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "caffe/layer/grouped_op.hpp"
#include "caffe/layer/row_parts.hpp"
#include "caffe/layer/weighted_op.hpp"

namespace caffe {

// Computes each part of a group's rows by an operator that is made before, so that a forward needs
// none for a new number of rows.
class GroupedParts final : public GroupedOp {
 public:
  using Weights = std::vector<std::shared_ptr<OperatorWeights>>;
  // Makes an operator for so many rows of one group.
  using Make =
      std::function<std::unique_ptr<WeightedOp>(int64_t rows, std::shared_ptr<OperatorWeights>)>;
  // `weights` of each group.
  GroupedParts(RowParts rows, Weights weights, const Make& make);
  const char* library() const override;
  int64_t workspace_bytes() const override;
  int64_t products() const override;
  int64_t parameter_bytes() const override;
  void CountMemory(WorkMemory* memory) const override;
  void Prepare() override;
  void Run(const Operands& operands) override;

  // Those of these offsets; valid until the next call and the next Run.
  const std::vector<RowParts::Part>& Find(const BlobBase& offsets) { return rows_.Find(offsets); }
  WeightedOp& op(const RowParts::Part& part) const { return *ops_[part.group][part.size]; }
  // Row `row` of an array of the blob.
  static DevicePtr Row(DevicePtr from, int64_t row, const BlobBase& blob);

 private:
  RowParts rows_;
  Weights weights_;
  std::vector<std::vector<std::unique_ptr<WeightedOp>>> ops_;  // of each group and size
};

}  // namespace caffe
