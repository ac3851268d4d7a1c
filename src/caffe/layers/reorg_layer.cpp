#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Moves blocks of s x s pixels into channels, in the order of Darknet's reorg (YOLO 9000,
// arXiv:1612.08242): with P = C / s^2, element (k, h, w) of an array [C, H, W] in the top's memory
// is element (k % P, h s + k / P / s, w s + k / P % s) of an array [P, H s, W s] in the bottom's.
// With reverse, the two arrays change places. The gradient is moved back.
// bottom 0: [N, C, H, W]; top 0: [N, C s^2, H / s, W / s], with reverse [N, C / s^2, H s, W s]. C
// is a multiple of s^2 and, without reverse, H and W of s. Not in place.
// reorg_param: stride (2), reverse (false).
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Reorg : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // The arguments before the arrays.
  KernelArguments Geometry(const BlobBase& bottom, bool spread) const;

  int64_t stride_ = 2;
  bool reverse_ = false;
  std::unique_ptr<Kernel> move_;
};

template <class Dtype, class MItype, class MOtype>
using ReorgLayer = Layer<Dtype, MItype, MOtype, Reorg>;

void Reorg::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  stride_ = layer_param().reorg_param().stride();
  reverse_ = layer_param().reorg_param().reverse();
  CAFFE_CHECK(stride_ > 0, Where(), ": stride must be positive");
  move_ = MakeKernel("box/reorg", "reorg");
}

void Reorg::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs a bottom of 4 axes, not of shape ",
              bottom[0]->shape_string());
  const int64_t c = bottom[0]->shape(1), h = bottom[0]->shape(2), w = bottom[0]->shape(3);
  const int64_t block = stride_ * stride_;
  CAFFE_CHECK(c % block == 0, Where(), ": stride ", stride_, " needs a multiple of ", block,
              " channels, but the bottom has shape ", bottom[0]->shape_string());
  CAFFE_CHECK(reverse_ || (h % stride_ == 0 && w % stride_ == 0), Where(), ": stride ", stride_,
              " needs a height and a width that are multiples of it, but the bottom has shape ",
              bottom[0]->shape_string());
  const int64_t n = bottom[0]->shape(0);
  top[0]->Reshape(reverse_ ? Shape{n, c / block, h * stride_, w * stride_}
                           : Shape{n, c * block, h / stride_, w / stride_});
}

KernelArguments Reorg::Geometry(const BlobBase& bottom, bool spread) const {
  return {bottom.count(), bottom.shape(1), bottom.shape(2), bottom.shape(3), stride_, spread};
}

void Reorg::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  KernelArguments arguments = Geometry(*bottom[0], reverse_);
  arguments.append({In(bottom, 0), Out(top, 0)});
  move_->Launch(bottom[0]->count(), arguments);
}

void Reorg::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (!propagate_down[0] || bottom[0]->count() == 0) return;
  KernelArguments arguments = Geometry(*bottom[0], !reverse_);
  arguments.append({top[0]->Diff(), bottom[0]->MutableDiff()});
  move_->Launch(bottom[0]->count(), arguments);
}

LayerFacts Reorg::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterReorgLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.summary = "blocks of pixels as channels, or back (YOLO)";
  registry.Add<ReorgLayer>("Reorg", traits);
}

}  // namespace caffe
