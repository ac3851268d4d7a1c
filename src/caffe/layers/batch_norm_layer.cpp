#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "caffe.pb.h"
#include "caffe/layer/channel_norm.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/has_statistics.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {
namespace {

// y = (x - mean) / sqrt(variance + eps), for each channel (axis 1), without scale and bias, which a
// Scale layer adds. With m elements per channel, the mean and the (biased) variance are
// - those of the batch. Each forward adds to the blobs, lambda = moving_average_fraction:
//     blob 0 = lambda blob 0 + mean, blob 1 = lambda blob 1 + variance m / (m - 1) (1 for m = 1),
//     blob 2 = lambda blob 2 + 1
//   dE/dx = (dE/dy - mean of dE/dy - y times mean of y dE/dy) / sqrt(variance + eps)
// - with use_global_stats blob 0 / blob 2 and blob 1 / blob 2 (0 if blob 2 is 0).
//   dE/dx = dE/dy / sqrt(variance + eps)
// With joint statistics (HasStatistics) of n ranks, the batch is those of all ranks, m is n times
// as large, and the means of dE/dy and y dE/dy are those of all ranks.
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is
// kept for the gradient, but with global statistics and no ReLU.
// blobs: [channels], [channels], [1]. A solver does not change them: their lr_mult is 0; another
// value in `param` is an error.
// batch_norm_param: use_global_stats (in phase TRAIN false, in TEST true), moving_average_fraction
//   (0.999), eps (1e-5), fused_relu (false): y = max(y, 0).
// Types: float kinds; with global statistics, quant8 and quant16 forward (CodeAffine), where y has
// a range of its own. Blobs and statistics are float, double for double.
class BatchNorm : public CodedLayer, public HasStatistics {
 public:
  using CodedLayer::CodedLayer;
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
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  LayerFacts Facts() const override;
  void JoinStatistics(Communicator* communicator) override { joint_ = communicator; }

 private:
  class TrainingWork;
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const {
    return need_backward() && types().compute.is_float() && GradientNeedsInput();
  }
  void ComputeBatchStatistics(const BlobBase& x, ChannelSums* sums);
  // The elements of a channel in the batch of all ranks.
  double Elements() const {
    return static_cast<double>(outer_ * inner_) * (joint_ ? joint_->size() : 1);
  }
  void SumOverRanks(BlobBase* blob) {
    if (!joint_) return;
    joint_->AllReduceSum(device(), blob->mutable_device_data(), blob->count(), blob->type());
    joint_->Finish();
  }
  bool GradientNeedsInput() const { return !global_ || fused_relu_; }

  bool global_ = false, fused_relu_ = false;
  double fraction_ = 0.999, eps_ = 1e-5;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  InputCopy input_;
  ChannelSums forward_sums_, backward_sums_;
  Communicator* joint_ = nullptr;
  std::shared_ptr<BlobBase> joint_squares_;  // sums of (x - mean)^2, with joint statistics
  // The last forward's mean and 1 / sqrt(variance + eps), and the last backward's sums.
  std::shared_ptr<BlobBase> mean_, inverse_, gradient_sums_;
  // The scale and the shift of each channel, with global statistics.
  CodeAffine::Function GlobalAffine() const;

