#pragma once

#include <memory>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/operator_weights.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {

// The common part of layers whose operators have weights and an epilogue: what a WorkRequest means
// for these.
class OperatorLayer : public LayerBase {
 public:
  using LayerBase::LayerBase;

 protected:
  // The copies of `source` for the operator of a work: with maps folded in, and for its activation.
  std::shared_ptr<OperatorWeights> MakeWeights(OperatorWeights::Source source,
                                               const WorkRequest& request) const;
  // The stages of the request, without a bias.
  static Epilogue EpilogueOf(const WorkRequest& request);
  // For quantized types: the ranges of bottom 0 and of the blobs of the request.
  void SetRanges(const WorkRequest& request, OperatorWeights* weights) const;
  // `epilogue` with the bias of the weights, along `axis`.
  Epilogue Completed(Epilogue epilogue, Epilogue::Bias axis, const OperatorWeights& weights) const;
};

}  // namespace caffe
