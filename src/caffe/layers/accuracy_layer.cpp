#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/layer/score_report.hpp"
#include "caffe/layer/term_sum.hpp"

namespace caffe {
namespace {

// The share of items whose label is among the top_k largest scores. A score equal to the label's
// score is ranked above it, and NaN above every number; an item whose label has the score NaN is a
// miss. 0 if no item is counted.
// bottom 0: scores [outer…, C, inner…]; bottom 1: outer * inner labels, always float, integers in
// [0, C) or ignore_label; others are an error (CheckData). top 0: no axes; top 1 (optional): the
// same per class, [C], 0 for a class without items. No gradient.
// accuracy_param: top_k (1), axis (1), ignore_label.
// Types: float kinds, quant8 and quant16: codes have the order of their values. Tops are always
// float.
class Accuracy : public LayerBase, public HasClassScores, public ScoreReport {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void CheckData() override;
  std::optional<ClassScores> class_scores() const override;
  bool TakeLostScores() override;

 private:
  int64_t channels_ = 0, inner_ = 0;
  TermSum sum_;
  std::shared_ptr<BlobBase> lost_;  // of each item: 1 if a score was NaN or infinity
  std::unique_ptr<Kernel> hits_, per_class_;
};

template <class Dtype, class MItype, class MOtype>
using AccuracyLayer = Layer<Dtype, MItype, MOtype, Accuracy>;

void Accuracy::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(layer_param().accuracy_param().top_k() > 0, Where(), ": top_k must be positive");
  const TypeTriple floats = TypeTriple::Equal(kFloat);
  sum_.Place(device(), floats);
  PlaceBlob(&lost_, kFloat, device(), {0}, name() + " items with scores that are not finite");
  hits_ = MakeKernel("loss/accuracy", "accuracy_hits");
  if (top.size() > 1)
    per_class_ = MakeKernel("loss/accuracy_per_class", "accuracy_per_class", floats);
}

void Accuracy::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const AccuracyParameter& parameter = layer_param().accuracy_param();
  const int axis = bottom[0]->CanonicalAxisIndex(parameter.axis());
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  const int64_t items = bottom[0]->count(0, axis) * inner_;
  CAFFE_CHECK(static_cast<int64_t>(parameter.top_k()) <= channels_, Where(), ": top_k ",
              parameter.top_k(), " exceeds the ", channels_, " classes");
  CAFFE_CHECK(items == bottom[1]->count(), Where(), ": scores of shape ", bottom[0]->shape_string(),
              " along axis ", axis, " need ", items, " labels, but there are ", bottom[1]->count());
  sum_.Reshape(items);
  if (lost_->count() != items) {
    lost_->Reshape({items});
    FillerParameter zero;
    zero.set_type("constant");
    FillAtAccess(zero, 0, lost_.get());
  }
  top[0]->Reshape({});
  if (top.size() > 1) top[1]->Reshape({channels_});
}

void Accuracy::Forward(const BlobVec& bottom, const BlobVec& top) {
  const AccuracyParameter& parameter = layer_param().accuracy_param();
  hits_->Launch(sum_.count(),
                {sum_.count(), channels_, inner_, parameter.top_k(), parameter.has_ignore_label(),
                 parameter.ignore_label(), In(bottom, 0), bottom[1]->Data(),
                 sum_.terms().MutableData(), lost_->MutableData()});
  sum_.Divide(0, top[0]);
  if (top.size() > 1) {
    per_class_->Launch(channels_, {channels_, sum_.count(), bottom[1]->Data(), sum_.terms().Data(),
                                   top[1]->MutableData()});
  }
  if (device()->host_accessible()) CheckData();
}

std::optional<ClassScores> Accuracy::class_scores() const {
  ClassScores scores{channels_, inner_, true};
  scores.ties_above = true;
  const AccuracyParameter& parameter = layer_param().accuracy_param();
  if (parameter.has_ignore_label()) scores.ignore_label = parameter.ignore_label();
  return scores;
}

void Accuracy::CheckData() {
  CheckClassLabels({Where(), channels_, inner_, "accuracy_param"}, &sum_);
}

bool Accuracy::TakeLostScores() {
  if (types().in.is_quantized() || lost_->count() == 0) return false;
  lost_->mutable_device_data();  // a replayed forward has written it
  const std::vector<double> lost = lost_->DataAsDouble();
  if (std::find(lost.begin(), lost.end(), 1) == lost.end()) return false;
  lost_->SetData(std::vector<double>(lost.size(), 0));
  return true;
}

void Accuracy::Backward(const BlobVec&, const std::vector<bool>& propagate_down, const BlobVec&) {
  const bool wanted =
      std::find(propagate_down.begin(), propagate_down.end(), true) != propagate_down.end();
  CAFFE_CHECK(!wanted, Where(), ": has no gradient");
}

LayerFacts Accuracy::Facts() const {
  LayerFacts facts;
  // A forward also records invalid data, which the host reads in CheckData.
  facts.replayable = phase() == TRAIN;
  return facts;
}

}  // namespace

void RegisterAccuracyLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.max_top = 2;
  traits.types = BuiltInTypes();
  traits.float_bottoms = {1};
  traits.float_tops = {0, 1};
  traits.no_gradient_bottoms = {0, 1};
  traits.backward = false;
  traits.summary = "share of items whose label is among the top_k scores";
  registry.Add<AccuracyLayer>("Accuracy", traits);
}

}  // namespace caffe