  CodeAffine codes_;             // of quantized types
  DerivedBy global_statistics_;  // mean_ and inverse_, with global statistics
  std::unique_ptr<Kernel> mean_kernel_, square_parts_, variance_, global_kernel_;
  std::unique_ptr<Kernel> normalize_rows_, normalize_columns_;
  std::unique_ptr<Kernel> gradient_parts_, gradient_rows_, gradient_columns_;
};

template <class Dtype, class MItype, class MOtype>
using BatchNormLayer = Layer<Dtype, MItype, MOtype, BatchNorm>;

void BatchNorm::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const BatchNormParameter& parameter = layer_param().batch_norm_param();
  global_ = parameter.has_use_global_stats() ? parameter.use_global_stats() : phase() == TEST;
  fraction_ = parameter.moving_average_fraction();
  eps_ = parameter.eps();
  fused_relu_ = parameter.fused_relu();
  CAFFE_CHECK(eps_ >= 0, Where(), ": eps ", eps_, " must not be negative");
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  channels_ = bottom[0]->shape(1);
  FillerParameter zero;
  zero.set_type("constant");
  AddParameter(0, {channels_}, zero);
  AddParameter(1, {channels_}, zero);
  AddParameter(2, {1}, zero);
  // The statistics are not weights: a solver must not change them.
  for (int i = 0; i < 3; ++i) {
    if (layer_param().param_size() == i) mutable_layer_param()->add_param()->set_lr_mult(0);
    CAFFE_CHECK(layer_param().param(i).lr_mult() == 0, Where(), ": lr_mult of parameter ", i,
                " is ", layer_param().param(i).lr_mult(),
                "; it must be 0, since the statistics are not learned");
  }
  input_.SetDevice(device());
  if (types().compute.is_quantized()) {
    CAFFE_CHECK(global_, Where(), ": statistics of the batch are not supported in ", types().name(),
                "; set use_global_stats, or give the layer a float type");
    codes_ = CodeAffine({blobs_[0].get(), blobs_[1].get(), blobs_[2].get()}, GlobalAffine(),
                        channels_, types().compute, device(), Where());
    UseCodes(&codes_);
    return;
  }
  PlaceBlob(&mean_, master_type(), device(), {channels_}, name() + " mean");
  PlaceBlob(&inverse_, master_type(), device(), {channels_}, name() + " 1 / deviation");
  gradient_sums_ = MakeBlob(master_type(), device(), {2, channels_}, name() + " gradient sums");
  const auto make = [&](const char* kernel) { return MakeKernel("norm/batch_norm", kernel); };
  normalize_rows_ = make("batch_norm_rows");
  normalize_columns_ = make("batch_norm_columns");
  gradient_rows_ = make("batch_norm_backward_rows");
  gradient_columns_ = make("batch_norm_backward_columns");
  if (global_) {
    global_kernel_ = make("batch_norm_global");
    global_statistics_ = DerivedBy({blobs_[0].get(), blobs_[1].get(), blobs_[2].get()}, [this] {
      global_kernel_->Launch(
          channels_, {channels_, blobs_[0]->Data(), blobs_[1]->Data(), blobs_[2]->Data(), eps_,
                      mean_->MutableData(), inverse_->MutableData()});
    });
    return;
  }
  mean_kernel_ = make("batch_norm_mean");
  square_parts_ = make("batch_norm_square_parts");
  variance_ = make("batch_norm_variance");
  gradient_parts_ = make("batch_norm_gradient_parts");
  forward_sums_ = ChannelSums(&workspace(), types(), master_type());
  backward_sums_ = ChannelSums(&workspace(), types(), master_type(), 2);
}

void BatchNorm::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2 && bottom[0]->shape(1) == blobs_[0]->count(), Where(),
              ": was made for ", blobs_[0]->count(),
              " channels on axis 1, but the bottom has shape ", bottom[0]->shape_string());
  outer_ = bottom[0]->shape(0);
  channels_ = bottom[0]->shape(1);
  inner_ = bottom[0]->count(2);
  if (!global_) {
    forward_sums_.Reshape(outer_, channels_, inner_, true);
    backward_sums_.Reshape(outer_, channels_, inner_, phase() == TRAIN);
  }
  top[0]->ReshapeLike(*bottom[0]);
}

void BatchNorm::PrepareParameters() {
  if (!global_ || types().compute.is_quantized()) return CodedLayer::PrepareParameters();
  global_statistics_.Refresh();
}

void BatchNorm::ComputeBatchStatistics(const BlobBase& x, ChannelSums* sums) {
  const double m = Elements();
  const int64_t parts = sums->parts_per_channel();
  sums->Sum(x.Data());
  mean_kernel_->Launch(channels_, {channels_, parts, sums->parts(), 1 / m, mean_->MutableData()});
  SumOverRanks(mean_.get());
  sums->Launch(square_parts_.get(), {x.Data(), mean_->Data()});
  if (joint_) {
    if (!joint_squares_) {
      joint_squares_ = MakeBlob(master_type(), device(), {channels_}, name() + " squares");
    }
    sums->Finish(false, joint_squares_->MutableData());
    SumOverRanks(joint_squares_.get());
  }
  const int64_t count = joint_ ? 1 : parts;
  const DevicePtr squares = joint_ ? joint_squares_->device_data() : sums->parts();
  variance_->Launch(channels_,
                    {channels_, count, squares, mean_->Data(), 1 / m, m > 1 ? m / (m - 1) : 1.0,
                     fraction_, eps_, inverse_->MutableData(), blobs_[0]->MutableData(),
                     blobs_[1]->MutableData(), blobs_[2]->MutableData()});
}

void BatchNorm::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  if (!global_) ComputeBatchStatistics(*bottom[0], &forward_sums_);
  RepeatForward(bottom, top);
}

