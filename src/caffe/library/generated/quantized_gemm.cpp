#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/generated/residual_stage.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kMaxGridDepth = 65535;

// kernels/quant/gemm.h: every shape, with requantization, in one launch.
class DeviceQuantizedGemmOp final : public GemmOp {
 public:
  DeviceQuantizedGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), rows_are_weights_(d.epilogue.bias == Epilogue::Bias::kPerRow) {
    // One program for all shapes has idle items.
    // Compilers for processors multiply bytes of neighbouring items, which is faster.
    const DeviceInfo& info = device->info();
    const bool dot_bytes = info.dp4a && !info.is_cpu_type && d.in.bytes() == 1;
    tile_ = !info.folds_shapes() || std::min(d.m, d.n) < 64 ? 32 : 64;
    kernel_ = ProgramBuilder(device, "quantized gemm")
                  .Types({d.in, d.in, d.out})
                  .Define("TRANS_A", d.trans_a)
                  .Define("TRANS_B", d.trans_b)
                  .Define("TILE", tile_)
                  .Define("CHANNEL_ROWS", rows_are_weights_)
                  .Define("WIDE", d.wide_sums())
                  .Define("CODE_BYTES", static_cast<int64_t>(d.in.bytes()))
                  .Define("DOT_BYTES", dot_bytes)
                  .Define("SUMS", d.sums)
                  .Define("RESIDUAL", d.epilogue.sum() != nullptr)
                  .Define("VALUES", d.stores_values())
                  .Define("GEMM_UNROLL", info.folds_shapes())
                  .Body("quant/gemm")
                  .GroupKernel("quantized_gemm");
    side_ = GroupSide(kernel_->group());
    tile_ = std::min(tile_, 8 * side_);  // as in kernels/math/gemm_tile.h
  }
  const char* library() const override { return "generated"; }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    const DevicePtr x = rows_are_weights_ ? g.b : g.a;
    const int64_t bytes = static_cast<int64_t>(d.in.bytes());
    const int32_t zero_w = WeightZero(d.in);
    const QuantArguments& quant = *g.quant;
    const ResidualStage stage(d.epilogue, d.in, quant);
    const bool slope = static_cast<bool>(quant.negative_multiplier);
    for (int64_t i = 0; i < d.batch; i += kMaxGridDepth) {
      const int64_t depth = std::min(kMaxGridDepth, d.batch - i);
      const DevicePtr c = g.c + i * d.batch_stride_c() * d.result_bytes();
      const DevicePtr residual = g.epilogue.residual + i * d.batch_stride_c() * bytes;
      const KernelArgument weights(rows_are_weights_ ? g.a : g.b, zero_w);
      const KernelArgument activations(
          x + i * (rows_are_weights_ ? d.batch_stride_b() : d.batch_stride_a()) * bytes);
      KernelArguments arguments;
      arguments.append({d.m, d.n, d.k, stage.low(), stage.high(), d.row_a(), d.row_b(), d.row_c(),
                        d.batch_stride_a(), d.batch_stride_b(), d.batch_stride_c(),
                        rows_are_weights_ ? weights : activations,
                        rows_are_weights_ ? activations : weights, quant.bias, quant.multiplier,
                        quant.shift, slope ? quant.negative_multiplier : quant.multiplier,
                        slope ? quant.negative_shift : quant.shift});
      stage.AddArguments(residual, c, &arguments);
      arguments.push_back(KernelArgument(c, stage.zero()));
      kernel_->LaunchInGroups(
          LaunchGroups{{Ceil(d.n, tile_), Ceil(d.m, tile_), depth}, {side_, side_, 1}}, arguments);
    }
  }

 private:
  const bool rows_are_weights_;
  int64_t tile_ = 32, side_ = 0;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

GemmLibrary GeneratedQuantizedLibrary() {
  GemmLibrary row{"generated", &OnDevices,
                  [](Device*, const GemmDescriptor& d) { return d.quantized(); },
                  [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
                    return std::make_unique<DeviceQuantizedGemmOp>(device, d);
                  }};
  row.knows_sums = true;
  return row;
}

}  // namespace caffe
