#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {
namespace {

// The same elements with the axes in another order: axis i of the top is axis order[i] of the
// bottom. The gradient is permuted back.
// bottom 0: any shape; top 0: the extents in the new order. Not in place.
// permute_param: order; axes that it omits follow in their order.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Permute : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // For each axis of the top, the index of the bottom's axis.
  std::vector<int> Order(const Shape& shape) const;

  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using PermuteLayer = Layer<Dtype, MItype, MOtype, Permute>;

void Permute::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  forward_ = StridedCopy(device(), types());
  backward_ = StridedCopy(device(), types());
}

std::vector<int> Permute::Order(const Shape& shape) const {
  const auto& given = layer_param().permute_param().order();
  std::vector<int> order;
  for (const uint32_t axis : given) {
    CAFFE_CHECK(axis < shape.size(), Where(), ": order holds ", axis,
                ", which is not an axis of a bottom of shape ", ShapeString(shape));
    CAFFE_CHECK(std::count(given.begin(), given.end(), axis) == 1, Where(), ": order holds ", axis,
                " more than once");
    order.push_back(static_cast<int>(axis));
  }
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  }
  return order;
}

void Permute::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& shape = bottom[0]->shape();
  const std::vector<int> order = Order(shape);
  Shape permuted;
  for (const int axis : order) permuted.push_back(shape[axis]);
  top[0]->Reshape(permuted);
  const std::vector<int64_t> x_strides = StridedCopy::Strides(shape);
  const std::vector<int64_t> y_strides = StridedCopy::Strides(permuted);
  std::vector<StridedCopy::Axis> forward, backward(shape.size());
  for (size_t i = 0; i < order.size(); ++i) {
    forward.push_back({permuted[i], x_strides[order[i]], y_strides[i]});
    backward[order[i]] = {permuted[i], y_strides[i], x_strides[order[i]]};
  }
  forward_.Reshape(forward);
  if (types().compute.is_float()) backward_.Reshape(backward);
}

void Permute::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_.Launch(In(bottom, 0), Out(top, 0));
}

void Permute::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  backward_.Launch(top[0]->Diff(), bottom[0]->MutableDiff());
}

LayerFacts Permute::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterPermuteLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.per_item = [](const LayerParameter& layer) {
    return layer.permute_param().order_size() > 0 && layer.permute_param().order(0) == 0;
  };
  traits.summary = "the same elements with the axes in another order";
  registry.Add<PermuteLayer>("Permute", traits);
}

}  // namespace caffe
