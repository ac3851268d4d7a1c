#include <algorithm>
#include <bit>

#include "caffe.pb.h"
#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// The indices and values of the top_k largest elements, largest first; of equal ones the later
// comes first. NaN is smaller than everything.
// bottom 0: with axis [outer…, C, inner…], without [N, …].
// top 0, always float, so that indices are exact: with axis [outer…, top_k, inner…], the indices
//   along the axis, or with out_max_val the values; without axis [N, 1, top_k], the indices in the
//   item, or with out_max_val [N, 2, top_k], indices then values; axes of extent 1 follow up to the
//   bottom's number of axes. No gradient.
// argmax_param: out_max_val (false), top_k (1), axis (unset).
// Types: float kinds; quant8 and quant16 forward, which compare codes. The top is float.
class ArgMax : public LayerBase, public HasClassScores {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  std::optional<ClassScores> class_scores() const override {
    return ClassScores{channels_, inner_};
  }

 private:
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::unique_ptr<Kernel> forward_;
};

template <class Dtype, class MItype, class MOtype>
using ArgMaxLayer = Layer<Dtype, MItype, MOtype, ArgMax>;

void ArgMax::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(layer_param().argmax_param().top_k() > 0, Where(), ": top_k must be positive");
  forward_ = MakeKernel("blas/argmax", "argmax");
}

void ArgMax::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const ArgMaxParameter& parameter = layer_param().argmax_param();
  const int64_t top_k = parameter.top_k();
  Shape shape;
  if (parameter.has_axis()) {
    shape = bottom[0]->shape();
    const int axis = CanonicalAxis(shape, parameter.axis(), Where());
    outer_ = bottom[0]->count(0, axis);
    channels_ = shape[axis];
    inner_ = bottom[0]->count(axis + 1);
    shape[axis] = top_k;
  } else {
    CAFFE_CHECK(bottom[0]->num_axes() > 0, Where(), ": needs a bottom with axes");
    shape.assign(std::max(bottom[0]->num_axes(), 3), 1);
    outer_ = shape[0] = bottom[0]->shape(0);
    channels_ = bottom[0]->count(1);
    inner_ = 1;
    shape[1] = parameter.out_max_val() ? 2 : 1;
    shape[2] = top_k;
  }
  CAFFE_CHECK(top_k <= channels_, Where(), ": top_k ", top_k, " exceeds the ", channels_,
              " elements to choose from in a bottom of shape ", bottom[0]->shape_string());
  CAFFE_CHECK(channels_ <= int64_t{1} << 24, Where(), ": indices beyond 2^24 are not exact in ",
              "float; there are ", channels_);
  top[0]->Reshape(shape);
}

void ArgMax::Forward(const BlobVec& bottom, const BlobVec& top) {
  const ArgMaxParameter& parameter = layer_param().argmax_param();
  const bool values = parameter.out_max_val(), places = !values || !parameter.has_axis();
  forward_->Launch(
      outer_ * inner_,
      {outer_ * inner_, channels_, inner_, parameter.top_k(), places + values, places ? 0 : -1,
       values ? places : -1, std::bit_cast<uint32_t>(static_cast<float>(BottomRange(0).scale)),
       In(bottom, 0), top[0]->MutableData()});
}

void ArgMax::Backward(const BlobVec&, const std::vector<bool>& propagate_down, const BlobVec&) {
  CAFFE_CHECK(!propagate_down[0], Where(), ": has no gradient");
}

}  // namespace

void RegisterArgMaxLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.float_tops = {0};
  traits.no_gradient_bottoms = {0};
  traits.backward = false;
  traits.summary = "indices of the top_k largest elements";
  registry.Add<ArgMaxLayer>("ArgMax", traits);
}

}  // namespace caffe
