#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = a learned blob. The gradient of y is added to that of the blob.
// No bottom; top 0: the shape of the blob. In float (and double) the top and the blob share their
// data, and layers that would work in place on the top get separate memory. In half and bfloat16
// the top is a copy of the float blob.
// blobs: one of shape parameter_param.shape, 0 until weights are loaded or trained.
// parameter_param: shape (needed).
// Types: float kinds.
class Parameter : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  ChannelSums sums_;  // adds a gradient of the top's type to the blob's
  std::unique_ptr<Kernel> convert_;
};

template <class Dtype, class MItype, class MOtype>
using ParameterLayer = Layer<Dtype, MItype, MOtype, Parameter>;

void Parameter::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ParameterParameter& parameter = layer_param().parameter_param();
  CAFFE_CHECK(parameter.has_shape(), Where(), ": parameter_param needs the shape of the blob");
  FillerParameter zero;
  zero.set_type("constant");
  AddParameter(0, Shape(parameter.shape().dim().begin(), parameter.shape().dim().end()), zero);
  const DataType master = master_type();
  convert_.reset();
  if (types().out != master) {
    convert_ = MakeKernel("quant/convert", "convert", {master, master, types().out});
  }
  sums_ = ChannelSums(&workspace(), types(), master);
}

void Parameter::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*blobs_[0]);
  if (!convert_) top[0]->ShareData(*blobs_[0]);
  sums_.Reshape(1, blobs_[0]->count(), 1, phase() == TRAIN);
}

void Parameter::PrepareParameters() {
  blobs_[0]->device_data();  // uploads a stale device copy now, not in the forward
}

void Parameter::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!convert_) {
    // Repeated in each forward, since a solver or another net may have changed the blob's memory.
    top[0]->ShareData(*blobs_[0]);
    return;
  }
  const int64_t count = blobs_[0]->count();
  convert_->Launch(count, {count, blobs_[0]->Data(), top[0]->MutableData(), 1.0, 1.0, 0.0, 0.0});
}

void Parameter::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!param_propagate_down(0) || blobs_[0]->count() == 0) return;
  sums_.Sum(top[0]->Diff());
  sums_.Finish(true, blobs_[0]->MutableDiff());
}

LayerFacts Parameter::Facts() const {
  LayerFacts facts;
  if (!convert_) facts.aliases = {{0, -1, 0}};
  return facts;
}

}  // namespace

void RegisterParameterLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.top_memory = TopMemory::kParameter;
  traits.backward_reads = Always({});
  traits.summary = "a learned blob";
  registry.Add<ParameterLayer>("Parameter", traits);
}

}  // namespace caffe
