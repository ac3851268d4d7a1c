#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/layer/has_pseudo_weights.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/weighted_op.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {

// The common part of Convolution, Deconvolution and InnerProduct: the life of their operators. A
// layer defines its weights and how an operator is made for its shape; in Reshape it calls
// ResetOps. PrepareParameters makes the operators, so a layer that only runs in a fused step has
// none.
//
// A grouped layer has several sets of weights: bottom 0 has rows (axis 0) that are ordered by
// group, each group has weights of its own, and bottom 1 has the first row of each group and, as
// its last element, the number of rows in use. Rows after that belong to the last group. On
// devices, in phase TEST, one operator computes all groups, if a library has one; otherwise the
// rows are computed in parts (WeightedParts). A single group has all
// rows.
class WeightedLayer : public LayerBase, public HasPseudoWeights {
 public:
  using LayerBase::LayerBase;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  // Folds maps into a copy of the weights and applies stages in the operator's epilogue.
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

  void set_pseudo_weights(std::optional<DataType> type) override;

  // For float kinds: uses the operators and the copies of weights of `other`, which has the same
  // parameters and is set up, reshaped and prepared before this layer, as long as both have bottoms
  // of one shape. For the steps of recurrent layers.
  void ShareOperators(std::shared_ptr<WeightedLayer> other);
  // Whether several layers do so: a prepared form of the weights is then used several times in each
  // pass.
  bool shares_weights() const { return shared_ || other_; }

  // The inputs of the layer's sums, for rounding its weights: row r has the elements of bottom 0
  // that the weights of an output channel multiply for the output element r of the channel (over
  // all items), in the order of these weights, 0 for padding. 0 rows: the layer cannot tell.
  virtual int64_t input_rows() const { return 0; }
  // The output channels are as many equal parts, each of which has rows of its own.
  virtual int64_t input_groups() const { return 1; }
  // `values` is the content of bottom 0, for the shapes of the last Reshape; writes the rows one
  // after the other.
  virtual void GatherRows(const std::vector<float>& values, int64_t group,
                          const std::vector<int64_t>& rows, float* to) const {}

  // The weights of each group for the operator of a work: with maps folded in, and for its
  // activation.
  JointWeights::Groups MakeWeights(const WorkRequest& request) const;
  // Makes a way of computing the layer for the shapes of the last Reshape, which applies the stages
  // of `epilogue` after the bias; if epilogue.slopes is not kNone, there is a slope for each output
  // channel. Null if there is nothing to compute. `backward`: including the passes of gradients.
  // Layouts other than kNCHW are requested only if Facts allows them.
  std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue, const JointWeights::Groups& weights,
                                     bool backward, LayoutPair layouts) const;
  // Backward by operators that were made with their passes of gradients.
  void BackwardBy(WeightedOp* op, const BlobVec& top, const std::vector<bool>& propagate_down,
                  const BlobVec& bottom);

 protected:
  // Whether bottom 1 has the offsets of groups.
  virtual bool grouped() const { return false; }
  int groups() const { return groups_; }
  // Whether one operator computes all groups, unless slopes of a work need parts.
  bool joint() const { return joint_; }
  // The bottoms without those offsets.
  BlobVec Inputs(const BlobVec& bottom) const;
  // Reads the number of groups; call it first in LayerSetUp. `axis`: the first one behind the rows.
  void SetUpGroups(const BlobVec& bottom, int axis);
  // Makes blobs() for each group: weights of this shape, and a bias for each of `outputs` unless
  // that is 0.
  void AddWeights(const Shape& shape, const FillerParameter& filler, int64_t outputs,
                  const FillerParameter& bias_filler);
  // Drops operators and copies of the previous device; for `pairs` pairs of bottoms and tops. Call
  // it at the end of LayerSetUp.
  void SetUpWeights(size_t pairs);
  // Call it for a new shape, with a bottom and a top that have so many rows; 0 if there is nothing
  // to compute. The operators include the passes of gradients in phase TRAIN.
  void ResetOps(int64_t rows, const BlobBase& bottom, const BlobBase& top);
  // The rows of the last ResetOps; -1 before the first one.
  int64_t rows() const { return rows_; }
  // The numbers of rows for which operators are made: all rows, or the sizes of parts.
  std::vector<int64_t> OperatorRows() const;
  // Whether bottoms and tops are in float and codes are multiplied.
  bool dynamic() const { return types().compute.is_quantized() && types().in.is_float(); }
  // The facts of a layer with these weights.
  LayerFacts FactsOf(LayerFacts::Weighted weighted) const;
  // `epilogue` with the bias of the weights, along `axis`.
  Epilogue Completed(Epilogue epilogue, Epilogue::Bias axis, const OperatorWeights& weights) const;

  // The layout and the quantizer of the weights of a group, without blobs and maps.
  virtual OperatorWeights::Source WeightSource() const = 0;
  // An operator for so many rows of the groups whose weights are given: one group, or all groups,
  // with row_groups.
  virtual std::unique_ptr<LibraryOp> MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                                   const JointWeights::Groups& weights,
                                                   bool backward, LayoutPair layouts) const = 0;
  // Whether a library computes all groups by one operator.
  virtual bool KnowsAllGroups(const JointWeights::Groups& weights) const { return false; }

 private:
  class OwnWork;
  int per_group() const { return static_cast<int>(blobs_.size()) / groups_; }
  void SetRanges(const WorkRequest& request, const JointWeights::Groups& weights) const;
  void DropOps(bool backward);
  // Makes the operators for the current shape unless they exist; false if the shape is empty.
  bool EnsureOps();
  // Makes others unless they have passes of gradients.
  void EnsureBackward();
  // The operator of a pair. Float kinds have one for all.
  WeightedOp& op(size_t pair) const { return *ops_[ops_.size() > 1 ? pair : 0]; }
  bool SharesOperators() const;
  // The scales of the codes of quantized weights; empty before the first forward.
  std::vector<double> CodeScales() const;

  int groups_ = 1;
  int64_t rows_ = -1, x_row_ = 0, y_row_ = 0;  // bytes of a row
  RowParts parts_;                             // of several groups
  bool joint_ = false;
  bool made_ = false, backward_ = false;
  bool shared_ = false;  // ShareOperators was called with this layer
  std::optional<DataType> pseudo_;
  // One for each bottom for quantized types, whose bottoms have separate ranges.
  std::vector<JointWeights::Groups> weights_;
  std::vector<std::shared_ptr<WeightedOp>> ops_;  // none for an empty shape
  std::shared_ptr<WeightedLayer> other_;          // of ShareOperators
  std::weak_ptr<OperatorWeights> work_weights_;   // of the last work that folds no maps
};

// The layer whose bottom 1 has the offsets of groups.
template <class Base> class Grouped : public Base {
 public:
  using Base::Base;

 protected:
  bool grouped() const override { return true; }
};

// The traits of such a layer.
LayerTraits GroupedTraits(std::string summary);

}  // namespace caffe
