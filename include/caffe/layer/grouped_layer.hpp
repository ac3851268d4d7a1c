#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/weighted_op.hpp"

namespace caffe {

// The common part of GroupedConvolution and GroupedInnerProduct: bottom 0 has rows (axis 0) that are
// ordered by group, each group has weights of its own, and bottom 1 has the first row of each group
// and, as its last element, the number of rows in use. Rows after that belong to the last group.
//
// A group's rows are computed in parts of 1, 4, 16, … rows, by operators that are made before, so
// that a forward needs none for a new number of rows. Their number is read on the host, which waits
// unless the device is the CPU.
class GroupedLayer : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void PrepareParameters() override;
  void CountMemory(WorkMemory* memory) const override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 protected:
  // Rows [begin, begin + count) of one group.
  struct Part {
    int group = 0;
    size_t size = 0;  // index in sizes()
    int64_t begin = 0;
  };
  int groups() const { return groups_; }
  // The blobs of a group are blobs()[group * per_group], …
  int per_group() const { return static_cast<int>(blobs_.size()) / groups_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  // Of the last forward.
  const std::vector<Part>& parts() const { return parts_; }
  WeightedOp& op(const Part& part) const { return *ops_[part.group][part.size]; }
  // Reads the number of groups; call it first in LayerSetUp.
  void SetUpGroups(const BlobVec& bottom);
  // Drops operators and copies of weights; call it at the end of LayerSetUp.
  void ResetWeights();
  // Drops operators; call it in Reshape for new shapes. `backward`: including the passes of gradients.
  void ResetOps(int64_t rows, bool backward);
  void EnsureOps();
  bool backward() const { return backward_; }
  // `epilogue` of the operators: the bias along this axis.
  Epilogue BiasAlong(Epilogue::Bias axis, const OperatorWeights& weights) const;
  static DevicePtr Row(DevicePtr from, int64_t row, const BlobBase& blob);

  // The weights of a group.
  virtual OperatorWeights::Source WeightSource(int group) const = 0;
  // An operator for this many rows.
  virtual std::unique_ptr<WeightedOp> MakeOp(int64_t rows, bool backward,
                                             std::shared_ptr<OperatorWeights> weights) const = 0;

 private:
  // Sets parts_, in the order of the rows.
  void FindParts(const BlobBase& offsets);

  int groups_ = 0;
  int64_t rows_ = 0;
  bool made_ = false, backward_ = false;
  std::vector<int64_t> sizes_;
  std::vector<Part> parts_;  // of the last forward; has room for those of any offsets
  std::vector<std::shared_ptr<OperatorWeights>> weights_;      // of each group
  std::vector<std::vector<std::unique_ptr<WeightedOp>>> ops_;  // of each group and size
};

}  // namespace caffe
