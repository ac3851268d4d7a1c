#include <algorithm>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/upgrade.hpp"
#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/pooling.hpp"
#include "caffe/memory/derived.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// The largest value, the mean, or a random value, of windows of each channel.
//   MAX: the first largest value; it gets the gradient.
//   AVE: the sum over the area of the window; the area includes padding, but nothing beyond it.
//   STOCHASTIC: in TRAIN one value, drawn with a probability proportional to it (values >= 0);
//     in TEST the sum of squares over the sum, without a gradient.
//   output extent = (input + 2 pad - kernel) / stride + 1, rounded up, or down with FLOOR; with
//   padding the last window must begin inside the image or its leading padding. Windows are cut at
//   the image, also one that is larger: 3 x 3 with stride 2 makes 1 x 1 of 2 x 2.
// bottom 0: [N, C, H, W]; top 0: [N, C, h, w]; top 1 (optional, MAX): the index h W + w of each
// largest value, as float.
// pooling_param: pool (MAX), kernel_size or kernel_h and kernel_w, stride (1), pad (0), likewise;
//   global_pooling (false): the window is the image; round_mode (CEIL), which forks call ceil_mode
//   (true).
// Types: float kinds; quant8 and quant16 forward, MAX with its range carried through, AVE with one
// requantization of the sum. STOCHASTIC float kinds only.
class Pooling : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override { Run(bottom, top); }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  void PrepareParameters() override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  // STOCHASTIC in TRAIN: the count of forwards.
  std::vector<uint64_t> RunState() const override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  class OwnWork;
  class ChannelsLastWork;
  using Axis = PoolDescriptor::Axis;
  // Random numbers decide.
  bool Draws() const;
  void Run(const BlobVec& bottom, const BlobVec& top);
  // The factors for means of codes.
  QuantArguments Factors() const;
  void ReadWindow();
  PoolDescriptor Descriptor(int64_t planes) const;
  std::unique_ptr<PoolOp> MakeOp(const PoolDescriptor& descriptor) const;
  void MakeOperation(int64_t planes);
  void MakeFactors();
  int64_t OutputExtent(const Axis& axis) const;
  // The place that each output came from; MAX, and STOCHASTIC in TRAIN.
  BlobBase& Mask(const BlobVec& top) { return top.size() > 1 ? *top[1] : *mask_; }

  int pool_ = 0;
  bool global_ = false, round_up_ = true, has_mask_top_ = false;
  Axis height_, width_;
  std::shared_ptr<BlobBase> mask_;
  ForwardCounter counter_;
  std::unique_ptr<PoolOp> operation_;
  // AVE of codes: multipliers, then shifts, for windows of each area.
  std::shared_ptr<BlobBase> factors_;
  DerivedBy factors_of_areas_;
};

template <class Dtype, class MItype, class MOtype>
using PoolingLayer = Layer<Dtype, MItype, MOtype, Pooling>;

// Limit for kernels, strides and images: indices are stored as float and computed in 32 bits.
constexpr int64_t kLargest = int64_t{1} << 24;

// The parameters with lists as plain fields.
PoolingParameter Upgraded(const LayerParameter& layer) {
  PoolingParameter parameter = layer.pooling_param();
  UpgradePooling(&parameter);
  return parameter;
}

// Throws if a list was not joined by UpgradePooling.
void CheckList(const std::string& where, const std::string& name, const std::string& h,
               const std::string& w, int count) {
  CAFFE_CHECK(count < 3, where, ": ", name, " is given ", count,
              " times, but pooling has two spatial axes; give it once, or once for height and once "
              "for width");
  CAFFE_CHECK(count == 0, where, ": give either ", name, ", or ", h, " and ", w);
}