// Uses the mean and deviation of the last forward.
void BatchNorm::RepeatForward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  if (types().compute.is_quantized()) {
    codes_.Launch({outer_, channels_, inner_}, In(bottom, 0), Out(top, 0), fused_relu_);
    return;
  }
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double low = fused_relu_ ? 0 : -kInfinity, high = kInfinity;
  const KernelArgument x = bottom[0]->Data(), y = top[0]->MutableData();
  if (inner_ == 1) {
    normalize_columns_->Launch(
        {outer_, channels_}, {outer_, channels_, low, high, x, mean_->Data(), inverse_->Data(), y});
  } else {
    const int64_t rows = outer_ * channels_;
    normalize_rows_->Launch({rows, inner_}, {rows, inner_, channels_, low, high, x, mean_->Data(),
                                             inverse_->Data(), y});
  }
}

void BatchNorm::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!propagate_down[0] || bottom[0]->count() == 0) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  const int gate = fused_relu_, batch = !global_;
  const KernelArgument y_diff = top[0]->Diff();
  const KernelArgument x = GradientNeedsInput() ? input_.Data(*bottom[0], *top[0]) : y_diff;
  if (batch) {
    backward_sums_.Launch(gradient_parts_.get(),
                          {gate, x, y_diff, mean_->Data(), inverse_->Data()});
    backward_sums_.Finish(false, gradient_sums_->MutableData());
    SumOverRanks(gradient_sums_.get());
  }
  const double factor = 1 / Elements();
  const KernelArgument x_diff = bottom[0]->MutableDiff();
  if (inner_ == 1) {
    gradient_columns_->Launch({outer_, channels_},
                              {outer_, channels_, gate, batch, factor, x, y_diff, mean_->Data(),
                               inverse_->Data(), gradient_sums_->Data(), x_diff});
  } else {
    const int64_t rows = outer_ * channels_;
    gradient_rows_->Launch({rows, inner_},
                           {rows, inner_, channels_, gate, batch, factor, x, y_diff, mean_->Data(),
                            inverse_->Data(), gradient_sums_->Data(), x_diff});
  }
}

// With a learned scale and shift, and ReLU if requested. The layer keeps the statistics.
class BatchNorm::TrainingWork final : public Work {
 public:
  TrainingWork(BatchNorm* layer, BlobBase* x, BlobBase* y, const ChannelScale& scale, bool relu,
               bool channels_last)
      : layer_(*layer),
        x_(*x),
        y_(*y),
        scale_(scale),
        relu_(relu),
        rows_(layer->outer_ * layer->inner_),
        norm_(&layer->workspace(), layer->types()) {
    const int64_t channels = layer->channels_;
    const bool host = !layer->device()->has_groups();
    if (!channels_last) {
      norm_.Reshape(layer->outer_, channels, layer->inner_, false);
      return;
    }
    own_sums_ =
        ChannelSums(&layer->workspace(), layer->types(), layer->master_type(), host ? 1 : 2);
    if (host) {
      own_sums_->Reshape(rows_, channels, 1, false);
      norm_.Reshape(rows_, channels, 1, false);
      return;
    }
    own_sums_->ReshapeSpans(rows_, channels);
    norm_.ReshapeSpans(rows_, channels);
    moments_ = layer->MakeKernel("norm/channel_norm_spans", "channel_moments");
    finish_ = layer->MakeKernel("norm/channel_norm_spans", "channel_moments_finish");
  }
  int64_t workspace_bytes() const override {
    return std::max(norm_.workspace_bytes(), own_sums_ ? own_sums_->workspace_bytes() : 0);
  }
  int64_t parameter_bytes() const override {
    int64_t bytes = scale_.scale->bytes() + scale_.shift->bytes();
    for (const auto& blob : layer_.blobs()) bytes += blob->bytes();
    return bytes;
  }
  void Prepare() override {
    layer_.PrepareParameters();
    for (const BlobBase* blob : {scale_.scale, scale_.shift}) blob->device_data();
  }
  void Run(DevicePtr workspace) override {
    if (x_.count() > 0) ComputeStatistics();
    Repeat(workspace);
  }
  void Repeat(DevicePtr) override {
    if (x_.count() > 0) norm_.Forward(Operands(), y_.MutableData());
  }
  void Backward(DevicePtr) override {
    if (x_.count() == 0) return;
    const ChannelNorm::Operands operands = Operands();
    const KernelArgument y_diff = y_.Diff();
    norm_.SumAndAdd(operands, y_diff, scale_.scale->MutableDiff(), scale_.shift->MutableDiff());
    // The two diffs may share memory, so this one is computed last.
    norm_.Backward(operands, true, y_diff, x_.MutableDiff(), layer_.joint_);
  }

