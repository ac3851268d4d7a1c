#include "caffe/library/onednn/wide_points.hpp"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/onednn/arrays.hpp"
#include "caffe/library/onednn/conversion.hpp"
#include "caffe/library/onednn/onednn_api.hpp"
#include "caffe/library/onednn/onednn_call.hpp"
#include "caffe/library/onednn/threads.hpp"

namespace caffe::onednn {
namespace {

// The bytes of the floats of a block of x and y: they stay in the second cache, beside the weights.
constexpr int64_t kBlockBytes = 192 << 10;
constexpr int64_t kLeastRows = 16;

class WidePointsOp final : public ConvOp {
 public:
  WidePointsOp(Device* device, const ConvDescriptor& d, const char* library)
      : ConvOp(d),
        device_(device),
        library_(library),
        in_(d.in_channels),
        out_(d.out_channels),
        positions_(d.geometry.output_count()),
        rows_(d.batch * positions_),
        x_bytes_(static_cast<int64_t>(d.in.bytes())),
        y_bytes_(static_cast<int64_t>(d.out.bytes())) {
    const Shape output = d.geometry.output();
    last_ = output.back();
    threads_.resize(omp_in_parallel() ? 1 : std::max(1, omp_get_max_threads()));
    const auto threads = static_cast<int64_t>(threads_.size());
    const int64_t most =
        std::max(kLeastRows, kBlockBytes / ((in_ + out_) * static_cast<int64_t>(sizeof(float))));
    const int64_t each = (rows_ + threads - 1) / threads;
    units_ = std::min(rows_, threads * ((each + most - 1) / most));
    Make();
  }
  const char* library() const override { return library_; }
  int64_t workspace_bytes() const override {
    return layout_.bytes() * static_cast<int64_t>(threads_.size());
  }
  int64_t prepared_bytes() const override { return weight_bytes_; }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    std::vector<float> wide = Widened(weights, descriptor_.in, descriptor_.weight_count());
    reorder_->Run({{DNNL_ARG_FROM, wide.data()}, {DNNL_ARG_TO, At(prepared)}});
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    WatchCores();
    std::exception_ptr error;
    const auto work = [&](int64_t thread, int64_t threads) {
      try {
        for (int64_t u = units_ * thread / threads; u < units_ * (thread + 1) / threads; ++u) {
          Compute(a, threads_[thread], a.workspace + thread * layout_.bytes(), rows_ * u / units_,
                  rows_ * (u + 1) / units_);
        }
      } catch (...) {
#pragma omp critical(caffe_wide_points)
        error = std::current_exception();
      }
    };
    if (threads_.size() == 1 || omp_in_parallel()) {
      work(0, 1);
    } else {
#pragma omp parallel num_threads(static_cast <int>(threads_.size()))
      work(omp_get_thread_num(), omp_get_num_threads());
    }
    if (error) std::rethrow_exception(error);
    device_->CountLibraryCall();
  }

 private:
  // Objects that only one thread may use at a time.
  struct Thread {
    std::unique_ptr<Kernel> widen;
    std::unique_ptr<EpiloguePass> narrow;
    std::unique_ptr<Call> multiply[2];  // blocks of rows_ / units_ rows, and of one more
  };

