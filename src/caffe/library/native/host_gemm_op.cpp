#include <omp.h>

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

// Below this many multiplications one thread is faster.
constexpr int64_t kParallelProducts = 1 << 16;
// Room for the widened slices of A and B.
constexpr int64_t kSliceElements = 2 << 20;

template <class T> T* At(DevicePtr pointer) { return reinterpret_cast<T*>(pointer.address()); }

// float or double. The OpenMP threads share batches and, if the library has no threads, parts of C.
template <class T> class HostGemmOp final : public GemmOp {
 public:
  HostGemmOp(Device* device, const GemmDescriptor& d, const HostGemms& gemms)
      : GemmOp(d), device_(device), gemms_(gemms), gemm_(gemms.Of<T>()), epilogue_(device, d) {}
  const char* library() const override { return gemms_.library; }

 protected:
  void DoRun(const GemmArguments& g) override {
    Multiply(At<T>(g.a), At<T>(g.b), At<T>(g.c), static_cast<T>(g.alpha), static_cast<T>(g.beta));
    epilogue_.Run(g);
    device_->CountLibraryCall();
  }

 private:
  void Multiply(const T* a, const T* b, T* c, T alpha, T beta) {
    const GemmDescriptor& d = descriptor_;
    const int64_t lda = d.row_a(), ldb = d.row_b(), ldc = d.row_c();
    const bool parallel = d.m * d.n * d.k * d.batch >= kParallelProducts && !omp_in_parallel() &&
                          omp_get_max_threads() > 1;
    const auto one = [&](int64_t i) {
      gemm_(d.trans_a, d.trans_b, d.m, d.n, d.k, alpha, a + i * d.batch_stride_a(), lda,
            b + i * d.batch_stride_b(), ldb, beta, c + i * d.batch_stride_c(), ldc);
    };
    if (parallel && d.batch > 1 && gemms_.nestable) {
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < d.batch; ++i) one(i);
      return;
    }
    if (!parallel || gemms_.threads) {
      for (int64_t i = 0; i < d.batch; ++i) one(i);
      return;
    }
    // Bands of rows or columns of C, a multiple of 16 wide.
#pragma omp parallel
    {
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const bool by_row = d.m > d.n;
      const int64_t extent = by_row ? d.m : d.n, blocks = (extent + 15) / 16;
      const int64_t begin = std::min(extent, blocks * thread / threads * 16);
      const int64_t end = std::min(extent, blocks * (thread + 1) / threads * 16);
      if (begin < end && by_row) {
        gemm_(d.trans_a, d.trans_b, end - begin, d.n, d.k, alpha, a + begin * (d.trans_a ? 1 : lda),
              lda, b, ldb, beta, c + begin * ldc, ldc);
      } else if (begin < end) {
        gemm_(d.trans_a, d.trans_b, d.m, end - begin, d.k, alpha, a, lda,
              b + begin * (d.trans_b ? ldb : 1), ldb, beta, c + begin, ldc);
      }
    }
  }

  Device* device_;
  const HostGemms& gemms_;
  HostGemm<T> gemm_;
  GemmEpilogue epilogue_;
};

