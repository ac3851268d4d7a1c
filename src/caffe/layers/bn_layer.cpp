#include <cmath>
#include <memory>

#include "caffe.pb.h"
#include "caffe/layer/channel_norm.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layer/has_statistics.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {
namespace {

// y = slope v + bias with v = (x - mean) / sqrt(variance + eps), for each channel (axis 1):
// BatchNorm and Scale in one layer, in two forms. Variances are biased.
// - PSPNet. blobs: slope, bias, mean, variance. In TRAIN mean and variance are those of the batch,
//   and blobs 2 and 3 become momentum blob + (1 - momentum) that of the batch. In TEST, and where
//   `frozen`, they are blobs 2 and 3. A frozen layer learns nothing.
// - SegNet, where scale_filler, shift_filler or bn_mode is given. blobs: slope, bias. With LEARN
//   mean and variance are those of the batch, in both phases; eps is 1e-9. With INFERENCE the two
//   blobs include them: y = slope x + bias.
//   dE/dslope += sum of v dE/dy, dE/dbias += sum of dE/dy
//   dE/dx = slope (dE/dy - mean of dE/dy - v times mean of v dE/dy) / sqrt(variance + eps) with the
//   statistics of the batch, else slope dE/dy / sqrt(variance + eps)
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is
// kept where the gradient needs it. top 1 and 2 (optional, LEARN): mean and variance [1, C, 1, 1],
// as float, without a gradient.
// blobs: each [1, C, 1, 1]. lr_mult and decay_mult of blobs 2 and 3, and of all where `frozen`, are
// 0.
// bn_param: slope_filler (constant 1), bias_filler (constant 0), momentum (0.9), eps (1e-5), frozen
//   (false); or scale_filler (constant 1), shift_filler (constant 0), bn_mode (LEARN).
// Types: float kinds; blobs and statistics are float, double for double.
class BN : public LayerBase, public HasStatistics {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void JoinStatistics(Communicator*) override {
    CAFFE_CHECK(
        statistics_ != Statistics::kBatch, Where(),
        ": this layer has no joint statistics (sync_statistics); use a BatchNorm layer, and a "
        "Scale layer behind it");
  }

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && GradientNeedsInput(); }
  // The source of mean and variance.
  enum class Statistics { kBatch, kBlobs, kNone };
  void ReadParameters(const BlobVec& top);
  void MakeBlobs();
  void MakeKernels(const BlobVec& top);
  void ComputeBatchStatistics(const BlobBase& x);
  bool GradientNeedsInput() const {
    return statistics_ == Statistics::kBatch || (!frozen_ && param_propagate_down(0));
  }
  const BlobBase& Mean() const { return statistics_ == Statistics::kBlobs ? *blobs_[2] : *mean_; }

  Statistics statistics_ = Statistics::kBatch;
  bool segnet_ = false, frozen_ = false;
  double momentum_ = 0.9, eps_ = 1e-5;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  InputCopy input_;
  ChannelSums forward_sums_;
  ChannelNorm norm_;
  // The last forward's mean, variance and 1 / sqrt(variance + eps).
  std::shared_ptr<BlobBase> mean_, variance_, inverse_;
  DerivedBy inverse_of_blobs_;  // inverse_, where the variances are a blob
  std::unique_ptr<Kernel> mean_kernel_, square_parts_, variance_kernel_, average_, invert_;
  std::unique_ptr<Kernel> to_float_;
};

template <class Dtype, class MItype, class MOtype> using BNLayer = Layer<Dtype, MItype, MOtype, BN>;

void BN::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  channels_ = bottom[0]->shape(1);
  ReadParameters(top);
  MakeBlobs();
  MakeKernels(top);
}

