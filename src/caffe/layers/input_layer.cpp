#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Blobs that the caller fills: the inputs of a net.
// top 0…: input_param.shape, one for all tops or one per top; without a shape the caller reshapes.
// Types: all.
class Input : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  // The caller's shapes and values are kept, also on another device.
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}

 private:
  bool set_up_ = false;
};

template <class Dtype, class MItype, class MOtype>
using InputLayer = Layer<Dtype, MItype, MOtype, Input>;

void Input::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  if (set_up_) return;
  set_up_ = true;
  const InputParameter& parameter = layer_param().input_param();
  const int shapes = parameter.shape_size(), tops = static_cast<int>(top.size());
  CAFFE_CHECK(shapes == 0 || shapes == 1 || shapes == tops, Where(), ": ", shapes,
              " shapes are given for ", tops, " tops; give one for all, or one each");
  for (int i = 0; shapes > 0 && i < tops; ++i) {
    const BlobShape& dims = parameter.shape(shapes == 1 ? 0 : i);
    top[i]->Reshape(Shape(dims.dim().begin(), dims.dim().end()));
  }
}

}  // namespace

void RegisterInputLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.max_top = -1;
  traits.data = traits.input = true;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({});
  traits.summary = "inputs of a net, which the caller fills";
  registry.Add<InputLayer>("Input", traits);
}

}  // namespace caffe
