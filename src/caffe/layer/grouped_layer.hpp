#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/grouped_parts.hpp"
#include "caffe/layer/joint_op.hpp"
#include "caffe/layer/operator_layer.hpp"

namespace caffe {

// The common part of GroupedConvolution and GroupedInnerProduct: bottom 0 has rows (axis 0) that
// are ordered by group, each group has weights of its own, and bottom 1 has the first row of each
// group and, as its last element, the number of rows in use. Rows after that belong to the last
// group.
//
// The rows are computed by a GroupedOp: the layer's own one, for Forward and Backward, or that of a
// work, with later layers in the epilogue. On devices, in phase TEST, it is one operator for all
// groups, if a library has one (JointOp); otherwise the rows are computed in parts (GroupedParts),
// for which the host reads the offsets.
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
  // The layer's own operators for the backward pass, which compute parts of the rows; finds the
  // parts of the current offsets. Makes other operators if the current ones have no backward pass.
  GroupedParts& BackwardParts(const BlobVec& bottom);
  // Reads the number of groups; call it first in LayerSetUp.
  void SetUpGroups(const BlobVec& bottom);
  // Drops operators and copies of weights; call it at the end of LayerSetUp.
  void ResetWeights();
  // Drops operators; call it in Reshape for new shapes. `backward`: including the passes of
  // gradients.
  void ResetOps(int64_t rows, bool backward);
  bool backward() const { return backward_; }
  // Whether one operator computes all groups, unless slopes of a work need parts.
  bool joint() const { return joint_; }
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
  // An operator for all rows and groups, with row_groups; forward only.
  virtual std::unique_ptr<GroupedOp> MakeJointOp(const Epilogue& epilogue,
                                                 const JointWeights::Groups& weights,
                                                 LayoutPair layouts) const = 0;
  // Whether a library makes it. `weights` is that of a group.
  virtual bool KnowsJointOp(const OperatorWeights& weights) const = 0;

 private:
  class OwnWork;
  JointWeights::Groups MakeGroupWeights(const WorkRequest& request) const;
  std::unique_ptr<GroupedParts> MakeParts(const Epilogue& epilogue, JointWeights::Groups weights,
                                          bool backward, LayoutPair layouts) const;
  std::unique_ptr<GroupedOp> MakeJoint(const Epilogue& epilogue,
                                       const JointWeights::Groups& weights,
                                       LayoutPair layouts) const;
  // The layer's own operators; makes them unless they exist.
  GroupedOp& EnsureOps();

  int groups_ = 0;
  bool backward_ = false, joint_ = false;
  RowParts rows_;
  JointWeights::Groups weights_;
  std::unique_ptr<GroupedOp> own_;
};

}  // namespace caffe
