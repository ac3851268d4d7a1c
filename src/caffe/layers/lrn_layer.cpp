#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {
namespace {

// Local response normalisation, n = local_size:
//   y = x / scale^beta
//   ACROSS_CHANNELS: scale = k + alpha / n * sum of x^2 over n channels around x
//   WITHIN_CHANNEL: scale = 1 + alpha / n^2 * sum of x^2 over the n x n elements around x
//   dE/dx = dE/dy scale^-beta - 2 alpha beta / n (or n^2) x * sum of dE/dy y / scale over a window
// Windows that reach beyond an edge are padded with 0, but divided by their full size.
// WITHIN_CHANNEL ignores k, as in BVLC's Caffe.
// bottom 0, top 0: [N, C, H, W]. Not in place: the gradient needs x.
// lrn_param: local_size (5, odd), alpha (1), beta (0.75), norm_region (ACROSS_CHANNELS), k (1).
// Types: float kinds; forward also quantized ones, ACROSS_CHANNELS. Codes are those of the float
// layer between two conversions, in one launch.
class LRN : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

  LayerFacts Facts() const override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

 private:
  class ChannelsLastWork;
  bool InCodes() const;
  // The kernels for codes compute in float.
  TypeTriple KernelTypes() const;
  // The part of the window that lies in an image, so that a window of 2^31 elements takes no
  // longer.
  int64_t Reach() const;
  // The rows and the columns of a window are within Reach() and Side() of its element.
  int64_t Side() const { return across_ ? 0 : Reach(); }
  int64_t Rows() const { return across_ ? planes_ : planes_ * extent_; }
  void FoldWindow(ProgramBuilder* builder) const;
  // The first nine arguments of the kernels that compute scales.
  KernelArguments Arguments() const;
  // The last arguments of the forward kernels.
  void AppendBlobs(const BlobBase* bottom, BlobBase* top, KernelArguments* arguments) const;
  void ReserveParts(const Shape& shape);

  bool across_ = true;
  int64_t reach_ = 0, quarters_ = 0;  // see kernels/epilogue/lrn_power.h
  double factor_ = 0, beta_ = 0, k_ = 1;
  int64_t planes_ = 0, extent_ = 0, inner_ = 0;  // extent: channels across, rows within
  LaunchRange range_{0};                         // elements; rows on the CPU
  std::unique_ptr<Kernel> forward_, parts_, backward_;
  // Passed from the first kernel of the backward pass to the second.
  std::shared_ptr<BlobBase> power_, ratio_;
};

template <class Dtype, class MItype, class MOtype>
using LRNLayer = Layer<Dtype, MItype, MOtype, LRN>;

// A window that is wider than all images has a reach that depends on the shape.
constexpr int64_t kMostFolded = 1024;

// 4 beta if this is 1, 2, 3 or 4, otherwise 0: see kernels/epilogue/lrn_power.h.
int64_t Quarters(double beta) {
  const double quarters = 4 * beta;
  return quarters == 1 || quarters == 2 || quarters == 3 || quarters == 4
             ? static_cast<int64_t>(quarters)
             : 0;
}

void LRN::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const LRNParameter& parameter = layer_param().lrn_param();
  const int64_t size = parameter.local_size();
  CAFFE_CHECK(size % 2 == 1, Where(), ": local_size must be odd, not ", size);
  CAFFE_CHECK(parameter.fuse_type() == LRNParameter::UNFUSED, Where(), ": fuse_type ",
              LRNParameter::FuseType_Name(parameter.fuse_type()),
              " is not supported; remove it and add a Pooling layer");
  across_ = parameter.norm_region() == LRNParameter::ACROSS_CHANNELS;
  reach_ = (size - 1) / 2;
  const auto window = static_cast<double>(size);
  factor_ = static_cast<double>(parameter.alpha()) / (across_ ? window : window * window);
  beta_ = parameter.beta();
  quarters_ = Quarters(beta_);
  k_ = across_ ? parameter.k() : 1;
  if (!across_ && parameter.k() != 1) {
    log::Warning(
        Concat(Where(), ": k ", parameter.k(), " is ignored for WITHIN_CHANNEL, where k is 1"));
  }
  CAFFE_CHECK(across_ || !InCodes(), Where(), ": WITHIN_CHANNEL is not computed in ",
              types().compute.name(), "; give the layer a float type");
  ProgramBuilder builder(device(), "lrn");
  const bool rows = !device()->has_groups();
  const std::string body = InCodes() ? "norm/lrn_codes" : "norm/lrn";
  builder.Types(KernelTypes()).Body(rows ? body + "_rows" : body);
  FoldWindow(&builder);
  if (across_ || reach_ <= kMostFolded) builder.Fold("side", across_ ? 0 : reach_);
  const auto program = builder.Build();
  const std::string way = rows ? "_rows" : "";
  forward_ = program->CreateKernel((InCodes() ? "lrn_codes_forward" : "lrn_forward") + way);
  if (InCodes()) return;
  parts_ = program->CreateKernel("lrn_parts" + way);
  backward_ = program->CreateKernel("lrn_backward" + way);
  const DataType master = types().in == kDouble ? kDouble : kFloat;
  power_ = MakeBlob(master, device(), {0}, name() + " powers");
  ratio_ = MakeBlob(master, device(), {0}, name() + " ratios");
}

