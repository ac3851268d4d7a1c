#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = g x, with a learned gain g for each channel.
//   dE/dx = g dE/dy,  dE/dg += the sum over the channel of x dE/dy
// bottom 0, top 0: [N, C, …], the same shape. Not in place.
// blobs: gains [C]. channel_gain_param: filler (constant 1).
// Types: float kinds. Gains are masters (float, double for double).
class ChannelGain : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  void Multiply(KernelArgument x, KernelArgument y);

  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  ChannelSums sums_;
  std::unique_ptr<Kernel> multiply_;
};

template <class Dtype, class MItype, class MOtype>
using ChannelGainLayer = Layer<Dtype, MItype, MOtype, ChannelGain>;

void ChannelGain::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(),
              ": needs a bottom of at least 2 axes; it has shape ", bottom[0]->shape_string());
  FillerParameter filler;
  filler.set_type("constant");
  filler.set_value(1);
  if (layer_param().channel_gain_param().has_filler()) {
    filler = layer_param().channel_gain_param().filler();
  }
  AddParameter(0, {bottom[0]->shape(1)}, filler);
  const DataType master = master_type();
  multiply_ =
      MakeKernel("norm/channel_gain", "channel_gain", TypeTriple{master, types().in, master});
  sums_ = ChannelSums(&workspace(), types(), master);
}

void ChannelGain::Reshape(const BlobVec& bottom, const BlobVec& top) {
  channels_ = blobs_[0]->count();
  CAFFE_CHECK(bottom[0]->num_axes() >= 2 && bottom[0]->shape(1) == channels_, Where(), ": has ",
              channels_, " gains, one for each channel; the bottom has shape ",
              bottom[0]->shape_string());
  outer_ = bottom[0]->shape(0);
  inner_ = bottom[0]->count(2);
  sums_.Reshape(outer_, channels_, inner_, phase() == TRAIN);
  top[0]->ReshapeLike(*bottom[0]);
}

void ChannelGain::Multiply(KernelArgument x, KernelArgument y) {
  const int64_t rows = outer_ * channels_;
  multiply_->Launch({rows, inner_}, {rows, inner_, channels_, x, blobs_[0]->Data(), y});
}

void ChannelGain::Forward(const BlobVec& bottom, const BlobVec& top) {
  Multiply(bottom[0]->Data(), top[0]->MutableData());
}

void ChannelGain::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  if (bottom[0]->count() == 0) return;
  if (param_propagate_down(0)) {
    sums_.Dot(bottom[0]->Data(), top[0]->Diff());
    sums_.Finish(true, blobs_[0]->MutableDiff());
  }
  if (propagate_down[0]) Multiply(top[0]->Diff(), bottom[0]->MutableDiff());
}

LayerFacts ChannelGain::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterChannelGainLayer(LayerRegistry& registry) {
  LayerTraits traits;
  BackwardReads reads{{0}, {}};
  reads.for_parameter = true;
  traits.backward_reads = Always(reads);
  traits.summary = "y = g x, with a learned gain g for each channel";
  registry.Add<ChannelGainLayer>("ChannelGain", traits);
}

}  // namespace caffe