void BN::ReadParameters(const BlobVec& top) {
  const BNParameter& p = layer_param().bn_param();
  const bool pspnet = p.has_slope_filler() || p.has_bias_filler() || p.has_momentum() ||
                      p.has_eps() || p.has_frozen();
  segnet_ = p.has_scale_filler() || p.has_shift_filler() || p.has_bn_mode() ||
            (!pspnet && blobs_.size() == 2);
  CAFFE_CHECK(!pspnet || !segnet_, Where(), ": bn_param has fields of two forms: ",
              "scale_filler, shift_filler and bn_mode are SegNet's; slope_filler, bias_filler, ",
              "momentum, eps and frozen are PSPNet's");
  frozen_ = p.frozen();
  momentum_ = p.momentum();
  eps_ = segnet_ ? 1e-9 : p.eps();
  CAFFE_CHECK(eps_ >= 0, Where(), ": eps ", eps_, " must not be negative");
  if (segnet_) {
    statistics_ = p.bn_mode() == BNParameter::LEARN ? Statistics::kBatch : Statistics::kNone;
  } else {
    statistics_ = frozen_ || phase() == TEST ? Statistics::kBlobs : Statistics::kBatch;
  }
  CAFFE_CHECK(top.size() == 1 || (segnet_ && statistics_ == Statistics::kBatch), Where(),
              ": only SegNet's form with bn_mode LEARN has tops for mean and variance");
}

void BN::MakeBlobs() {
  const BNParameter& p = layer_param().bn_param();
  FillerParameter zero, one;
  zero.set_type("constant");
  one.set_type("constant");
  one.set_value(1);
  const Shape shape{1, channels_, 1, 1};
  const bool has_slope = p.has_slope_filler() || p.has_scale_filler();
  AddParameter(0, shape, !has_slope ? one : segnet_ ? p.scale_filler() : p.slope_filler());
  AddParameter(1, shape, segnet_ ? p.shift_filler() : p.bias_filler());
  if (segnet_) return;
  AddParameter(2, shape, zero);
  AddParameter(3, shape, frozen_ ? one : zero);
  // The statistics are not weights: a solver must not change them.
  for (int i = 0; i < 4; ++i) {
    if (layer_param().param_size() == i) mutable_layer_param()->add_param();
    if (i < 2 && !frozen_) continue;
    mutable_layer_param()->mutable_param(i)->set_lr_mult(0);
    mutable_layer_param()->mutable_param(i)->set_decay_mult(0);
  }
}

void BN::MakeKernels(const BlobVec& top) {
  const DataType master = master_type();
  input_.SetDevice(device());
  const bool fresh = !mean_;
  PlaceBlob(&mean_, master, device(), {channels_}, name() + " mean");
  PlaceBlob(&variance_, master, device(), {channels_}, name() + " variance");
  PlaceBlob(&inverse_, master, device(), {channels_}, name() + " 1 / deviation");
  if (fresh) {
    FillerParameter constant;
    constant.set_type("constant");
    FillAtAccess(constant, 0, mean_.get());
    constant.set_value(1);
    FillAtAccess(constant, 0, inverse_.get());
  }
  norm_ = ChannelNorm(&workspace(), types());
  if (statistics_ == Statistics::kBlobs) {
    invert_ = MakeKernel("norm/bn", "bn_inverse");
    inverse_of_blobs_ = DerivedBy({blobs_[3].get()}, [this] {
      invert_->Launch(channels_, {channels_, eps_, blobs_[3]->Data(), inverse_->MutableData()});
    });
  }
  if (statistics_ != Statistics::kBatch) return;
  mean_kernel_ = MakeKernel("norm/batch_norm", "batch_norm_mean");
  square_parts_ = MakeKernel("norm/batch_norm", "batch_norm_square_parts");
  variance_kernel_ = MakeKernel("norm/bn", "bn_variance");
  if (!segnet_) average_ = MakeKernel("norm/bn", "bn_average");
  forward_sums_ = ChannelSums(&workspace(), types(), master);
  if (top.size() > 1) to_float_ = MakeKernel("quant/convert", "convert", {master, master, kFloat});
}

void BN::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2 && bottom[0]->shape(1) == blobs_[0]->count(), Where(),
              ": was made for ", blobs_[0]->count(),
              " channels on axis 1, but the bottom has shape ", bottom[0]->shape_string());
  outer_ = bottom[0]->shape(0);
  inner_ = bottom[0]->count(2);
  if (statistics_ == Statistics::kBatch) forward_sums_.Reshape(outer_, channels_, inner_, true);
  norm_.Reshape(outer_, channels_, inner_, phase() == TRAIN);
  top[0]->ReshapeLike(*bottom[0]);
  for (size_t i = 1; i < top.size(); ++i) top[i]->Reshape({1, channels_, 1, 1});
}

