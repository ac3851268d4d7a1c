#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = x in another type: between float kinds a conversion, rounded to nearest even; to a quantized
// type code = round(x / scale) + zero point, half away from zero and clamped; from one
// scale * (code - zero point). The ranges are those of the blobs. dE/dx = dE/dy, converted.
// bottom 0, top 0: any shape, the same. Not in place.
// Types: any pair of types; backward between float kinds.
class QuantizerLayer final : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  std::unique_ptr<Kernel> forward_, backward_;
};

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

void QuantizerLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  const QuantRange in = BottomRange(0), out = TopRange(0);
  const TypeInfo& info = types().out.info();
  forward_->Launch(bottom[0]->count(),
                   {bottom[0]->count(), In(bottom, 0), Out(top, 0), in.scale, 1 / out.scale,
                    info.code_min - out.zero, info.code_max - out.zero});
}

void QuantizerLayer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                              const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  backward_->Launch(bottom[0]->count(), {bottom[0]->count(), top[0]->Diff(),
                                         bottom[0]->MutableDiff(), 1.0, 1.0, 0.0, 0.0});
}

LayerFacts QuantizerLayer::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.any = true;
  facts.range = LayerFacts::Range::kSame;
  return facts;
}

}  // namespace

void RegisterQuantizerLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.converts = true;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "converts between types";
  registry.AddUntyped("Quantizer", traits,
                      [](const LayerParameter& parameter, const LayerContext& context) {
                        return std::make_shared<QuantizerLayer>(parameter, context);
                      });
}

}  // namespace caffe