void Pooling::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const PoolingParameter parameter = Upgraded(layer_param());
  pool_ = parameter.pool();
  global_ = parameter.global_pooling();
  round_up_ = parameter.round_mode() == PoolingParameter::CEIL;
  if (parameter.has_ceil_mode()) {
    CAFFE_CHECK(!parameter.has_round_mode() || parameter.ceil_mode() == round_up_, Where(),
                ": ceil_mode ", parameter.ceil_mode() ? "true" : "false",
                " contradicts round_mode ",
                PoolingParameter::RoundMode_Name(parameter.round_mode()), "; give one of them");
    round_up_ = parameter.ceil_mode();
  }
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs a bottom of 4 axes, not of shape ",
              bottom[0]->shape_string());
  CAFFE_CHECK(bottom[0]->CanonicalAxisIndex(static_cast<int>(parameter.axis())) == 1, Where(),
              ": axis ", parameter.axis(), " is not supported: the window covers the last two of ",
              "four axes, so that the channel axis is 1");
  CheckList(Where(), "kernel_size", "kernel_h", "kernel_w", parameter.kernel_size_nd_size());
  CheckList(Where(), "stride", "stride_h", "stride_w", parameter.stride_nd_size());
  CheckList(Where(), "pad", "pad_h", "pad_w", parameter.pad_nd_size());
  CAFFE_CHECK(parameter.dilation_size() < 3, Where(), ": dilation is given ",
              parameter.dilation_size(), " times, but pooling has two spatial axes");
  for (const uint64_t dilation : parameter.dilation()) {
    CAFFE_CHECK(dilation == 1, Where(), ": dilation ", dilation, " is not supported, only 1");
  }
  CAFFE_CHECK(top.size() == 1 || pool_ == PoolingParameter::MAX, Where(),
              ": only MAX has a second top");
  has_mask_top_ = top.size() > 1;
  CAFFE_CHECK(pool_ != PoolingParameter::STOCHASTIC || types().compute.is_float(), Where(),
              ": STOCHASTIC supports float kinds, not ", types().compute.name());
  ReadWindow();
  PlaceBlob(&mask_, kFloat, device(), {0}, name() + " mask");
  if (Draws()) counter_.Place(device());
  operation_.reset();  // drop the operator built for the previous device
  factors_.reset();
  if (pool_ != PoolingParameter::AVE || !types().compute.is_quantized()) return;
  factors_ = MakeBlob(kFloat, device(), {0}, name() + " factors");  // holds i32 bits
  factors_of_areas_ = DerivedBy({}, [this] { MakeFactors(); });
}

bool Pooling::Draws() const { return pool_ == PoolingParameter::STOCHASTIC && phase() == TRAIN; }

