#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {
namespace {

// A window of bottom 0 that has the extents of bottom 1 from an axis on:
//   y[i, j, …] = x[i + offset_i, j + offset_j, …]
// The gradient is that of y inside the window, and 0 outside. Only the shape of bottom 1 is used:
// its data are not read, and it has no gradient.
// bottom 0: any shape; bottom 1: as many axes; top 0: the extents of bottom 0 before the axis and
// of bottom 1 from it on. Not in place.
// crop_param: axis (2, from the end if negative), offset (0; one for all axes from there on, or one
//   for each).
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Crop : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t start_ = 0;   // of the window, in elements of bottom 0
  bool whole_ = false;  // the window is all of bottom 0
  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using CropLayer = Layer<Dtype, MItype, MOtype, Crop>;

void Crop::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(std::find(bottom.begin(), bottom.end(), top[0]) == bottom.end(), Where(),
              ": cannot work in place; give blob ", top[0]->name(), " another name as top");
  forward_ = StridedCopy(device(), types());
  backward_ = StridedCopy(device(), types());
}

void Crop::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const CropParameter& parameter = layer_param().crop_param();
  const Shape& shape = bottom[0]->shape();
  const Shape& like = bottom[1]->shape();
  CAFFE_CHECK(shape.size() == like.size(), Where(),
              ": the bottoms must have equally many axes; their shapes are ", ShapeString(shape),
              " and ", ShapeString(like));
  const int axis = CanonicalAxis(shape, parameter.axis(), Where());
  const int cropped = static_cast<int>(shape.size()) - axis, offsets = parameter.offset_size();
  CAFFE_CHECK(offsets <= 1 || offsets == cropped, Where(), ": ", offsets,
              " offsets are given for the ", cropped, " axes from axis ", axis,
              " on; give one for all, or one each");
  const std::vector<int64_t> x_strides = StridedCopy::Strides(shape);
  Shape window = shape;
  start_ = 0;
  for (int i = axis; i < static_cast<int>(shape.size()); ++i) {
    const int64_t offset = offsets == 0 ? 0 : parameter.offset(offsets == 1 ? 0 : i - axis);
    CAFFE_CHECK(offset + like[i] <= shape[i], Where(), ": along axis ", i, " an extent of ",
                like[i], " (of blob ", bottom[1]->name(), ") from offset ", offset,
                " exceeds the extent ", shape[i], " of blob ", bottom[0]->name());
    window[i] = like[i];
    start_ += offset * x_strides[i];
  }
  whole_ = window == shape;
  top[0]->Reshape(window);
  const std::vector<int64_t> y_strides = StridedCopy::Strides(window);
  std::vector<StridedCopy::Axis> forward, backward;
  for (size_t i = 0; i < shape.size(); ++i) {
    forward.push_back({window[i], x_strides[i], y_strides[i]});
    backward.push_back({window[i], y_strides[i], x_strides[i]});
  }
  forward_.Reshape(forward);
  if (types().compute.is_float()) backward_.Reshape(backward);
}

void Crop::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (top[0]->count() > 0) forward_.Launch(In(bottom, 0, start_), Out(top, 0));
}

void Crop::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (!propagate_down[0] || bottom[0]->count() == 0) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  const DevicePtr x_diff = bottom[0]->mutable_device_diff();
  if (!whole_) device()->Fill(x_diff, 0, bottom[0]->bytes());
  if (top[0]->count() == 0) return;
  const int64_t bytes = static_cast<int64_t>(types().in.bytes());
  backward_.Launch(top[0]->Diff(), KernelArgument(x_diff + start_ * bytes));
}

LayerFacts Crop::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterCropLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.no_gradient_bottoms = {1};
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "crops the first bottom to the extents of the second";
  registry.Add<CropLayer>("Crop", traits);
}

}  // namespace caffe
