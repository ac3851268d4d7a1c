#include "caffe/library/generated/matrix_product.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/generated/residual_stage.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/row_groups.hpp"

namespace caffe {

namespace {

using Tile = MatrixProduct::Tile;

const std::vector<Tile> kByteTiles{
    {128, 128, 128, 3, 8, 1, 2, 985, 2450, 2}, {128, 96, 128, 3, 8, 1, 2, 830, 1900, 2},
    {128, 64, 128, 3, 8, 1, 2, 670, 1380, 2},  {128, 128, 64, 4, 8, 1, 2, 585, 2520, 2},
    {128, 32, 64, 4, 4, 1, 5, 260, 650, 2},    {256, 64, 64, 3, 8, 1, 2, 650, 2450, 2},
    {128, 64, 64, 3, 4, 1, 4, 345, 1090, 2},   {128, 128, 64, 3, 2, 2, 2, 850, 2300},
    {128, 96, 64, 3, 2, 2, 2, 710, 1850},      {128, 64, 64, 4, 2, 2, 3, 530, 1100},
    {64, 64, 128, 3, 2, 2, 3, 520, 800},       {32, 32, 128, 4, 2, 2, 6, 230, 530},
    {16, 32, 256, 4, 1, 2, 4, 345, 560}};
// For codes of 16 bits a warp has three sums for each result.
const std::vector<Tile> kWordTiles{
    {64, 96, 64, 3, 4, 1, 2, 475, 2200, 2}, {64, 64, 64, 3, 4, 1, 3, 335, 1500, 2},
    {64, 32, 64, 4, 4, 1, 4, 230, 900, 2},  {64, 64, 128, 3, 2, 2, 2, 825, 1500},
    {32, 32, 128, 4, 2, 2, 5, 300, 560},    {16, 32, 256, 4, 1, 2, 4, 410, 560}};
// Sums of 64 bits: fewer results for each work item.
const std::vector<Tile> kWideTiles{{64, 64, 128, 3, 2, 2, 2, 600, 1500},
                                   {16, 32, 256, 4, 1, 2, 4, 400, 600}};
constexpr int64_t kPackedUnit = 64;     // bytes to which rows of weights are rounded up
constexpr int64_t kExactBytes = 32768;  // of SLICE in the kernel

// An estimate of the cycles of a product. A group that is alone on its unit waits for the bytes of
// each step; several take turns. The groups of the last turn may be fewer. Windows take longer than
// points.
double Cycles(const Tile& tile, int64_t groups, int64_t all_steps, bool points, int units) {
  const double latency = 250 + 700.0 / static_cast<double>(tile.stages - 1);
  const int64_t share = Ceil(groups, units);
  const bool at_once = tile.alone > 0 && share <= tile.resident;
  const double step = at_once ? tile.shared : points ? tile.step : 1.2 * tile.step;
  const double alone = at_once ? tile.alone : std::max(latency, 1.3 * step);
  const double steps = static_cast<double>(all_steps);
  const auto turn = [&](int64_t together) {
    const double n = static_cast<double>(together);
    return n > 0 ? steps * std::max(alone, n * step) + n * tile.result : 0;
  };
  return static_cast<double>(share / tile.resident) * turn(tile.resident) +
         turn(share % tile.resident);
}

// The cycles that it adds if `parts` groups divide the steps of a result: they write their sums,
// and the last one waits for these and reads all.
double JoiningCycles(const Tile& tile, int64_t parts) {
  constexpr double kArrival = 3500, kSumsPerCycle = 16;
  return kArrival + static_cast<double>((parts + 4) * tile.m * tile.n) / kSumsPerCycle;
}

// Whether there is an item for each vector of a step.
bool HasItems(const Tile& tile, const MatrixProduct::Problem& p) {
  return tile.k <= tile.items() * MatrixProduct::Vector(p);
}

// The row tiles that have rows, if each group has as many items.
int64_t UsedRowTiles(const MatrixProduct::Problem& p, int64_t tile) {
  const int64_t groups = std::clamp<int64_t>(p.row_groups, 1, p.batch);
  return groups * Ceil(Ceil(MatrixProduct::Rows(p), groups), tile);
}

const std::vector<Tile>& TilesFor(int64_t depth, int64_t bytes) {
  return depth > kExactBytes ? kWideTiles : bytes == 2 ? kWordTiles : kByteTiles;
}

constexpr int64_t kSharers = 32;  // items of a channel in kernels/quant/vector_product.h

// Whether kernels/quant/vector_product.h computes the product.
bool HasFewRows(const MatrixProduct::Problem& p, int64_t rows, int64_t depth) {
  // Rows of groups do not share what they read; there are few of them for each group.
  const int64_t most_rows = p.row_groups > 0 ? 16 : 4;
  constexpr int64_t kVectorBytes = 16;
  return p.type.bytes() == 1 && rows <= most_rows && MatrixProduct::Pointwise(p) &&
         depth % kVectorBytes == 0 && depth <= kExactBytes && !p.epilogue.sum();
}

}  // namespace

void MatrixProduct::CheckItems(const Kernel& kernel, int64_t most, int64_t needed) {
  if (most >= needed) return;
  throw LibraryRefusal(Concat("kernel ", kernel.signature().name, " runs in groups of ", most,
                              " items, and ", needed, " are needed"));
}

bool MatrixProduct::Pointwise(const Problem& p) {
  const Window& w = p.window;
  for (int a = 0; a < 2; ++a) {
    if (w.kernel[a] != 1 || w.stride[a] != 1 || w.pad[a] != 0 || p.spread[a] != 1) return false;
  }
  return p.group == 1;
}

bool MatrixProduct::Tile::RunsOn(Device* device) const {
  const DeviceInfo& info = device->info();
  if (units <= std::max(1, MatrixUnits(device))) return true;
  return info.is_cpu_type && local_bytes() <= info.local_memory_bytes;
}

int MatrixProduct::Tile::UnitsOn(Device* device) const {
  return std::min(units, MatrixUnits(device));
}

void MatrixProduct::Tile::Define(Device* device, ProgramBuilder* builder) const {
  if (UnitsOn(device) == 2) {
    constexpr int64_t kRegisters = 65536, kMost = 255, kUnit = 8;  // of a compute unit, of an item
    const int64_t most = kRegisters / (items() * resident) / kUnit * kUnit;
    builder->Option("--gpu-architecture=sm_90a");
    builder->Option(Concat("--maxrregcount=", std::min(most, kMost)));
  }
  builder->Define("MATRIX_UNITS", UnitsOn(device))
      .Define("TILE_M", m)
      .Define("TILE_N", n)
      .Define("TILE_K", k)
      .Define("STAGES", stages)
      .Define("WARPS_M", warps_m)
      .Define("WARPS_N", warps_n);
}

int64_t MatrixProduct::Steps(const Tile& tile, const Problem& problem) {
  return Ceil(DepthBytes(problem), tile.k);
}

MatrixProduct::Division MatrixProduct::Fastest(const std::vector<Tile>& tiles,
                                               const Problem& problem, Device* device,
                                               int most_units, int64_t most_parts) {
  Division best{nullptr, 1};
  for (const Tile& tile : tiles) {
    if (tile.units > most_units || !HasItems(tile, problem)) continue;
    const int64_t groups = Groups(tile, problem);
    const int64_t steps = Steps(tile, problem), units = device->info().compute_units;
    for (int64_t parts = 1; parts <= std::min(most_parts, steps); ++parts) {
      // More groups than run at once gain nothing.
      if (parts > 1 && groups * parts > units * tile.resident) break;
      const double cycles = Cycles(tile, groups * parts, Ceil(steps, parts), Pointwise(problem),
                                   static_cast<int>(units)) +
                            (parts > 1 ? JoiningCycles(tile, parts) : 0);
      if (!best.tile || cycles < best.cycles) best = {&tile, parts, cycles};
    }
  }
  return best;
}

int64_t MatrixProduct::Groups(const Tile& tile, const Problem& p) {
  return UsedRowTiles(p, tile.m) * Ceil(p.out_channels / p.group, tile.n) * p.group;
}

uint32_t PaddingWord(DataType type, int32_t zero) {
  const auto code = static_cast<uint32_t>(zero);
  return type.bytes() == 1 ? code * 0x01010101u : code * 0x00010001u;
}

int MatrixUnits(Device* device) {
  const DeviceInfo& info = device->info();
  return !info.matrix ? 0 : info.matrix_groups ? 2 : 1;
}

MatrixProduct::Window MatrixProduct::Window::Of(const ConvGeometry& g) {
  const Shape out = g.output();
  Window w;
  for (int a = 0; a < 2; ++a) {
    const int from = a - 2 + g.axes();
    if (from < 0) continue;
    w.input[a] = g.input[from];
    w.output[a] = out[from];
    w.kernel[a] = g.kernel[from];
    w.stride[a] = g.stride[from];
    w.pad[a] = g.pad[from];
    w.dilation[a] = g.dilation[from];
  }
  return w;
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
         p.y_row * bytes <= INT32_MAX &&
         w.input[0] * w.input[1] * p.channels * bytes <= INT32_MAX &&
         w.input[0] * w.dilation[0] < 1 << 27;
}

MatrixProduct::MatrixProduct(Device* device, const Problem& problem, int tile)
    : problem_(problem), bytes_(static_cast<int64_t>(problem.type.bytes())) {
  packed_depth_ = Ceil(DepthBytes(), kPackedUnit) * kPackedUnit;
  if (tile < 0 && HasFewRows(problem_, Rows(), DepthBytes())) {
    MakeVectorProduct(device);
  } else {
    const std::vector<Tile>& tiles = TilesFor(DepthBytes(), bytes_);
    tile_ = tile < 0 ? Fastest(tiles, problem_, device, std::max(1, MatrixUnits(device))).tile
                     : &tiles.at(tile);
    MakeProduct(device);
  }
  pack_ = ProgramBuilder(device, "pack matrix")
              .Types(problem_.type)
              .AlsoType(kQuant8)
              .Body("quant/pack_matrix")
              .Build()
              ->CreateKernel("pack_matrix");
}

void MatrixProduct::MakeVectorProduct(Device* device) {
  ProgramBuilder builder(device, "vector product");
  builder.Types({problem_.type, problem_.type, problem_.out})
      .Define("VALUES", !problem_.out.is_quantized())
      .Define("MATRIX_UNITS", std::min(1, MatrixUnits(device)))
      .Define("ROWS", problem_.row_groups > 0 ? 1 : Rows())
      .Define("ROW_GROUPS", problem_.row_groups)
      .Define("SLOPE", problem_.epilogue.activation().HasSlope())
      .Body("quant/vector_product");
  builder.Fold("depth", DepthBytes());
  product_ = builder.GroupKernel("vector_product");
  CheckItems(*product_, product_->group(), kSharers);
}

void MatrixProduct::MakeProduct(Device* device) {
  const Problem& p = problem_;
  const int64_t row_bytes = p.y_row * bytes_, part = p.out_channels / p.group * bytes_;
  int64_t out_vector = bytes_;
  for (const int64_t vector : {16, 8, 4}) {
    if (out_vector == bytes_ && row_bytes % vector == 0 && part % vector == 0) out_vector = vector;
  }
  const bool relu = p.epilogue.activation().kind == ElementFunction::Kind::kReLU;
  local_bytes_ = tile_->dynamic_bytes(device);
  ProgramBuilder builder(device, "matrix product");
  tile_->Define(device, &builder);
  product_ = builder.Types({p.type, p.type, p.out})
                 .Define("VALUES", !p.out.is_quantized())
                 .Define("VECTOR", Vector(p))
                 .Define("POINTWISE", Pointwise(p))
                 .Define("CODE_BYTES", bytes_)
                 .Define("WIDE", DepthBytes() > kExactBytes)
                 .Define("SLOPE", p.epilogue.activation().HasSlope())
                 .Define("RESIDUAL", !p.epilogue.sum() ? 0
                                     : relu            ? 2
                                                       : 1)
                 .Define("OUT_VECTOR", out_vector)
                 .Define("ROW_GROUPS", p.row_groups)
                 .Body("quant/matrix_product")
                 .Build()
                 ->CreateKernel("matrix_product");
  CheckItems(*product_, product_->most_items(), tile_->items());
}

std::vector<int> MatrixProduct::TilesOn(Device* device, const std::vector<Tile>& tiles,
                                        const Problem& p) {
  std::vector<int> numbers;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i].RunsOn(device) && HasItems(tiles[i], p)) numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

