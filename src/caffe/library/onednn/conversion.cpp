#include "caffe/library/onednn/conversion.hpp"

#include <omp.h>

#include <algorithm>

#include "caffe/device/program_builder.hpp"
#include "caffe/library/native/row_steps.hpp"

namespace caffe::onednn {

std::unique_ptr<Call> MakeReorder(const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc plan(Engine(), from, Engine(), to, Attributes());
  // Reorders between plain float kinds need no scratchpad.
  return std::make_unique<Call>(dnnl::reorder(plan), std::initializer_list<Call::Operand>{
                                                         {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Conversion::Conversion(Device* device, DataType type, Layout layout, Element inner,
                       const Dims& dims)
    : count_(1),
      images_(dims[0]),
      channels_(dims[1]),
      wide_(inner == Element::f32),
      narrow_(type != kFloat && inner == Element::f32),
      type_bytes_(static_cast<int64_t>(type.bytes())) {
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

void Conversion::PlanIn(WorkspaceLayout* layout) {
  if (narrow_) wide_in_ = Add(layout, Bytes(plain_));
  if (!reorders_) return;
  ordered_in_ = Add(layout, Bytes(inner_));
  if (!in_ && !interleaves()) in_ = MakeReorder(plain_, inner_);
}

const void* Conversion::In(DevicePtr array, DevicePtr workspace) {
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

void Conversion::PlanOut(WorkspaceLayout* layout, bool narrows) {
  narrows_ = narrows && narrow_;
  if (reorders_) {
    ordered_out_ = Add(layout, Bytes(inner_));
    if (!out_) out_ = MakeReorder(inner_, plain_);
  }
  if (narrow_) wide_out_ = Add(layout, Bytes(plain_));
}

void Conversion::Out(DevicePtr array, DevicePtr workspace) {
  const DevicePtr sums = Sums(array, workspace);
  if (reorders_) {
    out_->Run({{DNNL_ARG_FROM, At(ordered_out_.In(workspace))}, {DNNL_ARG_TO, At(sums)}});
  }
  if (narrows_) Launch(narrow_kernel_.get(), sums, array);
}

void Conversion::Launch(Kernel* kernel, DevicePtr from, DevicePtr to) const {
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
  launch(1, left, from + done * (widens ? type_bytes_ : 4), to + done * (widens ? 4 : type_bytes_));
}

// Images of few channels: oneDNN's reorder took 0.1 ms for 3 x 224 x 224 in bfloat16.
bool Conversion::interleaves() const { return channels_ <= kMostPlanes; }

void Conversion::Interleave(const char* x, char* y) const {
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
      interleave(x + i * image, y + i * image, static_cast<int>(channels_), positions, begin, end);
    }
  }
}

}  // namespace caffe::onednn
