#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/grouped_parts.hpp"
#include "caffe/layer/operator_layer.hpp"

namespace caffe {

// The common part of GroupedConvolution and GroupedInnerProduct: bottom 0 has rows (axis 0) that are
// ordered by group, each group has weights of its own, and bottom 1 has the first row of each group
// and, as its last element, the number of rows in use. Rows after that belong to the last group.
//
// The rows are computed by a GroupedOp: the layer's own one, by parts, for Forward and Backward, or
// that of a work, with later layers in the epilogue.
class GroupedLayer : public OperatorLayer {
 public:
  using OperatorLayer::OperatorLayer;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  LayerFacts Facts() const override;

 protected:
  int groups() const { return groups_; }
  // The blobs of a group are blobs()[group * per_group], …
  int per_group() const { return static_cast<int>(blobs_.size()) / groups_; }
  const std::vector<int64_t>& sizes() const { return rows_.sizes(); }
  // Those of the last forward.
  const std::vector<RowParts::Part>& parts() const { return own_->parts(); }
  WeightedOp& op(const RowParts::Part& part) const { return own_->op(part); }
  // Reads the number of groups; call it first in LayerSetUp.
  void SetUpGroups(const BlobVec& bottom);
  // Drops operators and copies of weights; call it at the end of LayerSetUp.
  void ResetWeights();
  // Drops operators; call it in Reshape for new shapes. `backward`: including the passes of gradients.
  void ResetOps(int64_t rows, bool backward);
  // The layer's own operators; makes them unless they exist.
  GroupedParts& EnsureOps();
  bool backward() const { return backward_; }
  // An element of an array of the blob.
  static DevicePtr Row(DevicePtr from, int64_t row, const BlobBase& blob) {
    return GroupedParts::Row(from, row, blob);
  }

  // The weights of a group.
  virtual OperatorWeights::Source WeightSource(int group) const = 0;
  // An operator for this many rows of one group, which applies the stages of `epilogue` after the
  // bias.
  virtual std::unique_ptr<WeightedOp> MakeOp(int64_t rows, const Epilogue& epilogue,
                                             std::shared_ptr<OperatorWeights> weights,
                                             bool backward, LayoutPair layouts) const = 0;

 private:
  class OwnWork;
  GroupedParts::Weights MakeGroupWeights(const WorkRequest& request) const;
  std::unique_ptr<GroupedParts> MakeParts(const Epilogue& epilogue, GroupedParts::Weights weights,
                                          bool backward, LayoutPair layouts) const;

  int groups_ = 0;
  bool backward_ = false;
  RowParts rows_;
  GroupedParts::Weights weights_;
  std::unique_ptr<GroupedParts> own_;
};

}  // namespace caffe
