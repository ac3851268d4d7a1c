#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/weighted_op.hpp"

namespace caffe {

// What Convolution, Deconvolution and InnerProduct have in common: the life of their operators. A
// layer says what its weights are and how an operator is made for its shape; in Reshape it calls
// ResetOps. The operators are made by PrepareParameters, so a layer that only runs as part of a fused
// step has none of its own.
class WeightedLayer : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  // Folds maps into a copy of the weights and applies stages in the operator's epilogue.
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

  // The layer's weights for the operator of a work: with maps folded in, and for its activation.
  std::shared_ptr<OperatorWeights> MakeWeights(const WorkRequest& request) const;
  // An operator for the shapes of the last Reshape, which applies the stages of `epilogue` behind the
  // bias; where epilogue.slopes is not kNone, there is a slope for each output channel. Null if there
  // is nothing to compute. `backward`: with the gradients' passes.
  virtual std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                             std::shared_ptr<OperatorWeights> weights,
                                             bool backward) const = 0;

 protected:
  // Weights, bias and layout; no maps.
  virtual OperatorWeights::Source WeightSource() const = 0;
  // Forgets operators and copies of another device; for `bottoms` bottoms. In LayerSetUp.
  void SetUpWeights(size_t bottoms);
  // For a new shape. `backward`: the operators have the gradients' passes.
  void ResetOps(bool backward);
  // Makes the operators for the shape at hand unless they are there; false if the shape is empty.
  bool EnsureOps();
  // The scales of the codes of quantized weights; empty before the first forward.
  std::vector<double> CodeScales() const;
  // The operator of a bottom. Float kinds have one for all.
  WeightedOp& op(size_t bottom) const { return *ops_[ops_.size() > 1 ? bottom : 0]; }
  // `epilogue` with the bias that the weights have, along `axis`.
  Epilogue Completed(Epilogue epilogue, Epilogue::Bias axis, const OperatorWeights& weights) const;

 private:
  bool made_ = false, backward_ = false;
  // One for each bottom for quantized types, whose bottoms have ranges of their own.
  std::vector<std::shared_ptr<OperatorWeights>> weights_;
  std::vector<std::unique_ptr<WeightedOp>> ops_;  // none for an empty shape
  std::weak_ptr<OperatorWeights> work_weights_;   // of the last work that folds no maps
};

}  // namespace caffe
