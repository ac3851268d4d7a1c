#include "caffe/layers/slice_layer.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

void RegisterSliceLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.summary = "a blob cut along an axis";
  registry.Add<SliceLayer>("Slice", traits);
}

}  // namespace caffe
