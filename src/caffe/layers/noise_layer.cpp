#include "caffe.pb.h"
#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

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

template <class Dtype, class MItype, class MOtype>
using NoiseLayer = Layer<Dtype, MItype, MOtype, Noise>;

void Noise::LayerSetUp(const BlobVec&, const BlobVec&) {
  CAFFE_CHECK(layer_param().noise_param().sigma() >= 0, Where(), ": sigma ",
              layer_param().noise_param().sigma(), " is negative");
  counter_.Place(device());
  apply_ = MakeKernel("neuron/noise", "noise_apply");
}

void Noise::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const bool items = !layer_param().noise_param().per_element() && bottom[0]->num_axes() > 0;
  rows_ = items ? bottom[0]->shape(0) : bottom[0]->count();
  columns_ = items ? bottom[0]->count(1) : 1;
  top[0]->ReshapeLike(*bottom[0]);
}

Noise::Mode Noise::ForwardMode() const {
  const NoiseParameter& parameter = layer_param().noise_param();
  if (phase() == TRAIN) return Mode::kNoise;
  if (parameter.test_mean()) return Mode::kMean;
  return parameter.additive() ? Mode::kSame : Mode::kZero;
}

void Noise::Run(Mode mode, bool additive, KernelArgument x, KernelArgument y) {
  const NoiseParameter& parameter = layer_param().noise_param();
  const int64_t bytes = types().in.StorageBytes(rows_ * columns_);
  if (mode == Mode::kZero) {
    device()->Fill(y.pointer.AsBytes(), 0, bytes);
  } else if (mode == Mode::kSame) {
    if (x.pointer.exponent != y.pointer.exponent) {  // codes of two scales
      apply_->Launch({rows_, columns_}, {rows_, columns_, 0.0, 0.0, true, x, y, counter_.counters(),
                                         context().draw_seed()});
    } else if (!(x.pointer == y.pointer)) {
      device()->Copy(y.pointer.AsBytes(), x.pointer.AsBytes(), bytes);
    }
  } else {
    const double sigma = mode == Mode::kMean ? 0 : parameter.sigma();
    apply_->Launch({rows_, columns_}, {rows_, columns_, static_cast<double>(parameter.mu()), sigma,
                                       additive, x, y, counter_.counters(), context().draw_seed()});
  }
}

void Noise::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (phase() == TRAIN) counter_.Advance();
  RepeatForward(bottom, top);
}

void Noise::RepeatForward(const BlobVec& bottom, const BlobVec& top) {
  Run(ForwardMode(), layer_param().noise_param().additive(), bottom[0]->Data(),
      top[0]->MutableData());
}

void Noise::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const Mode mode = layer_param().noise_param().additive() ? Mode::kSame : ForwardMode();
  Run(mode, false, top[0]->Diff(), bottom[0]->MutableDiff());
}

std::vector<uint64_t> Noise::RunState() const {
  return phase() == TRAIN ? std::vector<uint64_t>{counter_.Get()} : std::vector<uint64_t>();
}

void Noise::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  if (phase() == TRAIN) counter_.Set(static_cast<uint32_t>(values[0]));
}

LayerFacts Noise::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterNoiseLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "items times, or plus, normally distributed numbers while training";
  registry.Add<NoiseLayer>("Noise", traits);
}

}  // namespace caffe
