#pragma once

#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// TRAIN: y[n, …] = x[n, …] * z[n], where z[n] is normally distributed; dE/dx[n] = z[n] dE/dy[n].
// With per_element every element has a number of its own. With additive, y = x + z and
// dE/dx = dE/dy.
// TEST: y = 0, as in the OpenCL fork, so that a branch with noise vanishes; with additive, y = x.
// With test_mean, mu takes the place of z.
// The numbers are a function of (seed, count of forwards, item), the same on every device. The
// backward pass computes them again.
// bottom 0, top 0: any shape, the same. In place allowed.
// noise_param: mu (0), sigma (1), per_element (false), additive (false), test_mean (false).
// Types: float kinds.
class Noise : public LayerBase {
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
  enum class Mode { kNoise, kMean, kZero, kSame };
  void Run(Mode mode, bool additive, KernelArgument x, KernelArgument y);
  Mode ForwardMode() const;

  int64_t rows_ = 0, columns_ = 0;
  ForwardCounter counter_;
  std::unique_ptr<Kernel> apply_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class NoiseLayer final : public Layer<Dtype, MItype, MOtype, Noise> {
  using Layer<Dtype, MItype, MOtype, Noise>::Layer;
};

}  // namespace caffe
