#include "caffe/layers/quantizer_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void QuantizerLayer::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": does not work in place");
  const DataType in = types().in, out = types().out;
  const DataType compute = in == kDouble || out == kDouble ? kDouble : kFloat;
  forward_ = MakeKernel("quant/convert", "convert", {compute, in, out});
  if (in.is_float() && out.is_float()) {
    backward_ = MakeKernel("quant/convert", "convert", {compute, out, in});
  }
}

void QuantizerLayer::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

double QuantizerLayer::ScaleOf(const BlobBase& blob) const {
  if (blob.type().is_float()) return 1;
  CAFFE_CHECK(blob.range().observed, Where(), ": no range of blob ", blob.name(),
              " was ever observed; calibrate the net first");
  return blob.range().scale;
}

void QuantizerLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  const TypeInfo& info = types().out.info();
  const int64_t zero = types().out.is_float() ? 0 : top[0]->range().zero;
  forward_->Launch(
      bottom[0]->count(),
      {bottom[0]->count(), bottom[0]->Data(), top[0]->MutableData(), ScaleOf(*bottom[0]),
       1 / ScaleOf(*top[0]), info.code_min - zero, info.code_max - zero});
}

void QuantizerLayer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                              const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  backward_->Launch(bottom[0]->count(), {bottom[0]->count(), top[0]->Diff(),
                                         bottom[0]->MutableDiff(), 1.0, 1.0, 0.0, 0.0});
}

void RegisterQuantizerLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.converts = true;
  traits.types = BuiltInTypes();
  traits.summary = "converts between types";
  registry.AddUntyped("Quantizer", traits,
                      [](const LayerParameter& parameter, const LayerContext& context) {
                        return std::make_shared<QuantizerLayer>(parameter, context);
                      });
}

}  // namespace caffe
