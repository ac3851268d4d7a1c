#include <omp.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/row_steps.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {

// One for each instruction level; null for levels that this build lacks.
extern const RowSteps row_steps_v2 [[gnu::weak]];
extern const RowSteps row_steps_v3 [[gnu::weak]];
extern const RowSteps row_steps_v4 [[gnu::weak]];
extern const RowSteps row_steps_neon [[gnu::weak]];

const RowSteps& HostRowSteps() {
  switch (HostLevelNumber()) {
    case InstructionLevel::kV2: return row_steps_v2;
    case InstructionLevel::kV3: return row_steps_v3;
    case InstructionLevel::kV4: return row_steps_v4;
    case InstructionLevel::kNeon: break;
  }
  return row_steps_neon;
}

namespace {

// The most rows of A; for more, libraries that copy B to a better order are faster.
constexpr int64_t kMostRows = 8;
// The rows in half kinds, whose B those libraries widen first
// (tools/benchmark/results/packed_cpu.md).
constexpr int64_t kMostNarrowRows = 48;
// Below this many products one thread is faster.
constexpr int64_t kParallelProducts = 1 << 16;
// Rows of B that a thread takes at a time.
constexpr int64_t kGrain = 16;
// Elements of B in a type of users that are widened at a time: they stay in the caches. A smaller B
// stays there as a float copy, which other libraries prepare.
constexpr int64_t kWidened = 1 << 19;

template <class T = void> T* At(DevicePtr pointer) {
  return pointer ? reinterpret_cast<T*>(pointer.address()) : nullptr;
}

auto Dots(DataType type) {
  const RowSteps& steps = HostRowSteps();
  return type == kFloat || type.is_custom() ? steps.dots_float
         : type == kHalf                    ? steps.dots_half
                                            : steps.dots_bfloat16;
}

// C = A B' for few rows of A: each element is a product of two rows. B is read once, in its own
// type, by all threads; in a type of users some rows are widened at a time. Sums are float.
class RowsGemmOp final : public GemmOp {
 public:
  RowsGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        device_(device),
        dots_(Dots(d.in)),
        narrow_in_(d.in != kFloat),
        narrow_out_(d.out != kFloat),
        widened_rows_(d.in.is_custom()
                          ? std::clamp<int64_t>(kWidened / std::max<int64_t>(d.k, 1), 1, d.n)
                          : 0) {
    if (narrow_in_) {
      widen_ = ProgramBuilder(device, "convert")
                   .Types({kFloat, d.in, kFloat})
                   .Body("blas/convert")
                   .Build()
                   ->CreateKernel("widen_rows");
    }
    constexpr int64_t kSize = sizeof(float);
    a_at_ = layout_.Add(narrow_in_ ? d.m * d.k * kSize : 0);
    b_at_ = layout_.Add(widened_rows_ * d.k * kSize);
    sums_at_ = layout_.Add(d.m * d.n * kSize);
    if (narrow_out_ || !d.epilogue.empty()) {
      pass_ = std::make_unique<EpiloguePass>(device, kFloat, d.out, d.epilogue);
    }
  }
  const char* library() const override { return "rows"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    RowProducts products{d.m,
                         d.k,
                         0,
                         d.n,
                         At<float>(g.a),
                         d.row_a(),
                         At(g.b),
                         d.row_b(),
                         At<float>(g.workspace + sums_at_),
                         d.n};
    if (narrow_in_) {
      const DevicePtr wide = g.workspace + a_at_;
      if (d.k > 0) {
        widen_->Launch(LaunchRange(d.m, d.k), {d.m, d.k, d.row_a(), d.k, g.a, wide});
      }
      products.x = At<float>(wide);
      products.x_stride = d.k;
    }
    if (widened_rows_ == 0) {
      Multiply(products, d.n);
    } else {
      MultiplyWidened(g, products);
    }
    Store(g, At<float>(g.workspace + sums_at_));
    device_->CountLibraryCall();
  }

 private:
  void MultiplyWidened(const GemmArguments& g, RowProducts products) const {
    const GemmDescriptor& d = descriptor_;
    const DevicePtr wide = g.workspace + b_at_;
    for (int64_t first = 0; first < d.n; first += widened_rows_) {
      const int64_t rows = std::min(widened_rows_, d.n - first);
      const DevicePtr b = g.b + first * d.row_b() * static_cast<int64_t>(d.in.bytes());
      if (d.k > 0) widen_->Launch(LaunchRange(rows, d.k), {rows, d.k, d.row_b(), d.k, b, wide});
      products.w = At(wide);
      products.w_stride = d.k;
      products.end = rows;
      Multiply(products, rows);
      products.y += rows;
    }
  }

  // With the first `rows` rows of B.
  void Multiply(const RowProducts& products, int64_t rows) const {
    const GemmDescriptor& d = descriptor_;
    WatchCores();
    const bool few = d.m * rows * d.k < kParallelProducts * SerialFactor();
    if (few || omp_in_parallel()) return dots_(products);
#pragma omp parallel
    {
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const int64_t blocks = (rows + kGrain - 1) / kGrain;
      RowProducts part = products;
      part.begin = static_cast<long>(std::min(rows, blocks * thread / threads * kGrain));
      part.end = static_cast<long>(std::min(rows, blocks * (thread + 1) / threads * kGrain));
      if (part.begin < part.end) dots_(part);
    }
  }

  // C = epilogue(alpha * sums + beta * C).
  void Store(const GemmArguments& g, float* sums) const {
    const GemmDescriptor& d = descriptor_;
    const float alpha = static_cast<float>(g.alpha), beta = static_cast<float>(g.beta);
    for (int64_t i = 0; i < d.m; ++i) {
      float* row = sums + i * d.n;
      for (int64_t j = 0; alpha != 1 && j < d.n; ++j) row[j] *= alpha;
      if (beta != 0) {
        const char* c = At<char>(g.c);
        for (int64_t j = 0; j < d.n; ++j) {
          float old;
          ConvertElements(d.out, c + (i * d.row_c() + j) * d.out.bytes(), kFloat, &old, 1);
          row[j] += beta * std::ldexp(old, g.c.exponent);
        }
      }
      if (!pass_) std::copy_n(row, d.n, At<float>(g.c) + i * d.row_c());
    }
    if (pass_) {
      pass_->Run({d.m, d.n, d.m, 0, d.n, 0, d.row_c()}, g.workspace + sums_at_, g.c, g.bias,
                 g.epilogue);
    }
  }

  Device* device_;
  void (*const dots_)(const RowProducts&);
  const bool narrow_in_, narrow_out_;
  const int64_t widened_rows_;  // 0: B is read in its type
  WorkspaceLayout layout_;
  int64_t a_at_, b_at_, sums_at_;
  std::unique_ptr<Kernel> widen_;
  std::unique_ptr<EpiloguePass> pass_;
};

bool Supports(Device*, const GemmDescriptor& d) {
  if (d.quantized() || d.in == kDouble) return false;
  // A row would begin in the middle of a byte.
  if (d.in.is_packed() || d.out.is_packed()) return false;
  if (d.in.is_custom() && d.n * d.k <= kWidened) return false;
  const int64_t most = d.in == kFloat || d.in.is_custom() ? kMostRows : kMostNarrowRows;
  return d.m <= most && d.batch == 1 && !d.trans_a && d.trans_b && Dots(d.in);
}

}  // namespace

GemmLibrary RowsLibrary() {
  return {"rows", &OnHost, &Supports, [](Device* device, const GemmDescriptor& d) {
            return std::make_unique<RowsGemmOp>(device, d);
          }};
}

}  // namespace caffe
