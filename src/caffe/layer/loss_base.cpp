#include "caffe/layer/loss_base.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

LayerTraits LossBase::Traits() {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.loss = true;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  return traits;
}

void LossBase::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const LossParameter& parameter = layer_param().loss_param();
  CAFFE_CHECK(parameter.pre_fixed_normalizer() > 0, Where(),
              ": pre_fixed_normalizer must be positive; it is ", parameter.pre_fixed_normalizer());
  sum_.Place(device(), types());
}

void LossBase::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() > 0 && bottom[1]->num_axes() > 0 &&
                  bottom[0]->shape(0) == bottom[1]->shape(0),
              Where(), ": the bottoms must have the same number of items; their shapes are ",
              bottom[0]->shape_string(), " and ", bottom[1]->shape_string());
  top[0]->Reshape({});
}

double LossBase::Divisor(int64_t outer, int64_t inner, int otherwise) const {
  const LossParameter& parameter = layer_param().loss_param();
  int mode = otherwise;
  if (parameter.has_normalization()) {
    mode = parameter.normalization();
  } else if (parameter.has_normalize()) {
    mode = parameter.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  }
  // Not 0, which would mean VALID.
  if (mode == LossParameter::FULL) return static_cast<double>(std::max<int64_t>(1, outer * inner));
  if (mode == LossParameter::BATCH_SIZE) return static_cast<double>(std::max<int64_t>(1, outer));
  if (mode == LossParameter::PRE_FIXED) return parameter.pre_fixed_normalizer();
  return mode == LossParameter::NONE ? 1 : 0;
}

double LossBase::ItemDivisor(int64_t items) const {
  const LossParameter& parameter = layer_param().loss_param();
  const bool fixed = parameter.normalization() == LossParameter::PRE_FIXED;
  return std::max(1.0, fixed ? parameter.pre_fixed_normalizer() : static_cast<double>(items));
}

void LossBase::WarnOfUnusedNormalization() const {
  const LossParameter& parameter = layer_param().loss_param();
  const bool mode =
      parameter.has_normalization() && parameter.normalization() != LossParameter::PRE_FIXED;
  if (!mode && !parameter.has_normalize() && !parameter.has_ignore_label()) return;
  log::Warning(Concat(Where(),
                      ": loss_param has no effect; as in BVLC Caffe, the sum is divided by ",
                      "the number of items (of the fields only normalization: PRE_FIXED is used)"));
}

void LossBase::CheckEqualCounts(const BlobVec& bottom) const {
  CAFFE_CHECK(bottom[0]->count() == bottom[1]->count(), Where(),
              ": the bottoms must have the same number of elements; their shapes are ",
              bottom[0]->shape_string(), " and ", bottom[1]->shape_string());
}

int64_t LossBase::TermLength(int64_t count) {
  return std::max<int64_t>(64, static_cast<int64_t>(std::sqrt(static_cast<double>(count))));
}

int64_t LossBase::GroupTermLength(int64_t count) {
  // One item adds the terms up: a few of them, and more if they become long.
  constexpr int64_t kFewTerms = 64, kMostTerms = 512, kShort = 2048, kLong = 1 << 16;
  const auto length = [&](int64_t terms) { return (count + terms - 1) / terms; };
  return std::clamp(length(kFewTerms), kShort, std::max(kLong, length(kMostTerms)));
}

void LossBase::SetLabels(int64_t classes, int64_t inner, bool ignores) {
  labels_ = ClassLabels{Where(), classes, inner, ignores ? "loss_param" : ""};
}

std::optional<ClassScores> LossBase::class_scores() const {
  if (!labels_) return std::nullopt;
  ClassScores scores{labels_->classes, labels_->inner, true};
  const LossParameter& parameter = layer_param().loss_param();
  if (!labels_->ignore_field.empty() && parameter.has_ignore_label()) {
    scores.ignore_label = parameter.ignore_label();
  }
  return scores;
}

void LossBase::CheckData() {
  if (labels_) CheckClassLabels(*labels_, &sum_);
}

LayerFacts LossBase::Facts() const {
  LayerFacts facts;
  // A forward also records invalid data, which the host reads in CheckData.
  facts.replayable = phase() == TRAIN;
  return facts;
}

void LossBase::Finish(double divisor, BlobBase* top) {
  sum_.Divide(divisor, top);
  if (device()->host_accessible()) CheckData();
}

void LabelLoss::SetKernels(const std::string& kernel, KernelArgument argument) {
  WarnOfUnusedNormalization();
  argument_ = argument;
  forward_ = MakeKernel("loss/" + kernel, kernel + "_forward");
  backward_ = MakeKernel("loss/" + kernel, kernel + "_backward");
}

void LabelLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  classes_ = bottom[0]->count(1);
  CAFFE_CHECK(bottom[1]->count() == bottom[0]->shape(0), Where(), ": ", bottom[0]->shape(0),
              " items of shape ", bottom[0]->shape_string(),
              " need as many labels; their shape is ", bottom[1]->shape_string());
  sum_.Reshape(bottom[0]->shape(0));
  SetLabels(classes_, 1, false);
}

void LabelLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch(sum_.count(), {sum_.count(), classes_, argument_, bottom[0]->Data(),
                                  bottom[1]->Data(), sum_.terms().MutableData()});
  Finish(ItemDivisor(sum_.count()), top[0]);
}

void LabelLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for labels");
  if (!propagate_down[0]) return;
  backward_->Launch(
      {sum_.count(), classes_},
      {sum_.count(), classes_, argument_, 1 / ItemDivisor(sum_.count()), bottom[0]->Data(),
       bottom[1]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

}  // namespace caffe
