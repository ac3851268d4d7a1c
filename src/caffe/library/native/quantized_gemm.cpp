#include <omp.h>

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_gemm.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/native/quantized_product.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

// Below this many multiplications one thread is faster.
constexpr int64_t kParallelProducts = 1 << 17;

class HostQuantizedGemmOp final : public GemmOp {
 public:
  explicit HostQuantizedGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        device_(device),
        rows_are_weights_(d.epilogue.bias == Epilogue::Bias::kPerRow),
        weights_(d.in, true, rows_are_weights_ ? d.m : d.n, d.k),
        activations_(d.in, false, rows_are_weights_ ? d.n : d.m, d.k) {
    // Use smaller tiles if threads would be idle.
    const int threads = omp_get_max_threads();
    tile_m_ = std::min(kQuantTile, d.m);
    while (Ceil(d.m, tile_m_) * Ceil(d.n, tile_n_) < 2 * threads && tile_n_ > 16) tile_n_ /= 2;
  }
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override { return activations_.bytes(); }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    const GemmDescriptor& d = descriptor_;
    return Concat("codes ", d.in.name(), " ", rows_are_weights_ ? d.m : d.n, "x", d.k);
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    weights_.Bind(prepared.address());
    Pack(codes.address(), rows_are_weights_, 0, rows_are_weights_ ? descriptor_.m : descriptor_.n,
         &weights_);
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    weights_.Bind(g.prepared.address());
    activations_.Bind(g.workspace.address());
    const DevicePtr x = rows_are_weights_ ? g.b : g.a, y = g.c;
    const int64_t bytes = static_cast<int64_t>(d.in.bytes());
    const int64_t rows = rows_are_weights_ ? d.n : d.m,
                  x_stride = rows_are_weights_ ? d.batch_stride_b() : d.batch_stride_a();
    const QuantizedTile common = MakeTile(weights_, activations_, rows_are_weights_, d.in,
                                          d.wide_sums(), d.epilogue, *g.quant);
    const ResidualCodes residual(d.epilogue, d.in, *g.quant, g.epilogue.residual, y);
    const int64_t tiles_n = Ceil(d.n, tile_n_), tiles = Ceil(d.m, tile_m_) * tiles_n;
    const bool parallel = d.m * d.n * d.k >= kParallelProducts && !omp_in_parallel();
    for (int64_t i = 0; i < d.batch; ++i) {
      const char* source = x.address() + i * x_stride * bytes;
      char* target = y.address() + i * d.batch_stride_c() * bytes;
#pragma omp parallel if (parallel)
      {
        const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
        Pack(source, !rows_are_weights_, rows * thread / threads, rows * (thread + 1) / threads,
             &activations_);
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t row = t / tiles_n * tile_m_, column = t % tiles_n * tile_n_;
          const int64_t channel = rows_are_weights_ ? row : column;
          QuantizedTile tile = common;
          tile.m = std::min(tile_m_, d.m - row);
          tile.n = std::min(tile_n_, d.n - column);
          tile.a += row * tile.a_stride;
          tile.b += column * tile.b_stride;
          StartAtChannel(channel, &tile);
          tile.y = target + (row * d.row_c() + column) * bytes;
          tile.ldc = d.row_c();
          HostQuantizedSteps().tile(tile);
          const int64_t first = i * d.batch_stride_c() + row * d.row_c() + column;
          residual.Add(tile.m, tile.n, first, d.row_c(), first, d.row_c());
        }
      }
    }
    device_->CountLibraryCall();
  }

 private:
  // Packs rows of op(A), or columns of op(B).
  void Pack(const char* source, bool a, int64_t begin, int64_t end, PackedRows* target) {
    const GemmDescriptor& d = descriptor_;
    const int64_t row = a ? d.row_a() : d.row_b();
    const bool along_k = a ? !d.trans_a : d.trans_b;
    target->Pack(source, along_k ? row : 1, along_k ? 1 : row, begin, end);
  }

  Device* device_;
  const bool rows_are_weights_;
  int64_t tile_m_ = kQuantTile, tile_n_ = kQuantTile;
  PackedRows weights_, activations_;
};

}  // namespace

GemmLibrary NativeQuantizedLibrary() {
  return {"native",
          [](Device* device, const GemmDescriptor& d) {
            return device->host_accessible() && d.quantized();
          },
          [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
            if (SupportsByteProduct(d)) return MakeByteProduct(device, d);
            return std::make_unique<HostQuantizedGemmOp>(device, d);
          }};
}

}  // namespace caffe
