#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/measured_gemm.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/tuning_table.hpp"

namespace caffe {
namespace {

constexpr int64_t kDepth = 16, kMaxGridDepth = 65535;

struct Choice {
  int64_t tile;
  double speed;
};
constexpr Choice kChoices[] = {{32, 11}, {64, 17}, {128, 25}};
// Whether the registers of an item hold its part of a tile.
bool Fits(const Choice& choice, const GemmDescriptor& d) {
  return choice.tile < 128 || d.in != kDouble;
}

// The tile with the highest effective throughput: its speed if it is fully used and the device is
// full (measured on an H200), times the used part of the tiles and of the device. Processors use
// one size for all shapes, because another program takes a second to compile.
int64_t ChooseTile(Device* device, const GemmDescriptor& d) {
  if (!device->info().folds_shapes()) return 64;
  double best = 0;
  int64_t chosen = 32;
  for (const Choice& choice : kChoices) {
    if (!Fits(choice, d)) continue;
    const int64_t rows = Ceil(d.m, choice.tile), columns = Ceil(d.n, choice.tile);
    const double groups = static_cast<double>(rows * columns * d.batch);
    const double used = static_cast<double>(d.m * d.n * d.batch) /
                        (groups * static_cast<double>(choice.tile * choice.tile));
    const double filled = std::min(1.0, groups / device->info().compute_units);
    if (choice.speed * used * filled > best) {
      best = choice.speed * used * filled;
      chosen = choice.tile;
    }
  }
  return chosen;
}

// kernels/blas/gemm.h: every type and shape, with the epilogue, in one launch.
class GeneratedGemmOp final : public GemmOp {
 public:
  GeneratedGemmOp(Device* device, const GemmDescriptor& d, int64_t tile, bool half_sums)
      : GemmOp(d), half_sums_(half_sums), tile_(tile), stages_(d.epilogue) {
    const DataType compute = d.in == kDouble ? kDouble : kFloat;
    const bool folds = device->info().folds_shapes();
    const bool full = folds && d.m % tile_ == 0 && d.n % tile_ == 0 && d.k % kDepth == 0;
    ProgramBuilder builder(device, "gemm");
    builder.Types({compute, d.in, d.out})
        .Define("TRANS_A", d.trans_a)
        .Define("TRANS_B", d.trans_b)
        .Define("TILE", tile_)
        .Define("FULL", full)
        .Define("GEMM_UNROLL", folds)
        .Define("HALF_SUMS", half_sums)
        .Define("GEMM_DOUBLE", compute == kDouble);
    stages_.Define(&builder);
    kernel_ = builder.Body("blas/gemm").GroupKernel("gemm");
    side_ = GroupSide(kernel_->group());
    tile_ = std::min(tile_, 8 * side_);  // as in kernels/math/gemm_tile.h
  }
  const char* library() const override { return half_sums_ ? "generated_half" : "generated"; }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    for (int64_t i = 0; i < d.batch; i += kMaxGridDepth) {
      const int64_t depth = std::min(kMaxGridDepth, d.batch - i);
      const int64_t c_bytes = i * d.batch_stride_c() * static_cast<int64_t>(d.out.bytes());
      EpilogueOperands operands = g.epilogue;
      if (operands.residual) operands.residual = operands.residual + c_bytes;
      KernelArguments arguments;
      arguments.append(
          {d.m, d.n, d.k, g.alpha, g.beta, g.beta != 0, static_cast<int>(d.epilogue.bias)});
      stages_.AddArguments(operands, g.c, &arguments);
      arguments.append({d.row_a(), d.row_b(), d.row_c(), d.batch_stride_a(), d.batch_stride_b(),
                        d.batch_stride_c(),
                        g.a + i * d.batch_stride_a() * static_cast<int64_t>(d.in.bytes()),
                        g.b + i * d.batch_stride_b() * static_cast<int64_t>(d.in.bytes()),
                        g.bias ? g.bias : BufferOf(g.c), g.c + c_bytes});
      kernel_->LaunchInGroups(
          LaunchGroups{{Ceil(d.n, tile_), Ceil(d.m, tile_), depth}, {side_, side_, 1}}, arguments);
    }
  }

 private:
  const bool half_sums_;
  int64_t tile_, side_ = 0;
  const EpilogueStages stages_;
  std::unique_ptr<Kernel> kernel_;
};

// With the tile that `caffe tune` found to be the fastest, or the one of the estimate.
std::unique_ptr<GemmOp> MakeGenerated(Device* device, const GemmDescriptor& d, bool half_sums) {
  const auto make = [=](int64_t tile) {
    return std::make_unique<GeneratedGemmOp>(device, d, tile, half_sums);
  };
  const int64_t estimate = ChooseTile(device, d);
  if (!OnOpenCl(*device)) return make(estimate);
  std::optional<GemmScratch> scratch;
  std::vector<TunedCandidate> candidates;
  std::map<std::string, int64_t> tiles;
  for (const Choice& choice : kChoices) {
    if (!Fits(choice, d)) continue;
    const int64_t tile = choice.tile;
    const std::string name = Concat("tiles of ", tile, "x", tile);
    tiles[name] = tile;
    candidates.push_back({name, [&, tile](double best) {
                            if (!scratch) scratch.emplace(device, d);
                            return scratch->Measure(make(tile).get(), best);
                          }});
  }
  const TunedOperation operation{
      device, half_sums ? "generated_half" : "generated", "1", "product", d.key(), d.in.name()};
  const auto fastest =
      TuningIsExhaustive() ? FastestOf(operation, candidates) : KnownFastest(operation, candidates);
  return make(fastest ? tiles.at(*fastest) : estimate);
}

}  // namespace

GemmLibrary GeneratedLibrary() {
  GemmLibrary row{
      "generated", &OnDevices, [](Device*, const GemmDescriptor& d) { return !d.quantized(); },
      [](Device* device, const GemmDescriptor& d) { return MakeGenerated(device, d, false); }};
  row.compared_opencl = true;
  return row;
}

GemmLibrary GeneratedHalfLibrary() {
  GemmLibrary row{
      "generated_half", &OnOpenCl,
      [](Device* device, const GemmDescriptor& d) {
        // Gradients of weights are stored in float, with more digits than such sums.
        return device->info().native_half && d.in == kHalf && d.out == kHalf;
      },
      [](Device* device, const GemmDescriptor& d) { return MakeGenerated(device, d, true); },
      [](Device*, const GemmDescriptor&) { return false; }};
  row.compared_opencl = true;
  return row;
}

}  // namespace caffe
