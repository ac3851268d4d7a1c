#include "caffe/layers/moe_gather_layer.hpp"

#include <algorithm>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void MOEGather::LayerSetUp(const BlobVec&, const BlobVec&) {
  forward_ = MakeKernel("moe/gather", "moe_gather");
  if (types().compute.is_float()) backward_ = MakeKernel("moe/gather", "moe_gather_backward");
}

void MOEGather::Reshape(const BlobVec& bottom, const BlobVec& top) {
  items_ = bottom[0]->num_axes() > 0 ? bottom[0]->shape(0) : 0;
  CAFFE_CHECK(bottom[2]->num_axes() == 2 && bottom[2]->shape(0) == items_, Where(), ": blob ",
              bottom[0]->name(), " has shape ", bottom[0]->shape_string(), ", but ",
              "the routing has slots of shape ", bottom[2]->shape_string());
  columns_ = bottom[0]->count(1);
  rows_ = bottom[1]->count();
  select_ = bottom[2]->shape(1);
  Shape shape = bottom[0]->shape();
  shape[0] = rows_;
  top[0]->Reshape(shape);
}

void MOEGather::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t lanes = device()->host_accessible() ? 1 : std::clamp<int64_t>(columns_, 1, 256);
  forward_->Launch(rows_ * lanes, {rows_, columns_, select_, lanes, In(bottom, 0),
                                   bottom[1]->Data(), Out(top, 0)});
}

void MOEGather::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  backward_->Launch({items_, columns_}, {items_, columns_, select_, top[0]->Diff(),
                                         bottom[2]->Data(), bottom[0]->MutableDiff()});
}

LayerFacts MOEGather::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  // A row of elements in any order is one of the top.
  facts.layouts.any = true;
  facts.layouts.bottoms = 1;
  // In float nets the top is observed only if the experts are grouped.
  facts.range =
      types().compute.is_quantized() ? LayerFacts::Range::kCarried : LayerFacts::Range::kSame;
  return facts;
}

void RegisterMOEGatherLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 3;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.float_bottoms = {1, 2};
  traits.no_gradient_bottoms = {1, 2};
  traits.backward_reads = Always({{2}, {}});
  traits.summary = "a part of MOE: the rows that the experts compute";
  registry.Add<MOEGatherLayer>("MOEGather", traits);
}

}  // namespace caffe
