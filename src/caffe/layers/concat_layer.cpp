#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {
namespace {

// Joins the bottoms along an axis. Their gradients are the parts of the top's. With a single bottom
// the top shares its data and diff; nothing is copied. In phase TEST, steps of a net may write
// their tops into this one's.
// bottom 0…: equal extents except along the axis; top 0: the sum of the extents there.
// concat_param: axis (1, from the end if negative), or its older form concat_dim (1).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own: codes are copied
// where a bottom's range equals it, else rescaled.
class ConcatBottoms : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

 private:
  class ChannelsLastWork;
  static bool IsPart(const BlobBase& bottom, const BlobBase& top, int64_t offset);

  int axis_ = 0;
  std::vector<int64_t> extents_;  // of the bottoms along the axis
  bool channels_ = false;         // the axis is that of the channels of images
  int64_t outer_ = 0;
  int64_t row_ = 0;            // elements of the top for one index of the outer axes
  std::vector<int64_t> rows_;  // the same of each bottom
  std::unique_ptr<Kernel> copy_;
};

template <class Dtype, class MItype, class MOtype>
using ConcatLayer = Layer<Dtype, MItype, MOtype, ConcatBottoms>;

void ConcatBottoms::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConcatParameter& parameter = layer_param().concat_param();
  CAFFE_CHECK(!parameter.has_axis() || !parameter.has_concat_dim(), Where(),
              ": give either axis or concat_dim, not both");
  const bool in_place = std::find(bottom.begin(), bottom.end(), top[0]) != bottom.end();
  CAFFE_CHECK(!in_place, Where(), ": does not work in place");
  copy_ = MakeKernel("blas/copy_rows", "copy_rows");
}

void ConcatBottoms::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const ConcatParameter& parameter = layer_param().concat_param();
  Shape shape = bottom[0]->shape();
  const bool old_form = parameter.has_concat_dim();
  CAFFE_CHECK(!old_form || parameter.concat_dim() < shape.size(), Where(), ": concat_dim ",
              parameter.concat_dim(), " is not an axis of blob ", bottom[0]->name(), " of shape ",
              bottom[0]->shape_string());
  const int axis = CanonicalAxis(
      shape, old_form ? static_cast<int>(parameter.concat_dim()) : parameter.axis(), Where());
  rows_.clear();
  shape[axis] = 0;
  for (const BlobBase* blob : bottom) {
    Shape other = blob->shape();
    if (other.size() == shape.size()) other[axis] = shape[axis];
    CAFFE_CHECK(other == shape, Where(), ": blob ", blob->name(), " of shape ",
                blob->shape_string(), " cannot be joined with ", bottom[0]->name(), " of shape ",
                bottom[0]->shape_string(), " along axis ", axis, "; all other axes must be equal");
    shape[axis] += blob->shape(axis);
    rows_.push_back(blob->count(axis));
  }
  top[0]->Reshape(shape);
  axis_ = axis;
  extents_.clear();
  for (const BlobBase* blob : bottom) extents_.push_back(blob->shape(axis));
  channels_ = axis == 1 && shape.size() > 2;
  outer_ = top[0]->count(0, axis);
  row_ = top[0]->count(axis);
  if (bottom.size() == 1) top[0]->ShareData(*bottom[0]);
}

void ConcatBottoms::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom.size() == 1) return top[0]->ShareData(*bottom[0]);
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(bottom.size()); ++i) {
    const KernelArgument x = In(bottom, i), y = Out(top, 0, offset);
    if (outer_ != 1 || !IsPart(*bottom[i], *top[0], offset)) {
      copy_->Launch({outer_, rows_[i]}, {outer_, rows_[i], rows_[i], row_, x, y, Rescale(i, 0)});
    }
    offset += rows_[i];
  }
}

// Whether the bottom was written into the top, from element `offset` on.
bool ConcatBottoms::IsPart(const BlobBase& bottom, const BlobBase& top, int64_t offset) {
  const int64_t bytes = offset * static_cast<int64_t>(top.type().bytes());
  return bottom.data_memory()->LiesIn(*top.data_memory(), bytes);
}

// Images whose channels are neighbours.
class ConcatBottoms::ChannelsLastWork final : public Work {
 public:
  ChannelsLastWork(const ConcatBottoms* layer, const BlobVec& bottom, const BlobVec& top)
      : layer_(layer), bottom_(bottom), top_(top) {}
  void Run(DevicePtr) override {
    BlobBase& top = *top_[0];
    const int64_t row = top.shape()[1], positions = row > 0 ? top.count() / row : 0;
    int64_t offset = 0;
    for (int i = 0; i < static_cast<int>(bottom_.size()); ++i) {
      const int64_t channels = bottom_[i]->shape()[1];
      const KernelArgument y = layer_->Out(top_, 0, offset);
      if (!IsPart(*bottom_[i], top, offset)) {
        layer_->copy_->Launch(
            {positions, channels},
            {positions, channels, channels, row, layer_->In(bottom_, i), y, layer_->Rescale(i, 0)});
      }
      offset += channels;
    }
  }

 private:
  const ConcatBottoms* layer_;
  BlobVec bottom_, top_;
};

std::unique_ptr<Work> ConcatBottoms::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                              const BlobVec& top) {
  if (request.layouts.y != Layout::kNHWC) return LayerBase::MakeWork(request, bottom, top);
  return std::make_unique<ChannelsLastWork>(this, bottom, top);
}

void ConcatBottoms::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                             const BlobVec& bottom) {
  const bool wanted =
      std::find(propagate_down.begin(), propagate_down.end(), true) != propagate_down.end();
  if (!wanted) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (bottom.size() == 1) return bottom[0]->ShareDiff(*top[0]);
  const int64_t bytes = static_cast<int64_t>(types().out.bytes());
  const DevicePtr source = top[0]->device_diff();
  int64_t offset = 0;
  for (size_t i = 0; i < bottom.size(); ++i) {
    if (propagate_down[i]) {
      copy_->Launch({outer_, rows_[i]}, {outer_, rows_[i], row_, rows_[i], source + offset * bytes,
                                         bottom[i]->MutableDiff(), 1.0});
    }
    offset += rows_[i];
  }
}

LayerFacts ConcatBottoms::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kTied;
  facts.layouts.nhwc = channels_ && rows_.size() > 1;
  if (rows_.size() > 1) facts.join = {axis_, extents_};
  if (rows_.size() > 1) return facts;
  facts.range = LayerFacts::Range::kCarried;
  facts.aliases = {{0, 0}};
  return facts;
}

}  // namespace

void RegisterConcatLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = -1;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.per_item = [](const LayerParameter& layer) {
    return layer.concat_param().axis() > 0 && !layer.concat_param().has_concat_dim();
  };
  traits.summary = "joins blobs along an axis";
  registry.Add<ConcatLayer>("Concat", traits);
}

}  // namespace caffe
