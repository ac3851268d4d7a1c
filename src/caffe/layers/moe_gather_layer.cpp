#include <algorithm>

#include "caffe/device/device.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer, see MOERoute: the rows that the experts compute.
//   y[r] = x[rows[r] / K], and 0 where rows[r] is -1;  dE/dx[n] = sum over k of dE/dy[slots[n, k]]
// bottom 0: x [N, …]; bottom 1: rows; bottom 2: slots [N, K], both always float.
// top 0: [rows, …]. Not in place.
// Types: float kinds; quant8 and quant16 forward, where the top has the bottom's range.
class MOEGather : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Copies vectors of bytes, if rows consist of these.
  bool CopyVectors(const BlobVec& bottom, const BlobVec& top);

  int64_t items_ = 0, columns_ = 0, rows_ = 0, select_ = 0;
  std::unique_ptr<Kernel> forward_, backward_;
  std::unique_ptr<Kernel> vectors_;  // null on the CPU, and if the types differ
};

template <class Dtype, class MItype, class MOtype>
using MOEGatherLayer = Layer<Dtype, MItype, MOtype, MOEGather>;

void MOEGather::LayerSetUp(const BlobVec&, const BlobVec&) {
  forward_ = MakeKernel("moe/gather", "moe_gather");
  if (types().compute.is_float()) backward_ = MakeKernel("moe/gather", "moe_gather_backward");
  const bool copies = !device()->host_accessible() && types().in == types().out;
  vectors_ = copies ? MakeKernel("moe/gather_vectors", "moe_gather_vectors") : nullptr;
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

bool MOEGather::CopyVectors(const BlobVec& bottom, const BlobVec& top) {
  constexpr int64_t kVectorBytes = 16;
  const int64_t bytes = static_cast<int64_t>(types().in.bytes());
  const DevicePtr x = bottom[0]->device_data(), y = top[0]->mutable_device_data();
  const bool whole =
      columns_ * bytes % kVectorBytes == 0 && columns_ > 0 && !types().in.is_packed();
  if (!vectors_ || !whole || x.offset % kVectorBytes != 0 || y.offset % kVectorBytes != 0) {
    return false;
  }
  const int64_t vectors = columns_ * bytes / kVectorBytes;
  // Few rows are shared by more work items, so that they fill the device.
  constexpr int64_t kLanes = 256, kItems = 131072;
  const int64_t lanes = std::min(vectors, std::max(kLanes, kItems / std::max<int64_t>(rows_, 1)));
  const auto zero = static_cast<uint32_t>(Out(top, 0).zero);
  const uint32_t padding = bytes == 1 ? zero * 0x01010101u : zero * 0x00010001u;
  const uint32_t lost = types().in.is_float() ? 0xffffffffu : padding;  // NaN in every float kind
  vectors_->Launch(rows_ * lanes, {rows_, vectors, select_, lanes, items_ * select_, padding, lost,
                                   x, bottom[1]->Data(), y});
  return true;
}

void MOEGather::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (CopyVectors(bottom, top)) return;
  const int64_t lanes = device()->has_groups() ? std::clamp<int64_t>(columns_, 1, 256) : 1;
  forward_->Launch(rows_ * lanes, {rows_, columns_, select_, lanes, items_ * select_, In(bottom, 0),
                                   bottom[1]->Data(), Out(top, 0)});
}

void MOEGather::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  backward_->Launch({items_, columns_}, {items_, columns_, select_, rows_, top[0]->Diff(),
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

}  // namespace

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