  void Make() {
    const ConvDescriptor& d = descriptor_;
    const bool bias = d.epilogue.bias != Epilogue::Bias::kNone;
    Epilogue rest = d.epilogue;
    rest.bias = Epilogue::Bias::kNone;
    if (rest.slopes != Epilogue::Bias::kNone) rest.slopes = Epilogue::Bias::kPerColumn;
    const auto convert = ProgramBuilder(device_, "convert")
                             .Types({kFloat, d.in, kFloat})
                             .Body("blas/convert")
                             .Build();
    Desc weights({out_, in_, 1, 1}, Element::f32, Tag::any);
    int64_t scratch = 0;
    const OneThread one;
    for (int more = 0; more < (rows_ % units_ ? 2 : 1); ++more) {
      Description c;
      c.x = Desc({1, in_, rows_ / units_ + more, 1}, Element::f32, Tag::nhwc);
      c.y = Desc({1, out_, rows_ / units_ + more, 1}, Element::f32, Tag::nhwc);
      c.weights = weights;
      c.has_bias = bias;
      if (bias) c.bias = Desc({out_}, Element::f32, Tag::x);
      c.stride = {1, 1};
      c.dilation = c.pad_left = c.pad_right = {0, 0};
      const ForwardPlan plan = PlanForward(Engine(), c, false, Attributes());
      weights = plan.weights_desc();
      scratch = std::max(scratch, Bytes(plan.scratchpad_desc()));
      const dnnl::convolution_forward multiply(plan);
      for (Thread& thread : threads_) {
        thread.multiply[more] = std::make_unique<Call>(
            multiply,
            std::initializer_list<Call::Operand>{{DNNL_ARG_SRC, plan.src_desc()},
                                                 {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                                                 {DNNL_ARG_BIAS, plan.bias_desc()},
                                                 {DNNL_ARG_DST, plan.dst_desc()},
                                                 {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
      }
    }
    for (Thread& thread : threads_) {
      thread.widen = convert->CreateKernel("widen_rows");
      thread.narrow = std::make_unique<EpiloguePass>(device_, kFloat, d.out, rest);
    }
    const int64_t most = rows_ / units_ + 1, size = sizeof(float);
    x_ = Add(&layout_, most * in_ * size);
    y_ = Add(&layout_, most * out_ * size);
    if (scratch > 0) scratch_ = Add(&layout_, scratch);
    weight_bytes_ = Bytes(weights);
    reorder_ = MakeReorder(Desc({out_, in_, 1, 1}, Element::f32, Tag::oihw), weights);
  }

  // Rows [begin, end) of y.
  void Compute(const ConvArguments& a, Thread& thread, DevicePtr workspace, int64_t begin,
               int64_t end) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t rows = end - begin;
    const DevicePtr x = x_.In(workspace), y = y_.In(workspace);
    Widen(a.x, thread.widen.get(), begin, end, x);
    thread.multiply[rows - rows_ / units_]->Run(
        {{DNNL_ARG_SRC, At(x)},
         {DNNL_ARG_WEIGHTS, At(a.prepared)},
         {DNNL_ARG_BIAS, At(a.bias)},
         {DNNL_ARG_DST, At(y)},
         {DNNL_ARG_SCRATCHPAD, scratch_ ? At(scratch_.In(workspace)) : nullptr}});
    EpilogueOperands operands = a.epilogue;
    if (operands.residual) operands.residual = operands.residual + begin * out_ * y_bytes_;
    thread.narrow->Run({rows, out_, rows, 0, out_, 0, d.y_row()}, y,
                       a.y + begin * d.y_row() * y_bytes_, {}, operands);
  }

  // The elements of x under the windows of these rows of y.
  void Widen(DevicePtr x, Kernel* kernel, int64_t begin, int64_t end, DevicePtr to) const {
    const ConvGeometry& g = descriptor_.geometry;
    const int axes = g.axes();
    const bool all =
        std::all_of(g.stride.begin(), g.stride.end(), [](int64_t s) { return s == 1; });
    for (int64_t row = begin, count; row < end; row += count) {
      count = all ? end - row : std::min(end - row, last_ - row % last_);
      int64_t from = row;
      if (!all) {
        // The place of the first position of a part of an output row.
        int64_t left = row % positions_ / last_, at = row % last_ * g.stride[axes - 1];
        int64_t extent = g.input[axes - 1];
        for (int i = axes - 2; i >= 0; --i) {
          const int64_t outputs = (g.input[i] - 1) / g.stride[i] + 1;
          at += left % outputs * g.stride[i] * extent;
          left /= outputs;
          extent *= g.input[i];
        }
        from = row / positions_ * extent + at;
      }
      // Rows without gaps are one.
      const int64_t long_rows = all ? 1 : count, columns = all ? count * in_ : in_;
      kernel->Launch(LaunchRange(long_rows, columns),
                     {long_rows, columns, in_ * g.stride[axes - 1], in_, x + from * in_ * x_bytes_,
                      to + (row - begin) * in_ * static_cast<int64_t>(sizeof(float))});
    }
  }

  Device* device_;
  const char* const library_;
  const int64_t in_, out_, positions_, rows_, x_bytes_, y_bytes_;
  int64_t last_, units_, weight_bytes_ = 0;
  std::vector<Thread> threads_;
  std::unique_ptr<Call> reorder_;
  WorkspaceLayout layout_;  // of one thread
  Room x_, y_, scratch_;
};

}  // namespace

bool IsPoints(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  const auto all = [](const Shape& extents, int64_t value) {
    return std::all_of(extents.begin(), extents.end(), [&](int64_t e) { return e == value; });
  };
  return d.forward && !d.backward_data && !d.backward_weights && d.group == 1 && d.in != kFloat &&
         d.x_layout == Layout::kNHWC && d.y_layout == Layout::kNHWC && all(g.kernel, 1) &&
         all(g.pad, 0) && d.batch * g.output_count() > 0;
}

std::unique_ptr<ConvOp> MakeWidePoints(Device* device, const ConvDescriptor& descriptor,
                                       const char* library) {
  return std::make_unique<WidePointsOp>(device, descriptor, library);
}

}  // namespace caffe::onednn
