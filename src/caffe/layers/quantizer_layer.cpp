#include "caffe/layers/quantizer_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// The arguments of kernels/quant/convert.h behind x and y.
std::vector<KernelArgument> ConvertArguments(int64_t count, KernelArgument x, KernelArgument y,
                                             double scale, double inverse_scale, double low,
                                             double high) {
  return {count, x, y, scale, inverse_scale, low, high};
}

}  // namespace

void Quantizer::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  forward_ = MakeKernel("quant/convert", "convert");
  if (types().in.is_float() && types().out.is_float()) {
    backward_ = MakeKernel("quant/convert", "convert", {types().compute, types().out, types().in});
  }
}

void Quantizer::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

void Quantizer::Forward(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : {bottom[0], top[0]}) {
    CAFFE_CHECK(blob->type().is_float() || blob->range().observed, Where(), ": the range of blob ",
                blob->name(), " was never observed; run the float net on data with quant_mode "
                "CAFFE_QUANT_OBSERVE and save it");
  }
  const double scale = types().in.is_quantized() ? bottom[0]->range().scale : 1;
  double inverse_scale = 1, low = 0, high = 0;
  if (types().out.is_quantized()) {
    const QuantRange& range = top[0]->range();
    inverse_scale = 1 / range.scale;
    low = types().out.info().code_min - range.zero;
    high = types().out.info().code_max - range.zero;
  }
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, ConvertArguments(count, bottom[0]->Data(), top[0]->MutableData(), scale,
                                           inverse_scale, low, high));
}

void Quantizer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  const int64_t count = bottom[0]->count();
  backward_->Launch(count, ConvertArguments(count, top[0]->Diff(), bottom[0]->MutableDiff(), 1, 1,
                                            0, 0));
}

void RegisterQuantizerLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.converts = true;
  traits.summary = "the same values in another type";
  registry.AddUntyped("Quantizer", traits,
                      [](const LayerParameter& parameter, const LayerContext& context) {
                        return std::static_pointer_cast<LayerBase>(
                            std::make_shared<Quantizer>(parameter, context));
                      });
}

}  // namespace caffe
