#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {
namespace {

// The channels (axis 1) in another order: with n channels in each of `group` groups, channel g n +
// i of the bottom is channel i group + g of the top (Zhang et al., ShuffleNet, arXiv 1707.01083,
// section 3.1). The gradient is shuffled back.
// bottom 0: at least two axes; top 0: the same shape. Not in place.
// shuffle_channel_param: group (1), a divisor of the channels.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class ShuffleChannel : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using ShuffleChannelLayer = Layer<Dtype, MItype, MOtype, ShuffleChannel>;

void ShuffleChannel::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  forward_ = StridedCopy(device(), types());
  backward_ = StridedCopy(device(), types());
}

void ShuffleChannel::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  const int64_t num = bottom[0]->shape(0), channels = bottom[0]->shape(1);
  const int64_t group = layer_param().shuffle_channel_param().group();
  CAFFE_CHECK(group > 0 && channels % group == 0, Where(), ": ", channels,
              " channels cannot be divided into ", group, " groups");
  top[0]->ReshapeLike(*bottom[0]);
  const int64_t plane = bottom[0]->count(2), size = channels / group;
  const int64_t item = channels * plane;
  // x is [num, group, size, plane], y is [num, size, group, plane].
  forward_.Reshape({{num, item, item},
                    {size, plane, group * plane},
                    {group, size * plane, plane},
                    {plane, 1, 1}});
  if (types().compute.is_quantized()) return;
  backward_.Reshape({{num, item, item},
                     {group, plane, size * plane},
                     {size, group * plane, plane},
                     {plane, 1, 1}});
}

void ShuffleChannel::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_.Launch(In(bottom, 0), Out(top, 0));
}

void ShuffleChannel::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                              const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  backward_.Launch(top[0]->Diff(), bottom[0]->MutableDiff());
}

LayerFacts ShuffleChannel::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterShuffleChannelLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "interleaves the channels of groups";
  registry.Add<ShuffleChannelLayer>("ShuffleChannel", traits);
}

}  // namespace caffe
