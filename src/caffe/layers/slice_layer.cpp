#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Cuts the bottom along an axis: top i has the indices [slice_point i-1, slice_point i). The
// bottom's gradient joins those of the tops. A single top shares data and diff with the bottom;
// nothing is copied then.
// bottom 0: any shape; top 0…: the same except along the axis.
// slice_param: axis (1, from the end if negative), or its older form slice_dim (1); slice_point,
//   strictly increasing, one fewer than tops; without any the axis is cut into equal parts.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Slice : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // The extent of each top along the axis.
  std::vector<int64_t> Extents(int64_t extent, int64_t tops) const;

  int64_t outer_ = 0;
  int64_t row_ = 0;            // elements of the bottom for one index of the outer axes
  std::vector<int64_t> rows_;  // the same of each top
  std::unique_ptr<Kernel> copy_;
};

template <class Dtype, class MItype, class MOtype>
using SliceLayer = Layer<Dtype, MItype, MOtype, Slice>;

void Slice::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const SliceParameter& parameter = layer_param().slice_param();
  CAFFE_CHECK(!parameter.has_axis() || !parameter.has_slice_dim(), Where(),
              ": give either axis or slice_dim, not both");
  CAFFE_CHECK(std::find(top.begin(), top.end(), bottom[0]) == top.end(), Where(),
              ": does not work in place");
  copy_ = MakeKernel("blas/copy_rows", "copy_rows");
}

std::vector<int64_t> Slice::Extents(int64_t extent, int64_t tops) const {
  const auto& points = layer_param().slice_param().slice_point();
  if (points.empty()) {
    CAFFE_CHECK(extent % tops == 0, Where(), ": an extent of ", extent, " cannot be cut into ",
                tops, " equal parts; give slice_point");
    return std::vector<int64_t>(tops, extent / tops);
  }
  CAFFE_CHECK(points.size() == tops - 1, Where(), ": ", tops, " tops need ", tops - 1,
              " slice_point, but there are ", points.size());
  std::vector<int64_t> extents;
  int64_t begin = 0;
  for (const int64_t point : points) {
    CAFFE_CHECK(point > begin, Where(), ": slice_point ", point, " is not greater than ", begin,
                "; they must be positive and increase");
    extents.push_back(point - begin);
    begin = point;
  }
  CAFFE_CHECK(begin < extent, Where(), ": slice_point ", begin, " is not inside an extent of ",
              extent);
  extents.push_back(extent - begin);
  return extents;
}

void Slice::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const SliceParameter& parameter = layer_param().slice_param();
  Shape shape = bottom[0]->shape();
  const bool old_form = parameter.has_slice_dim();
  CAFFE_CHECK(!old_form || parameter.slice_dim() < shape.size(), Where(), ": slice_dim ",
              parameter.slice_dim(), " is not an axis of blob ", bottom[0]->name(), " of shape ",
              bottom[0]->shape_string());
  const int axis = CanonicalAxis(
      shape, old_form ? static_cast<int>(parameter.slice_dim()) : parameter.axis(), Where());
  outer_ = bottom[0]->count(0, axis);
  row_ = bottom[0]->count(axis);
  const std::vector<int64_t> extents = Extents(shape[axis], static_cast<int64_t>(top.size()));
  rows_.clear();
  for (size_t i = 0; i < top.size(); ++i) {
    shape[axis] = extents[i];
    top[i]->Reshape(shape);
    rows_.push_back(top[i]->count(axis));
  }
  if (top.size() == 1) top[0]->ShareData(*bottom[0]);
}

void Slice::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (top.size() == 1) return top[0]->ShareData(*bottom[0]);
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(top.size()); ++i) {
    copy_->Launch({outer_, rows_[i]}, {outer_, rows_[i], row_, rows_[i], In(bottom, 0, offset),
                                       Out(top, i), Rescale(0, i)});
    offset += rows_[i];
  }
}

void Slice::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (top.size() == 1) return bottom[0]->ShareDiff(*top[0]);
  const int64_t bytes = static_cast<int64_t>(types().out.bytes());
  const DevicePtr target = bottom[0]->mutable_device_diff();
  int64_t offset = 0;
  for (size_t i = 0; i < top.size(); ++i) {
    copy_->Launch({outer_, rows_[i]}, {outer_, rows_[i], rows_[i], row_, top[i]->Diff(),
                                       KernelArgument(target + offset * bytes), 1.0});
    offset += rows_[i];
  }
}

LayerFacts Slice::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  if (rows_.size() == 1) facts.aliases = {{0, 0}};
  return facts;
}

}  // namespace

void RegisterSliceLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.per_item = [](const LayerParameter& layer) {
    return layer.slice_param().axis() > 0 && !layer.slice_param().has_slice_dim();
  };
  traits.summary = "a blob cut along an axis";
  registry.Add<SliceLayer>("Slice", traits);
}

}  // namespace caffe
