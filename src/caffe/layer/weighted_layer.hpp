#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "caffe/layer/operator_layer.hpp"
#include "caffe/layer/weighted_op.hpp"

namespace caffe {

// The common part of Convolution, Deconvolution and InnerProduct: the life of their operators. A
// layer defines its weights and how an operator is made for its shape; in Reshape it calls
// ResetOps. PrepareParameters makes the operators, so a layer that only runs in a fused step has
// none.
class WeightedLayer : public OperatorLayer {
 public:
  using OperatorLayer::OperatorLayer;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  // Folds maps into a copy of the weights and applies stages in the operator's epilogue.
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

  // For float kinds: the layer computes with the values that the weights have as codes of this
  // type; the gradients of these are those of the weights. Makes the operators again. Without a
  // type, with the weights themselves.
  void set_pseudo_weights(std::optional<DataType> type);

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

  // The layer's weights for the operator of a work: with maps folded in, and for its activation.
  std::shared_ptr<OperatorWeights> MakeWeights(const WorkRequest& request) const;
  // Makes an operator for the shapes of the last Reshape, which applies the stages of `epilogue`
  // after the bias; if epilogue.slopes is not kNone, there is a slope for each output channel. Null
  // if there is nothing to compute. `backward`: including the passes of gradients. Layouts other
  // than kNCHW are requested only if Facts allows them.
  virtual std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                             std::shared_ptr<OperatorWeights> weights,
                                             bool backward, LayoutPair layouts) const = 0;
  // Backward by an operator that was made with its passes of gradients. Called only for layers
  // whose Facts say Layouts::trains.
  virtual void BackwardBy(WeightedOp* op, const BlobVec& top,
                          const std::vector<bool>& propagate_down, const BlobVec& bottom);

 protected:
  // Weights, bias and layout; no maps.
  virtual OperatorWeights::Source WeightSource() const = 0;
  // Drops operators and copies of the previous device; for `bottoms` bottoms. Call it in
  // LayerSetUp.
  void SetUpWeights(size_t bottoms);
  // Call it for a new shape. `backward`: the operators include the passes of gradients.
  void ResetOps(bool backward);
  // Makes the operators for the current shape unless they exist; false if the shape is empty.
  bool EnsureOps();
  // Called by it, and for layers that begin to share operators.
  virtual void OnResetOps() {}
  // The scales of the codes of quantized weights; empty before the first forward.
  std::vector<double> CodeScales() const;
  // The operator of a bottom. Float kinds have one for all.
  WeightedOp& op(size_t bottom) const { return *ops_[ops_.size() > 1 ? bottom : 0]; }

 private:
  class OwnWork;
  bool SharesOperators() const;

  bool made_ = false, backward_ = false;
  bool shared_ = false;  // ShareOperators was called with this layer
  std::optional<DataType> pseudo_;
  // One for each bottom for quantized types, whose bottoms have separate ranges.
  std::vector<std::shared_ptr<OperatorWeights>> weights_;
  std::vector<std::shared_ptr<WeightedOp>> ops_;  // none for an empty shape
  std::shared_ptr<WeightedLayer> other_;          // of ShareOperators
  std::weak_ptr<OperatorWeights> work_weights_;   // of the last work that folds no maps
};

}  // namespace caffe
