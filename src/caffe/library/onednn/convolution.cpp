#include "caffe/library/onednn/convolution.hpp"

#include <omp.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/onednn/codes.hpp"
#include "caffe/library/onednn/conversion.hpp"
#include "caffe/library/onednn/invalid_flags.hpp"
#include "caffe/library/onednn/problem.hpp"
#include "caffe/library/onednn/threads.hpp"
#include "caffe/library/onednn/wide_points.hpp"

namespace caffe::onednn {
namespace {

// From this many elements on, gradients of weights are added in parallel.
constexpr int64_t kParallelSum = 1 << 16;

// Weights in the form of one pass, as a part of the prepared weights.
struct WeightForm {
  Room room;
  std::unique_ptr<Call> reorder;
};

class OneDnnConvOp final : public ConvOp {
 public:
  OneDnnConvOp(Device* device, const ConvDescriptor& d, bool widens)
      : ConvOp(d),
        device_(device),
        widens_(widens),
        threads_(omp_in_parallel() ? 1 : omp_get_max_threads()),
        positions_(d.geometry.output_count()),
        problem_(d, widens ? Element::f32 : Inner(d.in)),
        codes_{d.batch * d.out_channels * positions_, d.out_channels},
        bias_(device, d.in, d.master(), BiasOuter(d), d.out_channels, BiasInner(d), std::nullopt,
              d.backward_weights) {
    const auto lock = Making();
    try {
      Make();
    } catch (const dnnl::error& error) {
      CAFFE_THROW("oneDNN: ", error.what(), " (status ", error.status, ")");
    }
  }
  const char* library() const override { return widens_ ? kWideRow : kRow; }
  int64_t workspace_bytes() const override { return workspace_; }
  int64_t prepared_bytes() const override { return prepared_.bytes(); }

  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const void* plain = At(weights);
    std::vector<float> wide;
    if (descriptor_.in != kFloat && problem_.element == Element::f32) {
      wide = Widened(weights, descriptor_.in, descriptor_.weight_count());
      plain = wide.data();
    }
    for (const WeightForm* form : {&forward_weights_, &data_weights_}) {
      if (!form->reorder) continue;
      form->reorder->Run({{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, At(form->room.In(prepared))}});
    }
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    const ConvDescriptor& d = descriptor_;
    CheckMemory(a.prepared, a.workspace);
    const Threads threads(threads_, d);
    const DevicePtr workspace = a.workspace;
    const void* x = x_->In(a.x, workspace);
    if (problem_.pads_copy) {
      void* const padded = At(padded_.In(workspace));
      CopyPadded(problem_, x, padded);
      x = padded;
    }
    const DevicePtr y = dense_y_ ? dense_y_.In(workspace) : a.y;
    device_->CountLibraryCall();
    if (ConvolveWithReLU(a, x, y)) return;
    Convolve(PlainForward(), a, x, y);
    if (clips_codes_) codes_.Clip(At(y), At(a.y), d.y_pitch, highest_code_);
    if (pass_) Finish(a, y);
  }

  void DoBackwardData(const ConvGradients& g) override {
    CheckMemory(g.prepared, g.workspace);
    const Threads threads(threads_, descriptor_);
    const DevicePtr workspace = g.workspace;
    const void* y_diff = data_y_diff_->In(g.y_diff, workspace);
    data_->Run({{DNNL_ARG_DIFF_DST, y_diff},
                {DNNL_ARG_WEIGHTS, At(data_weights_.room.In(g.prepared))},
                {DNNL_ARG_DIFF_SRC, At(data_x_diff_->Target(g.x_diff, workspace))},
                {DNNL_ARG_SCRATCHPAD, Scratch(data_scratch_, workspace)}});
    data_x_diff_->Out(g.x_diff, workspace);
    device_->CountLibraryCall();
  }