void Pooling::ReadWindow() {
  const PoolingParameter parameter = Upgraded(layer_param());
  if (global_) {
    CAFFE_CHECK(
        !parameter.has_kernel_size() && !parameter.has_kernel_h() && !parameter.has_kernel_w(),
        Where(), ": global_pooling must not be given with a kernel size");
  } else {
    const bool apart = parameter.has_kernel_h() || parameter.has_kernel_w();
    CAFFE_CHECK(parameter.has_kernel_size() != apart, Where(),
                ": give either kernel_size, or kernel_h and kernel_w");
    height_.kernel = apart ? parameter.kernel_h() : parameter.kernel_size();
    width_.kernel = apart ? parameter.kernel_w() : parameter.kernel_size();
    CAFFE_CHECK(height_.kernel > 0 && width_.kernel > 0, Where(), ": the kernel of ",
                height_.kernel, "x", width_.kernel, " must be positive");
  }
  const bool stride_apart = parameter.has_stride_h() || parameter.has_stride_w();
  CAFFE_CHECK(!stride_apart ||
                  (!parameter.has_stride() && parameter.has_stride_h() && parameter.has_stride_w()),
              Where(), ": give either stride, or stride_h and stride_w");
  height_.stride = stride_apart ? parameter.stride_h() : parameter.stride();
  width_.stride = stride_apart ? parameter.stride_w() : parameter.stride();
  CAFFE_CHECK(height_.stride > 0 && width_.stride > 0, Where(), ": the stride of ", height_.stride,
              "x", width_.stride, " must be positive");
  CAFFE_CHECK(std::max({height_.kernel, width_.kernel, height_.stride, width_.stride}) <= kLargest,
              Where(), ": the kernel of ", height_.kernel, "x", width_.kernel,
              " and the stride of ", height_.stride, "x", width_.stride,
              " must not be larger than 2^24");
  const bool pad_apart = parameter.has_pad_h() || parameter.has_pad_w();
  CAFFE_CHECK(
      !pad_apart || (!parameter.has_pad() && parameter.has_pad_h() && parameter.has_pad_w()),
      Where(), ": give either pad, or pad_h and pad_w");
  height_.pad = pad_apart ? parameter.pad_h() : parameter.pad();
  width_.pad = pad_apart ? parameter.pad_w() : parameter.pad();
  const bool padded = height_.pad > 0 || width_.pad > 0;
  if (global_) {
    CAFFE_CHECK(!padded && height_.stride == 1 && width_.stride == 1, Where(),
                ": global_pooling needs pad 0 and stride 1");
  } else {
    CAFFE_CHECK(height_.pad < height_.kernel && width_.pad < width_.kernel, Where(),
                ": the pad of ", height_.pad, "x", width_.pad, " must be less than the kernel of ",
                height_.kernel, "x", width_.kernel);
  }
  CAFFE_CHECK(!padded || pool_ != PoolingParameter::STOCHASTIC, Where(),
              ": STOCHASTIC does not support padding");
}

int64_t Pooling::OutputExtent(const Axis& axis) const {
  const int64_t room = axis.input + 2 * axis.pad - axis.kernel;
  // If the extent is rounded up, the last window may end less than a stride outside; it is cut.
  CAFFE_CHECK(room >= 0 || (round_up_ && -room < axis.stride), Where(), ": a window of ",
              axis.kernel, " is larger than the input of ", axis.input, " padded by ", axis.pad,
              "; with stride ", axis.stride, ", rounded ", round_up_ ? "up" : "down",
              ", there is no output");
  int64_t output = 1;
  if (room > 0) output += (room + (round_up_ ? axis.stride - 1 : 0)) / axis.stride;
  const bool padded = height_.pad > 0 || width_.pad > 0;
  if (padded && (output - 1) * axis.stride >= axis.input + axis.pad) --output;
  return output;
}

void Pooling::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs a bottom of 4 axes, not of shape ",
              bottom[0]->shape_string());
  height_.input = bottom[0]->shape(2);
  width_.input = bottom[0]->shape(3);
  CAFFE_CHECK(height_.input > 0 && width_.input > 0, Where(), ": the image of shape ",
              bottom[0]->shape_string(), " is empty");
  CAFFE_CHECK(height_.input * width_.input <= kLargest, Where(), ": images of more than ",
              "2^24 elements are not supported; this one has shape ", bottom[0]->shape_string());
  if (global_) {
    height_.kernel = height_.input;
    width_.kernel = width_.input;
  }
  height_.output = OutputExtent(height_);
  width_.output = OutputExtent(width_);
  top[0]->Reshape({bottom[0]->shape(0), bottom[0]->shape(1), height_.output, width_.output});
  Mask(top).ReshapeLike(*top[0]);
  MakeOperation(bottom[0]->count(0, 2));
}

PoolDescriptor Pooling::Descriptor(int64_t planes) const {
  using Method = PoolDescriptor::Method;
  PoolDescriptor d;
  d.method = pool_ == PoolingParameter::MAX   ? Method::kMax
             : pool_ == PoolingParameter::AVE ? Method::kAverage
             : phase() == TRAIN               ? Method::kDraw
                                              : Method::kExpect;
  d.types = types();
  d.planes = planes;
  d.height = height_;
  d.width = width_;
  d.fixed_window = !global_;
  return d;
}