// half or bfloat16: slices along k are widened to float and multiplied; sums stay float until the
// last slice. Prepare widens the weights, one slice after the other.
class WideningGemmOp final : public GemmOp {
 public:
  WideningGemmOp(Device* device, const GemmDescriptor& d, const HostGemms& gemms)
      : GemmOp(d), device_(device), gemms_(gemms), epilogue_(device, kFloat, d.out, d.epilogue) {
    auto program = ProgramBuilder(device, "convert")
                       .Types({kFloat, d.in, kFloat})
                       .Body("blas/convert")
                       .Build();
    widen_ = program->CreateKernel("widen_rows");
    depth_ = std::clamp<int64_t>(kSliceElements / (d.m + d.n), 64, std::max<int64_t>(d.k, 64));
    constexpr int64_t kSize = sizeof(float);
    a_at_ = layout_.Add(d.weights() == Weights::kA ? 0 : d.m * depth_ * kSize);
    b_at_ = layout_.Add(d.weights() == Weights::kB ? 0 : d.n * depth_ * kSize);
    sums_at_ = layout_.Add(d.out == kFloat ? 0 : d.m * d.n * kSize);
    for (const int64_t depth : {depth_, d.k % depth_ == 0 ? depth_ : d.k % depth_}) {
      GemmDescriptor slice;
      slice.trans_a = d.trans_a;
      slice.trans_b = d.trans_b;
      slice.m = d.m;
      slice.n = d.n;
      slice.k = std::min(depth, d.k);
      slice.ldc = d.out == kFloat ? d.row_c() : d.n;
      slices_.push_back(std::make_unique<HostGemmOp<float>>(device, slice, gemms));
    }
  }
  const char* library() const override { return gemms_.library; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }
  int64_t prepared_bytes() const override {
    const GemmDescriptor& d = descriptor_;
    const int64_t elements = d.weights() == Weights::kA   ? d.m * d.k
                             : d.weights() == Weights::kB ? d.n * d.k
                                                          : 0;
    return elements * static_cast<int64_t>(sizeof(float));
  }
  std::string prepared_form() const override {
    const GemmDescriptor& d = descriptor_;
    if (d.weights() != Weights::kB) return {};
    return Concat("wide ", d.in.name(), " ", d.n, "x", d.k, d.trans_b ? " transposed" : "", " row ",
                  d.row_b(), " slices of ", depth_);
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const GemmDescriptor& d = descriptor_;
    for (int64_t k0 = 0; k0 < d.k; k0 += depth_) {
      const int64_t k = std::min(depth_, d.k - k0);
      if (d.weights() == Weights::kA) WidenA(weights, SliceOf(prepared, d.m, k0), k0, k);
      if (d.weights() == Weights::kB) WidenB(weights, SliceOf(prepared, d.n, k0), k0, k);
    }
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    const int64_t size = d.in.bytes(), out_size = d.out.bytes();
    const double alpha = g.alpha, beta = g.beta;
    for (int64_t i = 0; i < d.batch; ++i) {
      const DevicePtr source_a = g.a + i * d.batch_stride_a() * size;
      const DevicePtr source_b = g.b + i * d.batch_stride_b() * size;
      const DevicePtr target = g.c + i * d.batch_stride_c() * out_size;
      const bool direct = d.out == kFloat;
      const DevicePtr sums = direct ? target : g.workspace + sums_at_;
      if (!direct && beta != 0) {
        widen_->Launch(LaunchRange(d.m, d.n), {d.m, d.n, d.row_c(), d.n, target, sums});
      }
      for (int64_t k0 = 0; k0 < std::max<int64_t>(d.k, 1); k0 += depth_) {
        const int64_t k = std::min(depth_, d.k - k0);
        DevicePtr wide_a = g.workspace + a_at_, wide_b = g.workspace + b_at_;
        if (d.weights() == Weights::kA) {
          wide_a = SliceOf(g.prepared, d.m, k0);
        } else {
          WidenA(source_a, wide_a, k0, k);
        }
        if (d.weights() == Weights::kB) {
          wide_b = SliceOf(g.prepared, d.n, k0);
        } else {
          WidenB(source_b, wide_b, k0, k);
        }
        slices_[k == slices_[0]->descriptor().k ? 0 : 1]->Run(
            {wide_a, wide_b, sums, {}, alpha, k0 == 0 ? beta : 1});
      }
      if (direct && d.epilogue.empty()) continue;
      EpilogueOperands operands = g.epilogue;
      if (operands.residual) {
        operands.residual = operands.residual + i * d.batch_stride_c() * out_size;
      }
      epilogue_.Run({d.m, d.n, d.m, 0, direct ? d.row_c() : d.n, 0, d.row_c()}, sums, target,
                    g.bias, operands);
    }
  }

 private:
  using Weights = GemmDescriptor::Weights;

  // The slice that begins at k0, of `extent` rows of widened weights.
  static DevicePtr SliceOf(DevicePtr prepared, int64_t extent, int64_t k0) {
    return prepared + extent * k0 * static_cast<int64_t>(sizeof(float));
  }
  void WidenA(DevicePtr source, DevicePtr target, int64_t k0, int64_t k) {
    Widen(source, target, descriptor_.trans_a, descriptor_.m, k0, k, descriptor_.row_a());
  }
  void WidenB(DevicePtr source, DevicePtr target, int64_t k0, int64_t k) {
    Widen(source, target, !descriptor_.trans_b, descriptor_.n, k0, k, descriptor_.row_b());
  }

  // [k0, k0 + k) of a matrix with `extent` rows of k, or k rows of `extent` if `k_rows`.
  void Widen(DevicePtr source, DevicePtr target, bool k_rows, int64_t extent, int64_t k0, int64_t k,
             int64_t stride) {
    const int64_t size = descriptor_.in.bytes();
    if (k_rows) {
      widen_->Launch(LaunchRange(k, extent),
                     {k, extent, stride, extent, source + k0 * stride * size, target});
    } else {
      widen_->Launch(LaunchRange(extent, k), {extent, k, stride, k, source + k0 * size, target});
    }
  }

  Device* device_;
  const HostGemms& gemms_;
  EpiloguePass epilogue_;  // from the sums to C
  int64_t depth_;
  std::unique_ptr<Kernel> widen_;
  WorkspaceLayout layout_;
  int64_t a_at_, b_at_, sums_at_;
  std::vector<std::unique_ptr<HostGemmOp<float>>> slices_;
};

std::unique_ptr<GemmOp> MakeHostGemm(Device* device, const GemmDescriptor& d,
                                     const HostGemms& gemms) {
  if (d.in == kFloat) return std::make_unique<HostGemmOp<float>>(device, d, gemms);
  if (d.in == kDouble) return std::make_unique<HostGemmOp<double>>(device, d, gemms);
  return std::make_unique<WideningGemmOp>(device, d, gemms);
}

bool Supports(Device*, const GemmDescriptor& d) { return !d.quantized(); }

}  // namespace

GemmLibrary NativeLibrary() {
  return {"native", &OnHost, &Supports, [](Device* device, const GemmDescriptor& d) {
            return MakeHostGemm(device, d, NativeGemms());
          }};
}

GemmLibrary OpenBlasLibrary() {
  return {"openblas", &OnHost, &Supports, [](Device* device, const GemmDescriptor& d) {
            return MakeHostGemm(device, d, OpenBlasGemms());
          }};
}

}  // namespace caffe
