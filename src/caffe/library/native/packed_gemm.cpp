#include <omp.h>

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// Columns of a panel: a multiple of those that the native product computes at once.
constexpr int64_t kPanel = 32;
constexpr int64_t kMostRows = 128;
// For more rows OpenBLAS, which packs B in each call, is as fast
// (tools/benchmark/results/packed_cpu.md).
constexpr int64_t kMostPreferredRows = 32;
// Below this many products one thread is faster.
constexpr int64_t kParallelProducts = 1 << 16;

template <class T> T* At(DevicePtr pointer) { return reinterpret_cast<T*>(pointer.address()); }

int64_t Panels(const GemmDescriptor& d) { return (d.n + kPanel - 1) / kPanel; }

// C = A op(B), where B is packed once for many calls: panels of kPanel columns, one after the
// other, each with a row for each row of op(B).
class PackedGemmOp final : public GemmOp {
 public:
  PackedGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), epilogue_(device, d) {}
  const char* library() const override { return "packed"; }
  int64_t prepared_bytes() const override {
    return Panels(descriptor_) * kPanel * descriptor_.k * static_cast<int64_t>(sizeof(float));
  }
  std::string prepared_form() const override {
    const GemmDescriptor& d = descriptor_;
    return Concat("packed ", d.n, "x", d.k, d.trans_b ? " transposed" : "", " row ", d.row_b());
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const GemmDescriptor& d = descriptor_;
    const float* const b = At<float>(weights);
    float* const panels = At<float>(prepared);
    const int64_t row = d.trans_b ? 1 : d.row_b(), column = d.trans_b ? d.row_b() : 1;
    const int64_t count = Panels(d);
#pragma omp parallel for schedule(static)
    for (int64_t panel = 0; panel < count; ++panel) {
      float* to = panels + panel * kPanel * d.k;
      const int64_t begin = panel * kPanel, columns = std::min(kPanel, d.n - begin);
      for (int64_t p = 0; p < d.k; ++p, to += kPanel) {
        for (int64_t j = 0; j < columns; ++j) to[j] = b[p * row + (begin + j) * column];
        std::fill(to + columns, to + kPanel, 0.f);
      }
    }
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    WatchCores();
    const int64_t panels = Panels(d);
    if (d.m * d.n * d.k < kParallelProducts * SerialFactor() || omp_in_parallel()) {
      Multiply(g, 0, panels);
    } else {
#pragma omp parallel
      {
        const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
        Multiply(g, panels * thread / threads, panels * (thread + 1) / threads);
      }
    }
    epilogue_.Run(g);
    device_->CountLibraryCall();
  }

 private:
  // Panels [begin, end).
  void Multiply(const GemmArguments& g, int64_t begin, int64_t end) const {
    const GemmDescriptor& d = descriptor_;
    const HostGemm<float> product = NativeGemms().f32;
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * kPanel;
      product(false, false, d.m, std::min(kPanel, d.n - column), d.k, static_cast<float>(g.alpha),
              At<float>(g.a), d.row_a(), At<float>(g.prepared) + column * d.k, kPanel,
              static_cast<float>(g.beta), At<float>(g.c) + column, d.row_c());
    }
  }

  Device* device_;
  GemmEpilogue epilogue_;
};

bool Supports(Device*, const GemmDescriptor& d) {
  return d.in == kFloat && d.out == kFloat && d.batch == 1 &&
         d.weights() == GemmDescriptor::Weights::kB && !d.trans_a && d.m <= kMostRows;
}

}  // namespace

GemmLibrary PackedLibrary() {
  GemmLibrary row;
  row.name = "packed";
  row.place = &OnHost;
  row.supports = &Supports;
  row.make = [](Device* device, const GemmDescriptor& d) {
    return std::make_unique<PackedGemmOp>(device, d);
  };
  row.prefers = [](Device*, const GemmDescriptor& d) {
    return d.m <= kMostPreferredRows && d.n >= kPanel;
  };
  return row;
}

}  // namespace caffe