std::vector<int> MatrixProduct::Tilings(Device* device, const Problem& p) {
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  const int64_t depth = p.channels / p.group * p.window.kernel[0] * p.window.kernel[1] * bytes;
  return TilesOn(device, TilesFor(depth, bytes), p);
}

int64_t MatrixProduct::Rows(const Problem& p) {
  return p.batch * p.window.output[0] * p.window.output[1];
}

int64_t MatrixProduct::RowTiles(int64_t tile) const {
  const Problem& p = problem_;
  return RowGroupTiles(p.batch, p.window.output[0] * p.window.output[1], p.row_groups, tile);
}

int64_t MatrixProduct::DepthBytes(const Problem& p) {
  const Window& w = p.window;
  return p.channels / p.group * w.kernel[0] * w.kernel[1] * static_cast<int64_t>(p.type.bytes());
}

KernelArguments MatrixProduct::Geometry(const Problem& p) {
  const Window& w = p.window;
  const int64_t pixel = p.channels * static_cast<int64_t>(p.type.bytes());
  return {Rows(p),       w.input[0],    w.input[1],  w.output[0],     w.output[1],
          w.kernel[1],   w.stride[0],   w.stride[1], w.pad[0],        w.pad[1],
          w.dilation[0], w.dilation[1], pixel,       pixel / p.group, DepthBytes(p)};
}

