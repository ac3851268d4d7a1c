#include "caffe/library/generated/matrix_product.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/generated/residual_stage.hpp"

namespace caffe {

// The results of a work group: m rows by n channels, in steps of k bytes, of which `stages` are in
// local memory. `speed` is that of one compute unit with one group, relative to the largest tile.
struct MatrixProduct::Tile {
  int64_t m, n, k, stages, warps_m, warps_n;
  double speed;
  int64_t items() const { return warps_m * warps_n * 32; }
};

namespace {

using Tile = MatrixProduct::Tile;

// Local memory has 48 KiB. For codes of 16 bits a warp has three sums for each result.
constexpr Tile kByteTiles[] = {{128, 128, 64, 3, 2, 2, 1},   {128, 96, 64, 3, 2, 2, 0.95},
                               {128, 64, 64, 4, 2, 2, 0.85}, {64, 64, 128, 3, 2, 2, 0.7},
                               {32, 32, 128, 4, 2, 2, 0.35}, {16, 32, 256, 4, 1, 2, 0.18}};
constexpr Tile kWordTiles[] = {{128, 64, 64, 3, 4, 2, 1},
                               {64, 64, 128, 3, 2, 2, 0.7},
                               {32, 32, 128, 4, 2, 2, 0.35},
                               {16, 32, 256, 4, 1, 2, 0.18}};
// Sums of 64 bits: fewer results for each work item.
constexpr Tile kWideTiles[] = {{64, 64, 128, 3, 2, 2, 1}, {16, 32, 256, 4, 1, 2, 0.25}};
constexpr int64_t kPackedUnit = 64;     // bytes to which rows of weights are rounded up
constexpr int64_t kExactBytes = 32768;  // of SLICE in the kernel

int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

template <size_t n>
const Tile* Fastest(const Tile (&tiles)[n], const MatrixProduct::Problem& problem, int64_t rows,
                    int units) {
  const Tile* best = nullptr;
  double least = 0;
  for (const Tile& tile : tiles) {
    const int64_t groups =
        Ceil(rows, tile.m) * Ceil(problem.out_channels / problem.group, tile.n) * problem.group;
    const double waves = std::max(1.0, static_cast<double>(groups) / units);
    const double rounds = waves < 4 ? std::ceil(waves) : waves;
    const double time = rounds * static_cast<double>(tile.m * tile.n) / tile.speed;
    if (!best || time < least) {
      best = &tile;
      least = time;
    }
  }
  return best;
}

bool Pointwise(const MatrixProduct::Problem& p) {
  const MatrixProduct::Window& w = p.window;
  for (int a = 0; a < 2; ++a) {
    if (w.kernel[a] != 1 || w.stride[a] != 1 || w.pad[a] != 0) return false;
  }
  return p.group == 1;
}

}  // namespace

uint32_t PaddingWord(DataType type, int32_t zero) {
  const auto code = static_cast<uint32_t>(zero);
  return type.bytes() == 1 ? code * 0x01010101u : code * 0x00010001u;
}

int64_t MatrixProduct::Vector(const Problem& p) {
  const int64_t bytes = p.channels / p.group * static_cast<int64_t>(p.type.bytes());
  for (const int64_t vector : {16, 8, 4}) {
    if (bytes % vector == 0) return vector;
  }
  return 0;
}

bool MatrixProduct::Counts(const Problem& p) {
  const Window& w = p.window;
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  return p.batch * w.output[0] * w.output[1] <= INT32_MAX / 2 &&
         p.channels * bytes * w.kernel[0] * w.kernel[1] <= INT32_MAX / 2 &&
         p.y_row * bytes <= INT32_MAX && w.input[0] * w.dilation[0] < 1 << 27;
}

MatrixProduct::MatrixProduct(Device* device, const Problem& problem)
    : problem_(problem), bytes_(static_cast<int64_t>(problem.type.bytes())) {
  const Problem& p = problem_;
  packed_depth_ = Ceil(DepthBytes(), kPackedUnit) * kPackedUnit;
  const bool wide = DepthBytes() > kExactBytes;
  const int units = device->info().compute_units;
  tile_ = wide          ? Fastest(kWideTiles, p, Rows(), units)
          : bytes_ == 2 ? Fastest(kWordTiles, p, Rows(), units)
                        : Fastest(kByteTiles, p, Rows(), units);
  const int64_t row_bytes = p.y_row * bytes_, part = p.out_channels / p.group * bytes_;
  int64_t out_vector = bytes_;
  for (const int64_t vector : {16, 4}) {
    if (out_vector == bytes_ && row_bytes % vector == 0 && part % vector == 0) out_vector = vector;
  }
  product_ = ProgramBuilder(device, "matrix product")
                 .Types(p.type)
                 .Define("MATRIX_UNITS", device->info().matrix)
                 .Define("TILE_M", tile_->m)
                 .Define("TILE_N", tile_->n)
                 .Define("TILE_K", tile_->k)
                 .Define("STAGES", tile_->stages)
                 .Define("WARPS_M", tile_->warps_m)
                 .Define("WARPS_N", tile_->warps_n)
                 .Define("VECTOR", Vector(p))
                 .Define("POINTWISE", Pointwise(p))
                 .Define("CODE_BYTES", bytes_)
                 .Define("WIDE", wide)
                 .Define("SLOPE", p.epilogue.activation().HasSlope())
                 .Define("RESIDUAL", p.epilogue.sum() != nullptr)
                 .Define("OUT_VECTOR", out_vector)
                 .Body("quant/matrix_product")
                 .Build()
                 ->CreateKernel("matrix_product");
  pack_ = ProgramBuilder(device, "pack matrix")
              .Types(p.type)
              .AlsoType(kQuant8)
              .Body("quant/pack_matrix")
              .Build()
              ->CreateKernel("pack_matrix");
}

int64_t MatrixProduct::Rows() const {
  return problem_.batch * problem_.window.output[0] * problem_.window.output[1];
}

// The bytes of x that a result reads.
int64_t MatrixProduct::DepthBytes() const {
  const Window& w = problem_.window;
  return problem_.channels / problem_.group * w.kernel[0] * w.kernel[1] * bytes_;
}

void MatrixProduct::Pack(DevicePtr codes, DevicePtr packed) {
  const Problem& p = problem_;
  pack_->Launch({p.out_channels, packed_depth_},
                {p.out_channels, packed_depth_, bytes_, WeightZero(p.type), p.plain_channels,
                 p.channels / p.group, p.fold[0], p.fold[1], p.plain_kernel[0], p.plain_kernel[1],
                 p.window.kernel[0], p.window.kernel[1], codes, packed});
}

void MatrixProduct::Run(DevicePtr x, DevicePtr packed, DevicePtr y, const QuantArguments& quant,
                        DevicePtr residual) {
  const Problem& p = problem_;
  const Window& w = p.window;
  const ResidualStage stage(p.epilogue, p.type, quant);
  const bool slope = static_cast<bool>(quant.negative_multiplier);
  const int64_t group_out = p.out_channels / p.group, column_tiles = Ceil(group_out, tile_->n);
  KernelArguments arguments;
  arguments.append({Rows(),
                    w.input[0],
                    w.input[1],
                    w.output[0],
                    w.output[1],
                    w.kernel[1],
                    w.stride[0],
                    w.stride[1],
                    w.pad[0],
                    w.pad[1],
                    w.dilation[0],
                    w.dilation[1],
                    p.channels * bytes_,
                    p.channels / p.group * bytes_,
                    DepthBytes(),
                    packed_depth_,
                    group_out,
                    p.y_row,
                    column_tiles,
                    PaddingWord(p.type, quant.zero_x),
                    stage.low(),
                    stage.high(),
                    x,
                    packed,
                    quant.bias,
                    quant.multiplier,
                    quant.shift,
                    slope ? quant.negative_multiplier : quant.multiplier,
                    slope ? quant.negative_shift : quant.shift});
  stage.AddArguments(residual, y, &arguments);
  arguments.push_back(KernelArgument(y, stage.zero()));
  product_->LaunchInGroups(
      LaunchGroups{{Ceil(Rows(), tile_->m) * column_tiles, 1, p.group}, {tile_->items(), 1, 1}},
      arguments);
}

}  // namespace caffe
