#include "caffe.pb.h"
#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// TRAIN: y = x / (1 - ratio) with probability 1 - ratio, else 0; dE/dx likewise from dE/dy.
// TEST: y = x. With scale_train: false, TRAIN leaves x as it is and TEST multiplies by 1 - ratio.
// No mask is stored: it is a function of (seed, count of forwards, element), the same on every
// device, and the backward pass computes it again.
// bottom 0, top 0: any shape, the same. In place allowed.
// dropout_param: dropout_ratio (0.5), scale_train (true).
// Types: float kinds; quant8 and quant16 in TEST, where the top has the bottom's codes, and its
// range, multiplied by 1 - ratio with scale_train: false.
class Dropout : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  // TRAIN: the count of forwards.
  std::vector<uint64_t> RunState() const override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  // y is x masked in TRAIN, or x itself in TEST.
  void Run(int64_t count, KernelArgument x, KernelArgument y);

  uint32_t threshold_ = 0;  // random words below it drop their element
  double scale_ = 1;
  ForwardCounter counter_;
  std::unique_ptr<Kernel> mask_, multiply_;
};

template <class Dtype, class MItype, class MOtype>
using DropoutLayer = Layer<Dtype, MItype, MOtype, Dropout>;

void Dropout::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const DropoutParameter& parameter = layer_param().dropout_param();
  const double ratio = parameter.dropout_ratio();
  CAFFE_CHECK(ratio >= 0 && ratio < 1, Where(), ": dropout_ratio ", ratio, " is not in [0, 1)");
  threshold_ = static_cast<uint32_t>(ratio * 4294967296.0);
  const bool train = phase() == TRAIN;
  if (train == parameter.scale_train()) scale_ = train ? 1 / (1 - ratio) : 1 - ratio;
  if (types().compute.is_quantized()) {
    CAFFE_CHECK(!train, Where(), ": ", types().name(),
                " blobs pass through in the TEST phase only");
    return;
  }
  if (train) {
    counter_.Place(device());
    mask_ = MakeKernel("neuron/dropout", "dropout_mask");
  } else if (scale_ != 1) {
    multiply_ = MakeKernel("neuron/dropout", "dropout_multiply");
  }
}

void Dropout::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

void Dropout::Run(int64_t count, KernelArgument x, KernelArgument y) {
  if (mask_) {
    const int64_t quads = (count + 3) / 4;
    mask_->Launch(quads, {count, quads, x, y, counter_.counters(), context().draw_seed(),
                          threshold_, scale_});
  } else if (multiply_) {
    multiply_->Launch(count, {count, x, y, scale_});
  } else if (!(x.pointer == y.pointer)) {
    device()->Copy(y.pointer.AsBytes(), x.pointer.AsBytes(), types().in.StorageBytes(count));
  }
}

void Dropout::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (mask_) counter_.Advance();
  RepeatForward(bottom, top);
}

void Dropout::RepeatForward(const BlobVec& bottom, const BlobVec& top) {
  Run(bottom[0]->count(), bottom[0]->Data(), top[0]->MutableData());
}

void Dropout::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  Run(bottom[0]->count(), top[0]->Diff(), bottom[0]->MutableDiff());
}

std::vector<uint64_t> Dropout::RunState() const {
  return mask_ ? std::vector<uint64_t>{counter_.Get()} : std::vector<uint64_t>();
}

void Dropout::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  if (mask_) counter_.Set(static_cast<uint32_t>(values[0]));
}

LayerFacts Dropout::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  if (mask_) return facts;
  facts.layouts.any = true;
  // Codes stay as they are: the scale is that of the top's range.
  if (scale_ != 1) {
    facts.affine = Affine::Constant(scale_, 0);
  } else {
    facts.function = ElementFunction{};
  }
  return facts;
}

}  // namespace

void RegisterDropoutLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = traits.keeps_signs = true;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "random elements become 0 while training";
  registry.Add<DropoutLayer>("Dropout", traits);
}

}  // namespace caffe