std::unique_ptr<PoolOp> Pooling::MakeOp(const PoolDescriptor& descriptor) const {
  try {
    return Multiplexer::Pooling(device(), descriptor);
  } catch (...) {
    RethrowIn(Where());
  }
}

void Pooling::MakeOperation(int64_t planes) {
  const PoolDescriptor d = Descriptor(planes);
  if (operation_ && operation_->descriptor() == d) return;
  operation_ = MakeOp(d);
  workspace().Need(operation_->workspace_bytes());
}

void Pooling::PrepareParameters() {
  if (!factors_) return;
  const double key[] = {BottomRange(0).scale, TopRange(0).scale,
                        static_cast<double>(operation_->descriptor().largest_area())};
  factors_of_areas_.SetKey({reinterpret_cast<const char*>(key), sizeof(key)});
  factors_of_areas_.Refresh();
}

void Pooling::MakeFactors() {
  const double rescale = BottomRange(0).scale / TopRange(0).scale;
  const int64_t areas = operation_->descriptor().largest_area();
  std::vector<int32_t> factors(2 * areas);
  for (int64_t i = 0; i < areas; ++i) {
    const Requant factor = Requant::FromReal(rescale / static_cast<double>(i + 1));
    factors[i] = factor.multiplier;
    factors[areas + i] = factor.shift;
  }
  factors_->Reshape({2 * areas});
  std::memcpy(factors_->mutable_host_data(), factors.data(), factors.size() * sizeof(int32_t));
  factors_->device_data();  // uploaded now, not in the forward
}

class Pooling::OwnWork final : public LayerWork {
 public:
  OwnWork(Pooling* layer, const BlobVec& bottom, const BlobVec& top)
      : LayerWork(layer, bottom, top), layer_(layer) {}
  const char* library() const override { return layer_->operation_->library(); }
  int64_t workspace_bytes() const override { return layer_->operation_->workspace_bytes(); }

 private:
  const Pooling* layer_;
};

// Images whose channels are neighbours.
class Pooling::ChannelsLastWork final : public Work {
 public:
  ChannelsLastWork(Pooling* layer, std::unique_ptr<PoolOp> op, std::vector<bool> gradients,
                   BlobBase* bottom, BlobBase* top)
      : layer_(layer),
        op_(std::move(op)),
        gradients_(std::move(gradients)),
        bottom_(bottom),
        top_(top) {}
  const char* library() const override { return op_->library(); }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  void Prepare() override { layer_->PrepareParameters(); }
  void Run(DevicePtr workspace) override {
    PoolArguments arguments;
    QuantArguments quant;
    if (layer_->factors_) {
      quant = layer_->Factors();
      arguments.quant = &quant;
    }
    arguments.x = bottom_->device_data();
    arguments.y = top_->mutable_device_data();
    arguments.workspace = workspace;
    if (op_->descriptor().has_mask()) arguments.mask = layer_->mask_->mutable_device_data();
    op_->Forward(arguments);
  }
  void Backward(DevicePtr workspace) override {
    if (gradients_.empty()) return Work::Backward(workspace);
    if (!gradients_[0]) return;
    PoolArguments arguments;
    arguments.y_diff = top_->device_diff();
    if (op_->descriptor().has_mask()) arguments.mask = layer_->mask_->device_data();
    arguments.x_diff = bottom_->mutable_device_diff();
    arguments.workspace = workspace;
    op_->Backward(arguments);
  }

 private:
  Pooling* layer_;
  std::unique_ptr<PoolOp> op_;
  const std::vector<bool> gradients_;
  BlobBase *bottom_, *top_;
};

