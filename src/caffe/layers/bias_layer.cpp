#include "caffe.pb.h"
#include "caffe/layer/broadcast.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = x + b, b repeated along the axes that it does not have.
//   dE/dx = dE/dy,  dE/db (+)= the sum of dE/dy over those axes
// bottom 0, top 0: any shape, the same; in place allowed. b is bottom 1, or a learned blob; its
// axes are those of bottom 0 from `axis` on. The gradient of a learned b is added, of a bottom
// written.
// blobs: with one bottom: b, of shape bottom 0 [axis, axis + num_axes).
// bias_param: axis (1), and for a learned b: num_axes (1; -1 for all, 0 for one value), filler
//   (constant 0).
// Types: float kinds; with a learned b, quant8 and quant16 forward (CodeAffine), where y has a
// range of its own. A learned b is a master (float, double for double).
class Bias : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int axis_ = 0;  // of bottom 0, where b begins
  Broadcast shape_;
  ChannelSums sums_;
  CodeAffine codes_;  // of quantized types
  std::unique_ptr<Kernel> rows_, columns_;
};

template <class Dtype, class MItype, class MOtype>
using BiasLayer = Layer<Dtype, MItype, MOtype, Bias>;

CodeAffine::Function AffineOf(const BlobBase* bias) {
  return [bias](std::vector<double>* scale, std::vector<double>* shift) {
    *shift = bias->DataAsDouble();
    scale->assign(shift->size(), 1);
  };
}

void Bias::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const BiasParameter& parameter = layer_param().bias_param();
  DataType type = types().in;
  if (bottom.size() == 1) {
    AddParameter(
        0, Broadcast::ParameterShape(Where(), *bottom[0], parameter.axis(), parameter.num_axes()),
        parameter.filler());
    type = master_type();
  }
  if (types().compute.is_quantized()) {
    CAFFE_CHECK(bottom.size() == 1, Where(), ": adds two blobs, which is not supported in ",
                types().name(), "; use an Eltwise layer, or give the layer a float type");
    codes_ = CodeAffine({blobs_[0].get()}, AffineOf(blobs_[0].get()), blobs_[0]->count(),
                        types().compute, device(), Where());
    UseCodes(&codes_);
    return;
  }
  const TypeTriple triple{type, types().in, type};
  rows_ = MakeKernel("norm/scale", "add_rows", triple);
  columns_ = MakeKernel("norm/scale", "add_columns", triple);
  sums_ = ChannelSums(&workspace(), types(), type);
}

void Bias::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const BlobBase& b = bottom.size() > 1 ? *bottom[1] : *blobs_[0];
  const int axis = layer_param().bias_param().axis();
  shape_ = Broadcast::Make(Where(), *bottom[0], axis, b.shape());
  axis_ = b.num_axes() > 0 ? bottom[0]->CanonicalAxisIndex(axis) : 0;
  if (types().compute.is_float()) {
    sums_.Reshape(shape_.outer, shape_.channels, shape_.inner, phase() == TRAIN);
  }
  top[0]->ReshapeLike(*bottom[0]);
}

void Bias::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) return codes_.Launch(shape_, In(bottom, 0), Out(top, 0));
  const BlobBase& b = bottom.size() > 1 ? *bottom[1] : *blobs_[0];
  const KernelArgument x = bottom[0]->Data(), y = top[0]->MutableData();
  if (shape_.columns()) {
    columns_->Launch({shape_.outer, shape_.channels},
                     {shape_.outer, shape_.channels, x, b.Data(), y});
  } else {
    const int64_t rows = shape_.outer * shape_.channels;
    rows_->Launch({rows, shape_.inner}, {rows, shape_.inner, shape_.channels, x, b.Data(), y});
  }
}

void Bias::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  const bool learned = bottom.size() == 1;
  if (learned ? param_propagate_down(0) : propagate_down[1]) {
    sums_.Sum(top[0]->Diff());
    sums_.Finish(learned, learned ? blobs_[0]->MutableDiff() : bottom[1]->MutableDiff());
  }
  if (!propagate_down[0] || bottom[0]->count() == 0) return;
  // The diffs may share memory even if the data do not.
  const DevicePtr from = top[0]->device_diff(), to = bottom[0]->mutable_device_diff();
  if (!(from == to)) device()->Copy(to, from, bottom[0]->bytes());
}

LayerFacts Bias::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  // A learned bias with several axes is not one of channels.
  if (blobs_.empty() || blobs_[0]->num_axes() > 1) return facts;
  Affine affine{axis_, shape_.channels, {blobs_[0].get()}, nullptr};
  affine.evaluate = AffineOf(blobs_[0].get());
  facts.affine = std::move(affine);
  return facts;
}

}  // namespace

void RegisterBiasLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) { return layer.bottom_size() == 1; };
  traits.in_place = true;
  traits.backward_reads = Always({});
  traits.summary = "y = x + b, b learned or the second bottom";
  registry.Add<BiasLayer>("Bias", traits);
}

}  // namespace caffe