KernelArguments MatrixProduct::PackedOrder(const Problem& p) {
  return {p.plain_channels,   p.channels / p.group, p.fold[0],
          p.fold[1],          p.plain_kernel[0],    p.plain_kernel[1],
          p.window.kernel[0], p.window.kernel[1],   p.out_channels / p.joined_groups};
}

void MatrixProduct::Pack(DevicePtr codes, DevicePtr packed) {
  const Problem& p = problem_;
  KernelArguments arguments{p.out_channels, packed_depth_, bytes_, WeightZero(p.type)};
  const KernelArguments order = PackedOrder(p);
  arguments.append(order.begin(), order.end());
  arguments.append({codes, packed});
  pack_->Launch({p.out_channels, packed_depth_}, arguments);
}

void MatrixProduct::Run(DevicePtr x, DevicePtr packed, DevicePtr y, const QuantArguments& quant,
                        DevicePtr residual, DevicePtr offsets) {
  const Problem& p = problem_;
  const ResidualStage stage(p.epilogue, p.type, quant);
  const bool slope = static_cast<bool>(quant.negative_multiplier);
  KernelArguments factors{quant.bias, quant.multiplier, quant.shift};
  factors.push_back(slope ? quant.negative_multiplier : quant.multiplier);
  factors.push_back(slope ? quant.negative_shift : quant.shift);
  if (!tile_) {
    const int64_t items = product_->group();
    KernelArguments arguments{p.out_channels, DepthBytes(), packed_depth_, p.y_row};
    arguments.append({stage.low(), stage.high(), offsets ? offsets : packed, x, packed});
    arguments.append(factors.begin(), factors.end());
    arguments.push_back(KernelArgument(y, stage.zero()));
    const int64_t rows = p.row_groups > 0 ? Rows() : 1;
    product_->LaunchInGroups({{Ceil(p.out_channels, items / kSharers), rows, 1}, {items, 1, 1}},
                             arguments);
    return;
  }
  const int64_t group_out = p.out_channels / p.group, column_tiles = Ceil(group_out, tile_->n);
  KernelArguments arguments = Geometry(p);
  arguments.append({packed_depth_, group_out, p.out_channels, p.y_row, column_tiles});
  arguments.append({PaddingWord(p.type, quant.zero_x), stage.low(), stage.high()});
  // Without groups offsets are not read.
  arguments.append({offsets ? offsets : packed, x, packed});
  arguments.append(factors.begin(), factors.end());
  stage.AddArguments(residual, y, &arguments);
  arguments.push_back(KernelArgument(y, stage.zero()));
  const int64_t tiles = RowTiles(tile_->m) * column_tiles;
  product_->LaunchInGroups({{tiles, 1, p.group}, {tile_->items(), 1, 1}, local_bytes_}, arguments);
}

}  // namespace caffe