std::unique_ptr<Work> Pooling::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                        const BlobVec& top) {
  if (!request.empty()) return LayerBase::MakeWork(request, bottom, top);
  if (request.layouts.y == Layout::kNHWC) {
    PoolDescriptor d = Descriptor(bottom[0]->count(0, 2));
    d.layout = Layout::kNHWC;
    d.channels = bottom[0]->shape(1);
    d.y_pitch = request.layouts.y_pitch;
    d.trains = !request.gradients.empty();
    return std::make_unique<ChannelsLastWork>(this, MakeOp(d), request.gradients, bottom[0],
                                              top[0]);
  }
  return std::make_unique<OwnWork>(this, bottom, top);
}

void Pooling::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (Draws()) counter_.Advance();
  Run(bottom, top);
}

QuantArguments Pooling::Factors() const {
  QuantArguments quant;
  quant.multiplier = factors_->device_data();
  quant.shift = quant.multiplier + factors_->count() / 2 * static_cast<int64_t>(sizeof(int32_t));
  quant.zero_x = BottomRange(0).zero;
  quant.zero_y = TopRange(0).zero;
  return quant;
}

void Pooling::Run(const BlobVec& bottom, const BlobVec& top) {
  PoolArguments arguments;
  QuantArguments quant;
  arguments.x = bottom[0]->device_data();
  arguments.y = top[0]->mutable_device_data();
  arguments.workspace = workspace().Need(operation_->workspace_bytes());
  if (operation_->descriptor().has_mask()) arguments.mask = Mask(top).mutable_device_data();
  if (factors_) {
    quant = Factors();
    arguments.quant = &quant;
  }
  if (Draws()) {
    arguments.counters = counter_.counters().pointer;
    arguments.seed = context().draw_seed();
  }
  operation_->Forward(arguments);
}

void Pooling::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  CAFFE_CHECK(operation_->descriptor().has_gradient(), Where(),
              ": STOCHASTIC has no gradient in the TEST phase");
  PoolArguments arguments;
  arguments.y_diff = top[0]->device_diff();
  if (operation_->descriptor().has_mask()) arguments.mask = Mask(top).device_data();
  arguments.x_diff = bottom[0]->mutable_device_diff();
  arguments.workspace = workspace().Need(operation_->workspace_bytes());
  operation_->Backward(arguments);
}

LayerArrays Pooling::Arrays(const BlobVec& bottom, const BlobVec& top) {
  if (top.size() > 1 || !operation_->descriptor().has_mask()) return {};
  return {{mask_.get()}, {}};
}

std::vector<uint64_t> Pooling::RunState() const {
  return Draws() ? std::vector<uint64_t>{counter_.Get()} : std::vector<uint64_t>();
}

void Pooling::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  if (Draws()) counter_.Set(static_cast<uint32_t>(values[0]));
}

LayerFacts Pooling::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  // A second top is in C order.
  const bool nhwc = !has_mask_top_ && pool_ != PoolingParameter::STOCHASTIC;
  facts.layouts.nhwc = facts.layouts.parts = phase() == TEST && nhwc;
  facts.layouts.trains = phase() == TRAIN && nhwc && types().compute.is_float();
  if (pool_ == PoolingParameter::MAX) facts.range = LayerFacts::Range::kCarried;
  return facts;
}

// A conversion does not change the order of numbers, so that it may follow a maximum.
CastSide SideOfCasts(const LayerParameter& layer) {
  const PoolingParameter parameter = Upgraded(layer);
  const bool shrinks = parameter.global_pooling() || parameter.stride() > 1 ||
                       parameter.stride_h() > 1 || parameter.stride_w() > 1;
  const bool maximum = parameter.pool() == PoolingParameter::MAX;
  return maximum && shrinks && layer.top_size() == 1 ? CastSide::kAfter : CastSide::kNone;
}

}  // namespace

void RegisterPoolingLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_top = 2;
  traits.float_tops = {1};
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{}, {1}});
  traits.cast_side = &SideOfCasts;
  traits.per_item = Always(true);
  traits.summary = "maximum, mean or a random value of windows";
  registry.Add<PoolingLayer>("Pooling", traits);
}

}  // namespace caffe