  void DoBackwardWeights(const ConvGradients& g) override {
    CheckWorkspace(g.workspace);
    const Threads threads(threads_, descriptor_);
    const DevicePtr workspace = g.workspace;
    const void* x = weights_x_->In(g.x, workspace);
    const void* y_diff = weights_y_diff_->In(g.y_diff, workspace);
    const void* sums = At(sums_.In(workspace));
    weights_->Run({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DIFF_DST, y_diff},
                   {DNNL_ARG_DIFF_WEIGHTS, sums},
                   {DNNL_ARG_SCRATCHPAD, Scratch(weights_scratch_, workspace)}});
    if (sums_to_plain_) {
      const void* plain = At(plain_sums_.In(workspace));
      sums_to_plain_->Run({{DNNL_ARG_FROM, sums}, {DNNL_ARG_TO, plain}});
      sums = plain;
    }
    const int64_t count = descriptor_.weight_count();
    const auto* source = static_cast<const float*>(sums);
    auto* target = static_cast<float*>(At(g.w_diff));
#pragma omp parallel for schedule(static) if (count >= kParallelSum && !omp_in_parallel())
    for (int64_t i = 0; i < count; ++i) target[i] += source[i];
    device_->CountLibraryCall();
  }

  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  static int64_t BiasInner(const ConvDescriptor& d) {
    return d.y_layout == Layout::kNCHW ? d.geometry.output_count() : 1;
  }
  static int64_t BiasOuter(const ConvDescriptor& d) {
    return d.batch * d.geometry.output_count() / BiasInner(d);
  }
  static const void* Scratch(Room room, DevicePtr workspace) {
    return room ? At(room.In(workspace)) : nullptr;
  }

  std::unique_ptr<Conversion> ConvertX() const {
    return std::make_unique<Conversion>(device_, descriptor_.in, descriptor_.x_layout,
                                        problem_.element, problem_.x_dims);
  }
  std::unique_ptr<Conversion> ConvertY(DataType type, Element inner) const {
    return std::make_unique<Conversion>(device_, type, descriptor_.y_layout, inner,
                                        problem_.y_dims);
  }

  // Everything but the stages that `call` does not compute.
  void Convolve(Call* call, const ConvArguments& a, const void* x, DevicePtr y) {
    const DevicePtr workspace = a.workspace;
    if (adds_to_y_) codes_.Copy(At(a.epilogue.residual), At(y));
    call->Run({{DNNL_ARG_SRC, x},
               {DNNL_ARG_WEIGHTS, At(forward_weights_.room.In(a.prepared))},
               {DNNL_ARG_BIAS, At(a.bias)},
               {DNNL_ARG_DST, At(y_->Target(y, workspace))},
               {DNNL_ARG_SCRATCHPAD, Scratch(forward_scratch_, workspace)}});
    y_->Out(y, workspace);
  }

  // Returns false if a flag of invalid operations is set after it: y may have lost NaN, and is to
  // be computed again. The flag may be that of an earlier operation: from then on flags are cleared
  // before the call. If it is set once more, y is computed without ReLU from then on.
  bool ConvolveWithReLU(const ConvArguments& a, const void* x, DevicePtr y) {
    if (!relu_forward_) return false;
    if (clears_flags_) ClearInvalidFlags();
    Convolve(relu_forward_.get(), a, x, y);
    if (!ClearInvalidFlags()) return true;
    if (clears_flags_) relu_forward_.reset();
    clears_flags_ = true;
    return false;
  }

  Call* PlainForward() {
    if (!forward_) {
      const auto lock = Making();
      try {
        forward_ = MakeCall(*plain_plan_);
      } catch (const dnnl::error& error) {
        throw LibraryRefusal(Concat("oneDNN: ", error.what()), true);
      }
    }
    return forward_.get();
  }