 private:
  ChannelNorm::Operands Operands() const {
    return {x_.Data(),
            layer_.mean_->Data(),
            layer_.inverse_->Data(),
            scale_.scale->Data(),
            scale_.shift->Data(),
            relu_};
  }

  void ComputeStatistics() {
    if (moments_ && layer_.joint_) {  // which are about a mean of this rank alone
      moments_.reset();
      own_sums_ = ChannelSums(&layer_.workspace(), layer_.types(), layer_.master_type());
      own_sums_->Reshape(rows_, layer_.channels_, 1, false);
    }
    if (!own_sums_) return layer_.ComputeBatchStatistics(x_, &layer_.forward_sums_);
    if (!moments_) return layer_.ComputeBatchStatistics(x_, &*own_sums_);
    own_sums_->Launch(moments_.get(), {x_.Data()});
    const double m = static_cast<double>(rows_);
    finish_->Launch(layer_.channels_,
                    {layer_.channels_, rows_, own_sums_->parts_per_channel(), x_.Data(),
                     own_sums_->parts(), 1 / m, m > 1 ? m / (m - 1) : 1.0, layer_.fraction_,
                     layer_.eps_, layer_.mean_->MutableData(), layer_.inverse_->MutableData(),
                     layer_.blobs_[0]->MutableData(), layer_.blobs_[1]->MutableData(),
                     layer_.blobs_[2]->MutableData()});
  }

  BatchNorm& layer_;
  BlobBase &x_, &y_;
  const ChannelScale scale_;
  const bool relu_;
  const int64_t rows_;  // positions of all items
  ChannelNorm norm_;
  // For x in kNHWC: the sums of the statistics, and their kernels on devices.
  std::optional<ChannelSums> own_sums_;
  std::unique_ptr<Kernel> moments_, finish_;
};

std::unique_ptr<Work> BatchNorm::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                          const BlobVec& top) {
  if (!request.scale) return LayerBase::MakeWork(request, bottom, top);
  const bool relu = !request.stages.empty();
  CAFFE_CHECK(!global_ && !fused_relu_ && request.maps.empty() && bottom[0] != top[0] &&
                  (!relu || request.stages == std::vector<Epilogue::Stage>{kPlainReLU}),
              Where(), ": this layer cannot compute these later layers");
  return std::make_unique<TrainingWork>(this, bottom[0], top[0], *request.scale, relu,
                                        request.layouts.y == Layout::kNHWC);
}

CodeAffine::Function BatchNorm::GlobalAffine() const {
  const BlobBase *mean = blobs_[0].get(), *variance = blobs_[1].get(), *count = blobs_[2].get();
  return [=, eps = eps_](std::vector<double>* scale, std::vector<double>* shift) {
    const std::vector<double> means = mean->DataAsDouble(), variances = variance->DataAsDouble();
    const double weight = count->DataAsDouble()[0], factor = weight == 0 ? 0 : 1 / weight;
    scale->clear();
    shift->clear();
    for (size_t c = 0; c < means.size(); ++c) {
      scale->push_back(1 / std::sqrt(variances[c] * factor + eps));
      shift->push_back(-means[c] * factor * scale->back());
    }
  };
}

LayerFacts BatchNorm::Facts() const {
  LayerFacts facts;
  // In phase TEST, statistics of a batch change parameters, which a plan does not expect.
  facts.replayable = global_ || phase() == TRAIN;
  if (!global_ && !fused_relu_) {
    facts.normalized = LayerFacts::Normalized{channels_};
    facts.layouts.trains = true;
  }
  if (!global_ || fused_relu_) return facts;
  Affine affine{1, channels_, {blobs_[0].get(), blobs_[1].get(), blobs_[2].get()}, nullptr};
  affine.evaluate = GlobalAffine();
  facts.affine = std::move(affine);
  return facts;
}

}  // namespace

void RegisterBatchNormLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) {
    const BatchNormParameter& parameter = layer.batch_norm_param();
    return parameter.has_use_global_stats() ? parameter.use_global_stats() : layer.phase() == TEST;
  };
  traits.backward_reads = [](const LayerParameter& parameter) {
    const BatchNormParameter& p = parameter.batch_norm_param();
    const bool linear = p.use_global_stats() && !p.fused_relu();
    return linear ? BackwardReads{} : BackwardReads{{0}, {}, true};
  };
  traits.summary = "y = (x - mean) / sqrt(variance + eps) per channel";
  registry.Add<BatchNormLayer>("BatchNorm", traits);
}

}  // namespace caffe