void BN::PrepareParameters() {
  // Uploads stale device copies now, not in the forward.
  for (auto& blob : blobs_) blob->device_data();
  if (statistics_ == Statistics::kNone) {
    mean_->device_data();
    inverse_->device_data();
  }
  if (invert_) inverse_of_blobs_.Refresh();
}

void BN::ComputeBatchStatistics(const BlobBase& x) {
  const double factor = 1 / static_cast<double>(outer_ * inner_);
  const int64_t parts = forward_sums_.parts_per_channel();
  forward_sums_.Sum(x.Data());
  mean_kernel_->Launch(channels_,
                       {channels_, parts, forward_sums_.parts(), factor, mean_->MutableData()});
  forward_sums_.Launch(square_parts_.get(), {x.Data(), mean_->Data()});
  variance_kernel_->Launch(channels_, {channels_, parts, forward_sums_.parts(), factor, eps_,
                                       variance_->MutableData(), inverse_->MutableData()});
  if (!average_) return;
  average_->Launch(channels_, {channels_, momentum_, mean_->Data(), variance_->Data(),
                               blobs_[2]->MutableData(), blobs_[3]->MutableData()});
}

void BN::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  if (statistics_ == Statistics::kBatch) ComputeBatchStatistics(*bottom[0]);
  RepeatForward(bottom, top);
}

// Uses the statistics of the last forward.
void BN::RepeatForward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  for (size_t i = 1; i < top.size(); ++i) {
    to_float_->Launch(channels_, {channels_, (i == 1 ? mean_ : variance_)->Data(),
                                  top[i]->MutableData(), 1.0, 1.0, 0.0, 0.0});
  }
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  norm_.Forward(
      {bottom[0]->Data(), Mean().Data(), inverse_->Data(), blobs_[0]->Data(), blobs_[1]->Data()},
      top[0]->MutableData());
}

void BN::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                  const BlobVec& bottom) {
  if (bottom[0]->count() == 0) return;
  const bool batch = statistics_ == Statistics::kBatch;
  const bool by_slope = !frozen_ && param_propagate_down(0);
  const bool by_bias = !frozen_ && param_propagate_down(1);
  const KernelArgument y_diff = top[0]->Diff();
  const KernelArgument x = GradientNeedsInput() ? input_.Data(*bottom[0], *top[0]) : y_diff;
  const ChannelNorm::Operands operands{x, Mean().Data(), inverse_->Data(), blobs_[0]->Data(),
                                       blobs_[1]->Data()};
  if (by_slope || by_bias || (batch && propagate_down[0])) norm_.Sum(operands, y_diff);
  if (by_slope) norm_.AddSlopeGradient(blobs_[0]->MutableDiff());
  if (by_bias) norm_.AddBiasGradient(blobs_[1]->MutableDiff());
  // In place, the bottom's diff overwrites the top's, so it is computed last.
  if (propagate_down[0]) norm_.Backward(operands, batch, y_diff, bottom[0]->MutableDiff());
}

LayerFacts BN::Facts() const {
  LayerFacts facts;
  facts.replayable = statistics_ != Statistics::kBatch || phase() == TRAIN;
  if (statistics_ == Statistics::kBatch) return facts;
  Affine affine{1, channels_, {}, nullptr};
  for (const auto& blob : blobs_) affine.sources.push_back(blob.get());
  affine.evaluate = [sources = affine.sources, eps = eps_](std::vector<double>* scale,
                                                           std::vector<double>* shift) {
    *scale = sources[0]->DataAsDouble();
    *shift = sources[1]->DataAsDouble();
    if (sources.size() == 2) return;
    const std::vector<double> means = sources[2]->DataAsDouble();
    const std::vector<double> variances = sources[3]->DataAsDouble();
    for (size_t c = 0; c < means.size(); ++c) {
      (*scale)[c] /= std::sqrt(variances[c] + eps);
      (*shift)[c] -= means[c] * (*scale)[c];
    }
  };
  facts.affine = std::move(affine);
  return facts;
}

}  // namespace

void RegisterBNLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_top = 3;
  traits.in_place = true;
  traits.float_tops = {1, 2};
  traits.backward_reads = [](const LayerParameter& parameter) {
    return parameter.bn_param().frozen() ? BackwardReads{} : BackwardReads{{0}, {}, true};
  };
  traits.summary = "BatchNorm and Scale in one layer (PSPNet, SegNet)";
  registry.Add<BNLayer>("BN", traits);
}

}  // namespace caffe