  static std::unique_ptr<Call> MakeCall(const ForwardPlan& plan) {
    return std::make_unique<Call>(
        dnnl::convolution_forward(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_SRC, plan.src_desc()},
                                             {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                                             {DNNL_ARG_BIAS, plan.bias_desc()},
                                             {DNNL_ARG_DST, plan.dst_desc()},
                                             {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
  }

  void Make() {
    const ConvDescriptor& d = descriptor_;
    const Plans plans = PlanAll(d, problem_);
    if (plans.forward) MakeForward(*plans.forward);
    if (plans.data) MakeData(*plans.data);
    if (plans.weights) MakeWeights(*plans.weights);
  }

  void MakeForward(const ForwardPlan& plan) {
    const ConvDescriptor& d = descriptor_;
    const Element stored = Stored(d, problem_.element);
    WorkspaceLayout layout;
    x_ = ConvertX();
    x_->PlanIn(&layout);
    y_ = ConvertY(d.out, stored);
    y_->PlanOut(&layout, false);
    if (problem_.pads_copy) padded_ = Add(&layout, Bytes(plan.src_desc()));
    // The fast convolutions write whole arrays only; the pass over the result writes the part.
    const bool part = d.y_pitch > 0;
    if (part && !y_->narrow()) dense_y_ = Add(&layout, Bytes(plan.dst_desc()));
    adds_to_y_ = AddsToY(d, problem_.element);
    Epilogue epilogue = Rest(d, problem_.element);
    const EpilogueStages stages(epilogue);
    clips_codes_ = !stages.none() && ClipsCodes(stages);
    if (clips_codes_) {
      highest_code_ = Code(stages.b()).first;
    } else if (!stages.none() || y_->narrow() || part) {
      const bool columns = d.y_layout == Layout::kNHWC;
      if (columns && epilogue.slopes != Epilogue::Bias::kNone) {
        epilogue.slopes = Epilogue::Bias::kPerColumn;
      }
      pass_ = std::make_unique<EpiloguePass>(device_, stored == Element::f32 ? kFloat : d.out,
                                             d.out, epilogue);
    }
    Desc scratch = plan.scratchpad_desc();
    if (const auto with_relu = PlanReLU(d, problem_, plan)) {
      relu_forward_ = MakeCall(*with_relu);
      plain_plan_ = plan;
      if (Bytes(with_relu->scratchpad_desc()) > Bytes(scratch)) {
        scratch = with_relu->scratchpad_desc();
      }
    } else {
      forward_ = MakeCall(plan);
    }
    forward_scratch_ = AddScratch(&layout, scratch);
    AddForm(plan.weights_desc(), &forward_weights_);
    workspace_ = std::max(workspace_, layout.bytes());
  }

  void MakeData(const DataPlan& plan) {
    WorkspaceLayout layout;
    data_y_diff_ = ConvertY(descriptor_.in, problem_.element);
    data_y_diff_->PlanIn(&layout);
    data_x_diff_ = ConvertX();
    data_x_diff_->PlanOut(&layout, true);
    data_scratch_ = AddScratch(&layout, plan.scratchpad_desc());
    data_ = std::make_unique<Call>(
        dnnl::convolution_backward_data(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_DIFF_DST, plan.diff_dst_desc()},
                                             {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                                             {DNNL_ARG_DIFF_SRC, plan.diff_src_desc()},
                                             {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
    AddForm(plan.weights_desc(), &data_weights_);
    workspace_ = std::max(workspace_, layout.bytes());
  }

  void MakeWeights(const WeightsPlan& plan) {
    WorkspaceLayout layout;
    weights_x_ = ConvertX();
    weights_x_->PlanIn(&layout);
    weights_y_diff_ = ConvertY(descriptor_.in, problem_.element);
    weights_y_diff_->PlanIn(&layout);
    weights_scratch_ = AddScratch(&layout, plan.scratchpad_desc());
    const Desc sums = plan.diff_weights_desc();
    sums_ = Add(&layout, Bytes(sums));
    const Desc plain = problem_.Weights(Element::f32);
    if (sums != plain) {
      plain_sums_ = Add(&layout, Bytes(plain));
      sums_to_plain_ = MakeReorder(sums, plain);
    }
    weights_ = std::make_unique<Call>(
        dnnl::convolution_backward_weights(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_SRC, plan.src_desc()},
                                             {DNNL_ARG_DIFF_DST, plan.diff_dst_desc()},
                                             {DNNL_ARG_DIFF_WEIGHTS, sums},
                                             {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
    workspace_ = std::max({workspace_, layout.bytes(), bias_.workspace_bytes()});
  }

  static Room AddScratch(WorkspaceLayout* layout, const Desc& desc) {
    return Bytes(desc) > 0 ? Add(layout, Bytes(desc)) : Room{};
  }

  void AddForm(const Desc& desc, WeightForm* form) {
    form->room = Add(&prepared_, Bytes(desc));
    form->reorder = MakeReorder(problem_.Weights(problem_.element), desc);
  }

  // Bounds that bfloat16 has exactly, the lower one 0: they are applied to codes.
  bool ClipsCodes(const EpilogueStages& stages) const {
    if (Stored(descriptor_, problem_.element) != Element::bf16 || stages.a() != 0 || stages.b() < 0)
      return false;
    return Code(stages.b()).second;
  }
  // The stages, over rows of channels or of positions, in the layout of y. `y` is what oneDNN wrote
  // if it is not narrowed.
  void Finish(const ConvArguments& a, DevicePtr y) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t positions = positions_, channels = d.out_channels;
    const DevicePtr sums = y_->Sums(y, a.workspace);
    if (d.y_layout == Layout::kNHWC) {
      const int64_t rows = d.batch * positions;
      pass_->Run({rows, channels, rows, 0, channels, 0, d.y_row()}, sums, a.y, {}, a.epilogue);
    } else {
      const int64_t image = channels * positions;
      pass_->Run({d.batch * channels, positions, channels, image, positions, image, positions},
                 sums, a.y, {}, a.epilogue);
    }
  }

  Device* device_;
  const bool widens_;
  const int threads_;
  const int64_t positions_;  // of an image of y; counting them allocates
  const Problem problem_;
  const Codes codes_;  // of y
  BiasOp bias_;
  int64_t workspace_ = 0;
  WorkspaceLayout prepared_;
  WeightForm forward_weights_, data_weights_;
  std::unique_ptr<Conversion> x_, y_, data_y_diff_, data_x_diff_, weights_x_, weights_y_diff_;
  // Null until PlainForward, if there is a pass with ReLU.
  std::unique_ptr<Call> forward_;
  std::optional<ForwardPlan> plain_plan_;  // of forward_, if there is a pass with ReLU
  std::unique_ptr<Call> relu_forward_;     // null: forward_ and what follows it
  bool clears_flags_ = false;
  std::unique_ptr<Call> data_, weights_, sums_to_plain_;
  std::unique_ptr<EpiloguePass> pass_;
  bool adds_to_y_ = false, clips_codes_ = false;
  uint16_t highest_code_ = 0;
  Room dense_y_;  // the result before it is copied into a larger array
  Room padded_, forward_scratch_, data_scratch_, weights_scratch_, sums_, plain_sums_;
};

}  // namespace

std::unique_ptr<ConvOp> MakeConvolution(Device* device, const ConvDescriptor& descriptor,
                                        bool widens) {
  if (IsPoints(descriptor) && (widens || Inner(descriptor.in) == Element::f32)) {
    const auto lock = Making();
    try {
      return MakeWidePoints(device, descriptor, widens ? kWideRow : kRow);
    } catch (const dnnl::error& error) {
      CAFFE_THROW("oneDNN: ", error.what(), " (status ", error.status, ")");
    }
  }
  return std::make_unique<OneDnnConvOp>(device, descriptor, widens);
}

}  // namespace caffe::onednn