void LRN::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs a bottom of 4 axes, not of shape ",
              bottom[0]->shape_string());
  planes_ = bottom[0]->count(0, 2);
  extent_ = bottom[0]->shape(across_ ? 1 : 2);
  inner_ = bottom[0]->count(across_ ? 2 : 3);
  const int64_t rows = Rows();
  range_ = !device()->has_groups() ? LaunchRange(rows) : LaunchRange(rows, inner_);
  top[0]->ReshapeLike(*bottom[0]);
  if (phase() == TRAIN && !InCodes()) ReserveParts(bottom[0]->shape());
}

bool LRN::InCodes() const { return types().compute.is_quantized(); }

TypeTriple LRN::KernelTypes() const {
  return InCodes() ? TypeTriple{kFloat, types().in, types().out} : types();
}

void LRN::ReserveParts(const Shape& shape) {
  power_->Reshape(shape);
  ratio_->Reshape(shape);
}

KernelArguments LRN::Arguments() const {
  return {Rows(), extent_, inner_, Reach(), Side(), quarters_, factor_, beta_, k_};
}

void LRN::FoldWindow(ProgramBuilder* builder) const {
  if (reach_ <= kMostFolded) builder->Fold("reach", reach_);
  builder->Fold("quarters", quarters_);
}

// Kernels of devices get the reach that is compiled in, and cut windows themselves.
int64_t LRN::Reach() const {
  if (device()->has_groups() && reach_ <= kMostFolded) return reach_;
  return std::min(reach_, across_ ? extent_ : std::max(extent_, inner_));
}

void LRN::AppendBlobs(const BlobBase* bottom, BlobBase* top, KernelArguments* arguments) const {
  if (!InCodes()) {
    arguments->append({bottom->Data(), top->MutableData()});
    return;
  }
  const QuantRange x = BottomRange(0), y = TopRange(0);
  const TypeInfo& info = types().out.info();
  arguments->append({x.scale,
                     1 / y.scale,
                     info.code_min - y.zero,
                     info.code_max - y.zero,
                     {bottom->device_data(), x.zero},
                     {top->mutable_device_data(), y.zero}});
}

void LRN::Forward(const BlobVec& bottom, const BlobVec& top) {
  KernelArguments arguments = Arguments();
  AppendBlobs(bottom[0], top[0], &arguments);
  forward_->Launch(range_, arguments);
}

LayerFacts LRN::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.nhwc = across_;
  return facts;
}

// Images whose channels are neighbours: a row is a position, and its own group. Processors run the
// layer's own kernel.
class LRN::ChannelsLastWork final : public Work {
 public:
  ChannelsLastWork(const LRN& layer, const BlobBase* bottom, BlobBase* top)
      : layer_(layer), bottom_(bottom), top_(top) {
    if (!layer.device()->has_groups()) return;
    const bool codes = layer.InCodes();
    ProgramBuilder builder(layer.device(), "lrn_channels_last");
    builder.Types(layer.KernelTypes()).Body(codes ? "norm/lrn_codes" : "norm/lrn_channels_last");
    layer.FoldWindow(&builder);
    builder.Fold("channels", bottom->shape(1));
    spans_ = builder.Build()->CreateKernel(codes ? "lrn_codes_channels" : "lrn_channels");
  }
  void Run(DevicePtr) override {
    const int64_t channels = bottom_->shape()[1], rows = bottom_->count() / channels;
    KernelArguments arguments = {rows};
    if (spans_) {
      arguments.append({channels, layer_.Reach()});
    } else {
      arguments.append({int64_t{1}, channels, int64_t{0}, layer_.Reach()});
    }
    arguments.append({layer_.quarters_, layer_.factor_, layer_.beta_, layer_.k_});
    layer_.AppendBlobs(bottom_, top_, &arguments);
    // On the host the second extent is the cost of a row; on devices it is an axis.
    (spans_ ? spans_ : layer_.forward_)->Launch({rows, channels}, arguments);
  }

 private:
  const LRN& layer_;
  const BlobBase* bottom_;
  BlobBase* top_;
  std::unique_ptr<Kernel> spans_;
};

std::unique_ptr<Work> LRN::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                    const BlobVec& top) {
  if (request.layouts.y != Layout::kNHWC) return LayerBase::MakeWork(request, bottom, top);
  return std::make_unique<ChannelsLastWork>(*this, bottom[0], top[0]);
}

LayerArrays LRN::Arrays(const BlobVec& bottom, const BlobVec& top) {
  if (!need_backward() || InCodes()) return {};
  ReserveParts(bottom[0]->shape());
  return {{}, {power_.get(), ratio_.get()}};
}

void LRN::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                   const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (InCodes()) return LayerBase::Backward(top, propagate_down, bottom);
  ReserveParts(bottom[0]->shape());
  KernelArguments arguments = Arguments();
  arguments.append(
      {bottom[0]->Data(), top[0]->Diff(), power_->MutableData(), ratio_->MutableData()});
  parts_->Launch(range_, arguments);
  backward_->Launch(range_,
                    {Rows(), extent_, inner_, Reach(), Side(), factor_, beta_, bottom[0]->Data(),
                     top[0]->Diff(), power_->Data(), ratio_->Data(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterLRNLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) {
    return layer.lrn_param().norm_region() == LRNParameter::ACROSS_CHANNELS;
  };
  traits.backward_reads = Always({{0}, {}});
  traits.per_item = Always(true);
  traits.summary = "x / (k + alpha / n sum of x^2 over a window)^beta";
  registry.Add<LRNLayer>("LRN", traits);
}

}  // namespace caffe
