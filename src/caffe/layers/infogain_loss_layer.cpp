#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// loss = -sum over items and classes k of H[label, k] log max(p_k, 10^-20) / divisor with p =
// softmax(x) along an axis. With H the identity this is SoftmaxWithLoss.
//   dE/dx_k = dE/dloss (p_k R[label] - H[label, k]) / divisor with R the row sums of H; 0 where the
//   label is ignored
// bottom 0 (x): [outer…, C, inner…]; bottom 1: outer * inner labels, integers in [0, C) or
// ignore_label; others are an error (CheckData); bottom 2 (optional): H, C * C elements. Bottoms 1
// and 2 are always float and have no gradient. top 0: no axes; top 1 (optional): p.
// infogain_loss_param: source (a file with a BlobProto, if there is no bottom 2), axis (1).
// loss_param: ignore_label, normalization (VALID: the divisor is the number of labels that count),
// pre_fixed_normalizer; normalize is an error, as in BVLC's Caffe. The divisor is at least 1.
// Types: float kinds.
class InfogainLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  BlobBase& Probabilities(const BlobVec& top) { return top.size() > 1 ? *top[1] : *probabilities_; }
  const BlobBase& Matrix(const BlobVec& bottom) {
    return bottom.size() > 2 ? *bottom[2] : *matrix_;
  }

  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::shared_ptr<BlobBase> probabilities_;
  std::shared_ptr<BlobBase> row_sums_;  // of H, for each item
  std::shared_ptr<BlobBase> matrix_;    // from the file
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using InfogainLossLayer = Layer<Dtype, MItype, MOtype, InfogainLoss>;

void InfogainLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  CAFFE_CHECK(!layer_param().loss_param().has_normalize(), Where(),
              ": loss_param.normalize is not supported; use normalization: VALID for true, ",
              "BATCH_SIZE for false");
  if (bottom.size() < 3) {
    const std::string& source = layer_param().infogain_loss_param().source();
    CAFFE_CHECK(
        !source.empty(), Where(),
        ": needs a matrix: infogain_loss_param { source: a file with a BlobProto }, or as a "
        "third bottom");
    if (matrix_) {
      matrix_->SetDevice(device());
    } else {
      BlobProto proto;
      ReadBinaryProto(source, &proto);
      matrix_ = MakeBlob(kFloat, device(), {0}, "infogain matrix " + source);
      matrix_->FromProto(proto);
    }
  }
  PlaceBlob(&probabilities_, types().out, device(), {0}, name() + " probabilities");
  PlaceBlob(&row_sums_, sum_.terms().type(), device(), {0}, name() + " row sums");
  forward_ = MakeKernel("loss/infogain", "infogain_forward");
  backward_ = MakeKernel("loss/infogain", "infogain_backward");
}

void InfogainLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  const int axis = bottom[0]->CanonicalAxisIndex(layer_param().infogain_loss_param().axis());
  outer_ = bottom[0]->count(0, axis);
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  CAFFE_CHECK(outer_ * inner_ == bottom[1]->count(), Where(), ": scores of shape ",
              bottom[0]->shape_string(), " along axis ", axis, " need ", outer_ * inner_,
              " labels, but there are ", bottom[1]->count());
  const BlobBase& matrix = Matrix(bottom);
  CAFFE_CHECK(matrix.count() == channels_ * channels_, Where(), ": the matrix must be ", channels_,
              " x ", channels_, " for ", channels_, " classes; it has shape ",
              matrix.shape_string(),
              bottom.size() > 2 ? "" : ", from " + layer_param().infogain_loss_param().source());
  Probabilities(top).ReshapeLike(*bottom[0]);
  row_sums_->Reshape({outer_ * inner_});
  sum_.Reshape(outer_ * inner_);
  SetLabels(channels_, inner_, true);
}

void InfogainLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const LossParameter& loss = layer_param().loss_param();
  forward_->Launch({outer_, inner_}, {outer_, channels_, inner_, loss.has_ignore_label(),
                                      loss.ignore_label(), bottom[0]->Data(), bottom[1]->Data(),
                                      Matrix(bottom).Data(), Probabilities(top).MutableData(),
                                      row_sums_->MutableData(), sum_.terms().MutableData()});
  Finish(Divisor(outer_, inner_, LossParameter::VALID), top[0]);
}

void InfogainLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                            const BlobVec& bottom) {
  for (size_t i = 1; i < propagate_down.size(); ++i) {
    CAFFE_CHECK(!propagate_down[i], Where(), ": there is no gradient for ",
                i == 1 ? "labels" : "the infogain matrix");
  }
  if (!propagate_down[0]) return;
  const LossParameter& loss = layer_param().loss_param();
  backward_->Launch(
      {outer_ * channels_, inner_},
      {outer_, channels_, inner_, loss.has_ignore_label(), loss.ignore_label(),
       Probabilities(top).Data(), bottom[1]->Data(), Matrix(bottom).Data(), row_sums_->Data(),
       top[0]->Diff(), sum_.divisor().Data(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterInfogainLossLayer(LayerRegistry& registry) {
  LayerTraits traits = LossBase::Traits();
  traits.max_bottom = 3;
  traits.max_top = 2;
  traits.float_bottoms = {1, 2};
  traits.no_gradient_bottoms = {1, 2};
  traits.backward_reads = Always({{1, 2}, {1}});
  traits.summary = "-sum of H[label, k] log softmax(x)[k], averaged";
  registry.Add<InfogainLossLayer>("InfogainLoss", traits);
}

}  // namespace caffe
