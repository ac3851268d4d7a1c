#pragma once

#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// TRAIN: y = x / (1 - ratio) with probability 1 - ratio, else 0; dE/dx likewise from dE/dy.
// TEST: y = x. With scale_train: false, TRAIN leaves x as it is and TEST multiplies by 1 - ratio.
// No mask is stored: it is a function of (seed, count of forwards, element), the same on every
// device, and the backward pass computes it again.
// bottom 0, top 0: any shape, the same. In place allowed.
// dropout_param: dropout_ratio (0.5), scale_train (true).
// Types: float kinds; quant8 and quant16 in TEST, where the top has the bottom's codes, and its range,
// multiplied by 1 - ratio with scale_train: false.
class Dropout : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  // TRAIN: the count of forwards.
  std::vector<uint64_t> RunState() const override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  // y is x masked in TRAIN, or x itself in TEST.
  void Run(int64_t count, KernelArgument x, KernelArgument y);

  uint32_t threshold_ = 0;  // random words below it drop their element
  double scale_ = 1;
  ForwardCounter counter_;
  std::unique_ptr<Kernel> mask_, multiply_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DropoutLayer final : public Layer<Dtype, MItype, MOtype, Dropout> {
  using Layer<Dtype, MItype, MOtype, Dropout>::Layer;
};

}  // namespace caffe
