#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/bounded_spin.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/row_steps.hpp"
#include "caffe/library/onednn/onednn_api.hpp"
#include "caffe/library/onednn/onednn_call.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

using onednn::Call;
using onednn::Engine;
using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Element = dnnl::memory::data_type;

// From this many elements on, gradients of weights are added in parallel.
constexpr int64_t kParallelSum = 1 << 16;

void* At(DevicePtr pointer) { return pointer ? pointer.address() : nullptr; }

// oneDNN computes bfloat16 by itself if the processor multiplies it; other half kinds are widened.
bool MultipliesBfloat16() {
#if defined(__x86_64__)
  static const bool has = HostLevel() == "v4" && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

// The instruction level to which oneDNN was limited at its first use; it cannot change later.
const std::string& Level() {
  static const std::string level = [] {
    if (HostLevel() == "v2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
    if (HostLevel() == "v3") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return HostLevel();
  }();
  return level;
}

Element Inner(DataType type) {
  return type == kBfloat16 && MultipliesBfloat16() ? Element::bf16 : Element::f32;
}

Tag Plain(Layout layout, int axes) {
  if (layout == Layout::kNCHW) return axes == 1 ? Tag::ncw : axes == 2 ? Tag::nchw : Tag::ncdhw;
  return axes == 1 ? Tag::nwc : axes == 2 ? Tag::nhwc : Tag::ndhwc;
}

Dims With(int64_t first, int64_t second, const Shape& axes) {
  Dims dims{first, second};
  dims.insert(dims.end(), axes.begin(), axes.end());
  return dims;
}

// oneDNN 2.6 multiplies windows of one element on the matrix units of processors with AMX, but not
// if x is padded: a padded copy of x is made instead.
bool PadsCopy(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  if (Inner(d.in) != Element::bf16 || d.backward_data || d.backward_weights || d.group > 1) {
    return false;
  }
  const auto all = [](const Shape& extents, int64_t value) {
    return std::all_of(extents.begin(), extents.end(), [&](int64_t e) { return e == value; });
  };
  return g.axes() == 2 && all(g.kernel, 1) && all(g.stride, 1) && !all(g.pad, 0);
}

// A descriptor in the terms of oneDNN. It computes with arrays in kNHWC.
struct Problem {
  explicit Problem(const ConvDescriptor& d)
      : element(Inner(d.in)),
        pads_copy(PadsCopy(d)),
        x_dims(With(d.batch, d.in_channels, d.geometry.input)),
        y_dims(With(d.batch, d.out_channels, d.geometry.output())) {
    const ConvGeometry& g = d.geometry;
    const int axes = g.axes();
    const int64_t in = d.in_channels / d.group, out = d.out_channels / d.group;
    weight_dims = With(out, in, g.kernel);
    if (d.group > 1) weight_dims.insert(weight_dims.begin(), d.group);
    const Shape output = g.output();
    for (int i = 0; i < axes; ++i) {
      stride.push_back(g.stride[i]);
      dilation.push_back(g.dilation[i] - 1);
      left.push_back(g.pad[i]);
      const int64_t reach = (output[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1;
      right.push_back(reach - g.input[i] - g.pad[i]);
    }
    padded_dims = x_dims;
    if (!pads_copy) return;
    for (int i = 0; i < axes; ++i) padded_dims[i + 2] += left[i] + right[i];
  }
  Desc Y(Element type, Layout layout) const { return Desc(y_dims, type, Plain(layout, axes())); }
  // In C order.
  Desc Weights(Element type) const {
    if (static_cast<int>(weight_dims.size()) == axes() + 2) {
      return Desc(weight_dims, type, axes() == 1 ? Tag::oiw : axes() == 2 ? Tag::oihw : Tag::oidhw);
    }
    return Desc(weight_dims, type,
                axes() == 1   ? Tag::goiw
                : axes() == 2 ? Tag::goihw
                              : Tag::goidhw);
  }
  Desc AnyWeights(Element type) const { return Desc(weight_dims, type, Tag::any); }
  int axes() const { return static_cast<int>(stride.size()); }

  onednn::Description Describe(Element y_type, Element weight_type, bool bias) const {
    onednn::Description c;
    c.x = Desc(padded_dims, element, Plain(Layout::kNHWC, axes()));
    c.y = Y(y_type, Layout::kNHWC);
    c.weights = AnyWeights(weight_type);
    c.has_bias = bias;
    if (bias) c.bias = Desc({y_dims[1]}, Element::f32, Tag::x);
    c.stride = stride;
    c.dilation = dilation;
    c.pad_left = pads_copy ? Dims(left.size(), 0) : left;
    c.pad_right = pads_copy ? Dims(right.size(), 0) : right;
    return c;
  }

  const Element element;  // of products
  const bool pads_copy;
  Dims x_dims, padded_dims, y_dims, weight_dims, stride, dilation, left, right;
};

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

bool StoresBfloat16(const ConvDescriptor& d) {
  return d.out == kBfloat16 && Inner(d.in) == Element::bf16;
}

// The residual is copied to y before the convolution, which adds its sums to y and rounds once. This
// reads and writes less memory than a pass over float sums. In float it does not. oneDNN contracts
// the product with another coefficient.
bool AddsToY(const ConvDescriptor& d) {
  const EpilogueStages stages(d.epilogue);
  return StoresBfloat16(d) && d.y_layout == Layout::kNHWC && d.y_pitch == 0 &&
         stages.sum() == EpilogueStages::Sum::kBefore && d.epilogue.sum()->coefficient == 1 &&
         stages.formula() == ActivationFormula::kBounds;
}

// The stages that follow oneDNN's convolution.
Epilogue Rest(const ConvDescriptor& d) {
  Epilogue rest = d.epilogue;
  rest.bias = Epilogue::Bias::kNone;
  if (AddsToY(d)) {
    std::erase_if(rest.stages, [](const Epilogue::Stage& stage) {
      return std::holds_alternative<ResidualSum>(stage);
    });
  }
  return rest;
}

// What oneDNN's convolution writes: the result, or float sums for a pass that rounds.
Element Stored(const ConvDescriptor& d) {
  // Rounding does not change the order of numbers: bounds are exact after it.
  return StoresBfloat16(d) && EpilogueStages(Rest(d)).bounds() ? Element::bf16 : Element::f32;
}

struct Plans {
  std::optional<onednn::ForwardPlan> forward;
  std::optional<onednn::DataPlan> data;
  std::optional<onednn::WeightsPlan> weights;
};

// Throws dnnl::error.
Plans PlanAll(const ConvDescriptor& d, const Problem& p) {
  const bool bias = d.epilogue.bias != Epilogue::Bias::kNone;
  const auto attributes = Attributes();
  Plans plans;
  if (d.forward) {
    auto summing = attributes;
    if (AddsToY(d)) {
      dnnl::post_ops sum;
      sum.append_sum();
      summing.set_post_ops(sum);
    }
    plans.forward =
        onednn::PlanForward(Engine(), p.Describe(Stored(d), p.element, bias), false, summing);
  }
  if (!d.backward_data && !d.backward_weights) return plans;
  const auto hint =
      onednn::PlanForward(Engine(), p.Describe(p.element, p.element, false), true, attributes);
  if (d.backward_data) {
    plans.data = onednn::PlanBackwardData(Engine(), p.Describe(p.element, p.element, false), hint,
                                          attributes);
  }
  if (d.backward_weights) {
    plans.weights = onednn::PlanBackwardWeights(
        Engine(), p.Describe(p.element, Element::f32, false), hint, attributes);
  }
  return plans;
}

// Reference code, and columns with a product, which others do better.
bool Slow(const char* implementation) {
  const std::string_view name = implementation;
  return name.starts_with("ref") || name.find("gemm:") != name.npos;
}

// An array in the workspace; -1: none.
struct Room {
  int64_t offset = -1;
  explicit operator bool() const { return offset >= 0; }
  DevicePtr In(DevicePtr workspace) const { return workspace + offset; }
};

Room Add(WorkspaceLayout* layout, int64_t bytes) { return {layout->Add(bytes)}; }

int64_t Bytes(const Desc& desc) { return static_cast<int64_t>(desc.get_size()); }

// Conversions of an array between the caller's type and layout and oneDNN's.
class Conversion {
 public:
  // `inner` is the type of oneDNN's array.
  Conversion(Device* device, DataType type, Layout layout, Element inner, const Dims& dims)
      : count_(1),
        images_(dims[0]),
        channels_(dims[1]),
        wide_(inner == Element::f32),
        narrow_(type != kFloat && inner == Element::f32) {
    for (const int64_t extent : dims) count_ *= extent;
    const int axes = static_cast<int>(dims.size()) - 2;
    plain_ = Desc(dims, inner, Plain(layout, axes));
    inner_ = Desc(dims, inner, Plain(Layout::kNHWC, axes));
    reorders_ = !(layout == Layout::kNHWC) && dims[1] > 1 && count_ > dims[0] * dims[1];
    if (narrow_) {
      const auto program = ProgramBuilder(device, "convert")
                               .Types({kFloat, type, kFloat})
                               .Body("blas/convert")
                               .Build();
      widen_ = program->CreateKernel("widen_rows");
      narrow_kernel_ = program->CreateKernel("narrow_rows");
    }
  }
  bool none() const { return !narrow_ && !reorders_; }
  bool reorders() const { return reorders_; }
  bool narrow() const { return narrow_; }
  const Desc& inner() const { return inner_; }

  // Makes the rooms and the calls of conversions to oneDNN's array.
  void PlanIn(WorkspaceLayout* layout) {
    if (narrow_) wide_in_ = Add(layout, Bytes(plain_));
    if (!reorders_) return;
    ordered_in_ = Add(layout, Bytes(inner_));
    if (!in_ && !interleaves()) in_ = MakeReorder(plain_, inner_);
  }
  const void* In(DevicePtr array, DevicePtr workspace) {
    if (narrow_) {
      const DevicePtr wide = wide_in_.In(workspace);
      Launch(widen_.get(), array, wide);
      array = wide;
    }
    if (!reorders_) return At(array);
    const DevicePtr ordered = ordered_in_.In(workspace);
    if (interleaves()) {
      Interleave(static_cast<const char*>(At(array)), static_cast<char*>(At(ordered)));
    } else {
      in_->Run({{DNNL_ARG_FROM, At(array)}, {DNNL_ARG_TO, At(ordered)}});
    }
    return At(ordered);
  }

  // The same from oneDNN's array. `narrows`: Out also narrows; otherwise a pass does so.
  void PlanOut(WorkspaceLayout* layout, bool narrows) {
    narrows_ = narrows && narrow_;
    if (reorders_) {
      ordered_out_ = Add(layout, Bytes(inner_));
      if (!out_) out_ = MakeReorder(inner_, plain_);
    }
    if (narrow_) wide_out_ = Add(layout, Bytes(plain_));
  }
  // Where oneDNN stores.
  DevicePtr Target(DevicePtr array, DevicePtr workspace) const {
    return ordered_out_ ? ordered_out_.In(workspace) : Sums(array, workspace);
  }
  // The result of Out if it does not narrow.
  DevicePtr Sums(DevicePtr array, DevicePtr workspace) const {
    return wide_out_ ? wide_out_.In(workspace) : array;
  }
  void Out(DevicePtr array, DevicePtr workspace) {
    const DevicePtr sums = Sums(array, workspace);
    if (reorders_) {
      out_->Run({{DNNL_ARG_FROM, At(ordered_out_.In(workspace))}, {DNNL_ARG_TO, At(sums)}});
    }
    if (narrows_) Launch(narrow_kernel_.get(), sums, array);
  }

  static std::unique_ptr<Call> MakeReorder(const Desc& from, const Desc& to) {
    const dnnl::reorder::primitive_desc plan(Engine(), from, Engine(), to, Attributes());
    // Reorders between plain float kinds need no scratchpad.
    return std::make_unique<Call>(
        dnnl::reorder(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

 private:
  void Launch(Kernel* kernel, DevicePtr from, DevicePtr to) const {
    constexpr int64_t kRow = 1 << 12;
    const int64_t rows = count_ / kRow, left = count_ - rows * kRow;
    const auto launch = [&](int64_t count, int64_t columns, DevicePtr a, DevicePtr b) {
      if (count > 0 && columns > 0) {
        kernel->Launch(LaunchRange(count, columns), {count, columns, columns, columns, a, b});
      }
    };
    launch(rows, kRow, from, to);
    const int64_t done = rows * kRow;
    const bool widens = kernel == widen_.get();
    launch(1, left, from + done * (widens ? 2 : 4), to + done * (widens ? 4 : 2));
  }

  // Images of few channels: oneDNN's reorder took 0.1 ms for 3 x 224 x 224 in bfloat16.
  bool interleaves() const { return channels_ <= kMostPlanes; }
  void Interleave(const char* x, char* y) const {
    constexpr int64_t kParallelPositions = 1 << 13, kBlock = 1 << 8;
    const RowSteps& steps = HostRowSteps();
    auto* const interleave = wide_ ? steps.interleave_32 : steps.interleave_16;
    const int64_t positions = count_ / images_ / channels_;
    const int64_t image = channels_ * positions * (wide_ ? 4 : 2);
#pragma omp parallel if (images_ * positions >= kParallelPositions && !omp_in_parallel())
    {
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const int64_t blocks = (positions + kBlock - 1) / kBlock;
      const long begin = blocks * thread / threads * kBlock;
      const long end = std::min(positions, blocks * (thread + 1) / threads * kBlock);
      for (int64_t i = 0; i < images_; ++i) {
        interleave(x + i * image, y + i * image, static_cast<int>(channels_), positions, begin,
                   end);
      }
    }
  }

  int64_t count_, images_, channels_;
  bool wide_, narrow_, reorders_, narrows_ = false;
  Desc plain_, inner_;
  Room wide_in_, ordered_in_, ordered_out_, wide_out_;
  std::unique_ptr<Kernel> widen_, narrow_kernel_;
  std::unique_ptr<Call> in_, out_;
};

// Weights in the form of one pass, as a part of the prepared weights.
struct WeightForm {
  Room room;
  std::unique_ptr<Call> reorder;
};

class OneDnnConvOp final : public ConvOp {
 public:
  OneDnnConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        threads_(omp_in_parallel() ? 1 : omp_get_max_threads()),
        positions_(d.geometry.output_count()),
        problem_(d),
        bias_(device, d.in, d.master(), BiasOuter(d), d.out_channels, BiasInner(d), std::nullopt,
              d.backward_weights) {
    const auto lock = onednn::Making();
    try {
      Make();
    } catch (const dnnl::error& error) {
      CAFFE_THROW("oneDNN: ", error.what(), " (status ", error.status, ")");
    }
  }
  const char* library() const override { return "onednn"; }
  int64_t workspace_bytes() const override { return workspace_; }
  int64_t prepared_bytes() const override { return prepared_.bytes(); }

  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const void* plain = At(weights);
    std::vector<float> wide;
    if (descriptor_.in != kFloat && problem_.element == Element::f32) {
      const size_t count = descriptor_.weight_count();
      wide.resize(count);
      ConvertElements(descriptor_.in, plain, kFloat, wide.data(), count);
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
    if (problem_.pads_copy) x = Pad(x, workspace);
    const DevicePtr y = dense_y_ ? dense_y_.In(workspace) : a.y;
    if (adds_to_y_) CopyCodes(At(a.epilogue.residual), At(y));
    const DevicePtr target = y_->Target(y, workspace);
    forward_->Run({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_WEIGHTS, At(forward_weights_.room.In(a.prepared))},
                   {DNNL_ARG_BIAS, At(a.bias)},
                   {DNNL_ARG_DST, At(target)},
                   {DNNL_ARG_SCRATCHPAD, Scratch(forward_scratch_, workspace)}});
    y_->Out(y, workspace);
    if (clips_codes_) ClipCodes(y, a.y);
    if (pass_) Finish(a, y);
    device_->CountLibraryCall();
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
  // Primitives are made for a number of threads. If the caller's is another one, it is changed
  // for the call; inside a parallel region, where there is only one thread, that is impossible.
  class Threads {
   public:
    Threads(int wanted, const ConvDescriptor& d) {
      AdaptSpinning();
      if (omp_in_parallel()) {
        if (wanted == 1) return;
        throw LibraryRefusal(Concat(d.name(), " was made for ", wanted,
                                    " threads and is called in a parallel region"));
      }
      const int now = omp_get_max_threads();
      if (now == wanted) return;
      restore_ = now;
      omp_set_num_threads(wanted);
    }
    ~Threads() {
      if (restore_ > 0) omp_set_num_threads(restore_);
    }
    Threads(const Threads&) = delete;

   private:
    int restore_ = 0;
  };

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

  void Make() {
    const ConvDescriptor& d = descriptor_;
    const Plans plans = PlanAll(d, problem_);
    if (plans.forward) MakeForward(*plans.forward);
    if (plans.data) MakeData(*plans.data);
    if (plans.weights) MakeWeights(*plans.weights);
  }

  void MakeForward(const onednn::ForwardPlan& plan) {
    const ConvDescriptor& d = descriptor_;
    const Element stored = Stored(d);
    WorkspaceLayout layout;
    x_ = ConvertX();
    x_->PlanIn(&layout);
    y_ = ConvertY(d.out, stored);
    y_->PlanOut(&layout, false);
    if (problem_.pads_copy) padded_ = Add(&layout, Bytes(plan.src_desc()));
    // The fast convolutions write whole arrays only; the pass over the result writes the part.
    const bool part = d.y_pitch > 0;
    if (part && !y_->narrow()) dense_y_ = Add(&layout, Bytes(plan.dst_desc()));
    adds_to_y_ = AddsToY(d);
    Epilogue epilogue = Rest(d);
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
    forward_scratch_ = AddScratch(&layout, plan.scratchpad_desc());
    forward_ = std::make_unique<Call>(
        dnnl::convolution_forward(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_SRC, plan.src_desc()},
                                             {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                                             {DNNL_ARG_BIAS, plan.bias_desc()},
                                             {DNNL_ARG_DST, plan.dst_desc()},
                                             {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
    AddForm(plan.weights_desc(), &forward_weights_);
    workspace_ = std::max(workspace_, layout.bytes());
  }

  void MakeData(const onednn::DataPlan& plan) {
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

  void MakeWeights(const onednn::WeightsPlan& plan) {
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
      sums_to_plain_ = Conversion::MakeReorder(sums, plain);
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
    form->reorder = Conversion::MakeReorder(problem_.Weights(problem_.element), desc);
  }

  // Bounds that bfloat16 has exactly, the lower one 0: they are applied to codes.
  bool ClipsCodes(const EpilogueStages& stages) const {
    if (Stored(descriptor_) != Element::bf16 || stages.a() != 0 || stages.b() < 0) return false;
    return Code(stages.b()).second;
  }
  // The code of a number in bfloat16, and whether it is exact.
  static std::pair<uint16_t, bool> Code(double value) {
    uint16_t code;
    double back;
    ConvertElements(kDouble, &value, kBfloat16, &code, 1);
    ConvertElements(kBfloat16, &code, kDouble, &back, 1);
    return {code, back == value};
  }

  static constexpr int64_t kCodeBlock = 1 << 10;

  // `x` is what oneDNN wrote: y, or the rows of channels that are copied into a part.
  void ClipCodes(DevicePtr x, DevicePtr y) const {
    auto* const clip = HostRowSteps().clip_bfloat16;
    const auto* from = static_cast<const uint16_t*>(At(x));
    auto* const codes = static_cast<uint16_t*>(At(y));
    const int64_t pitch = descriptor_.y_pitch, row = descriptor_.out_channels;
    if (pitch == 0) {
      return ForRangesOfY(kCodeBlock, [&](int64_t begin, int64_t end) {
        clip(codes + begin, static_cast<long>(end - begin), highest_code_);
      });
    }
    ForRangesOfY(row, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin / row; r < end / row; ++r) {
        std::copy_n(from + r * row, row, codes + r * pitch);
        clip(codes + r * pitch, static_cast<long>(row), highest_code_);
      }
    });
  }

  void CopyCodes(const void* from, void* to) const {
    ForRangesOfY(kCodeBlock, [&](int64_t begin, int64_t end) {
      std::copy_n(static_cast<const uint16_t*>(from) + begin, end - begin,
                  static_cast<uint16_t*>(to) + begin);
    });
  }

  // Calls work(begin, end) for ranges of the elements of y, which begin at multiples of `block`,
  // with all threads if there are many elements.
  template <class Work> void ForRangesOfY(int64_t block, const Work& work) const {
    constexpr int64_t kParallelCodes = 1 << 15;
    const int64_t count = descriptor_.batch * descriptor_.out_channels * positions_;
#pragma omp parallel if (count >= kParallelCodes && !omp_in_parallel())
    {
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const int64_t blocks = (count + block - 1) / block;
      const int64_t begin = blocks * thread / threads * block;
      const int64_t end = std::min(count, blocks * (thread + 1) / threads * block);
      if (begin < end) work(begin, end);
    }
  }

  // A copy of x with its padding, in kNHWC.
  const void* Pad(const void* x, DevicePtr workspace) const {
    const Problem& p = problem_;
    const int64_t channels = p.x_dims[1], height = p.x_dims[2], width = p.x_dims[3] * channels;
    const int64_t rows = p.padded_dims[2], row = p.padded_dims[3] * channels;
    const int64_t left = p.left[1] * channels;
    const auto* source = static_cast<const uint16_t*>(x);
    auto* const target = static_cast<uint16_t*>(At(padded_.In(workspace)));
    for (int64_t r = 0; r < p.x_dims[0] * rows; ++r) {
      uint16_t* to = target + r * row;
      const int64_t h = r % rows - p.left[0];
      if (h < 0 || h >= height) {
        std::fill_n(to, row, uint16_t{0});
        continue;
      }
      std::fill_n(to, left, uint16_t{0});
      std::copy_n(source, width, to + left);
      std::fill_n(to + left + width, row - left - width, uint16_t{0});
      source += width;
    }
    return target;
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
  const int threads_;
  const int64_t positions_;  // of an image of y; counting them allocates
  const Problem problem_;
  BiasOp bias_;
  int64_t workspace_ = 0;
  WorkspaceLayout prepared_;
  WeightForm forward_weights_, data_weights_;
  std::unique_ptr<Conversion> x_, y_, data_y_diff_, data_x_diff_, weights_x_, weights_y_diff_;
  std::unique_ptr<Call> forward_, data_, weights_, sums_to_plain_;
  std::unique_ptr<EpiloguePass> pass_;
  bool adds_to_y_ = false, clips_codes_ = false;
  uint16_t highest_code_ = 0;
  Room dense_y_;  // the result before it is copied into a larger array
  Room padded_, forward_scratch_, data_scratch_, weights_scratch_, sums_, plain_sums_;
};

// oneDNN 2.6 leaves gradients of weights unwritten if a tap of a window sees padding only.
bool WindowsFit(const ConvGeometry& g) {
  for (int i = 0; i < g.axes(); ++i) {
    if ((g.kernel[i] - 1) * g.dilation[i] >= g.input[i]) return false;
  }
  return true;
}

bool Supports(Device* device, const ConvDescriptor& d) {
  if (device->backend() != Backend::kCpu || d.quantized() || d.in == kDouble) return false;
  if (d.geometry.axes() > 3 || d.workspace_limit > 0 || Level() != HostLevel()) return false;
  if (!WindowsFit(d.geometry)) return false;
  const auto lock = onednn::Making();
  try {
    const Plans plans = PlanAll(d, Problem(d));
    return !(plans.forward && Slow(plans.forward->impl_info_str())) &&
           !(plans.data && Slow(plans.data->impl_info_str())) &&
           !(plans.weights && Slow(plans.weights->impl_info_str()));
  } catch (const dnnl::error&) {
    return false;
  }
}

// Multiplications of a forward pass.
int64_t Products(const ConvDescriptor& d) {
  return d.batch * d.weight_count() * d.geometry.output_count();
}

int64_t Elements(const ConvDescriptor& d) {
  return d.batch *
         (d.in_channels * d.geometry.input_count() + d.out_channels * d.geometry.output_count());
}

// Below this many products a call of oneDNN costs more than it gains.
constexpr int64_t kFewProducts = 2 << 20;
// The products for each element of x and y that pay for its conversion to kNHWC and back.
constexpr int64_t kPaysConversion = 64;

// Winograd's algorithm needs far fewer products, where it is preferred.
bool WinogradIsFaster(Device* device, ConvDescriptor d) {
  static const ConvLibrary winograd = WinogradLibrary();
  d.x_layout = d.y_layout = Layout::kNCHW;
  return winograd.supports(device, d) && winograd.prefers(device, d);
}

constexpr int64_t kFewChannels = 32;

bool Prefers(Device* device, const ConvDescriptor& d) {
  if (d.has_private_layout()) return true;
  if (d.backward_data || d.backward_weights || WinogradIsFaster(device, d)) return false;
  return Products(d) > std::max(2 * kFewProducts, kPaysConversion * Elements(d));
}

// Without conversions it is faster than the others, except for few products. Depthwise convolutions
// take a third of the time of our own kernels, whatever their size is. With few channels, as in
// LeNet, the layers after it take longer in NHWC than is gained.
bool PrefersNhwc(Device* device, const ConvDescriptor& d) {
  if (d.out_channels < kFewChannels) return false;
  if (d.backward_data || d.backward_weights || WinogradIsFaster(device, d)) return false;
  return (d.group > 1 && d.group == d.in_channels) || Products(d) > kFewProducts;
}

}  // namespace

ConvLibrary OneDnnLibrary() {
  return {"onednn",
          &Supports,
          [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
            return std::make_unique<OneDnnConvOp>(device, d);
          },
          &Prefers,
          &PrefersNhwc,
          true /* knows_pitch */};
}

}  // namespace caffe
