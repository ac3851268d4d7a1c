#include "caffe/library/generated/float_product.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/row_groups.hpp"

namespace caffe {
namespace {

using Tile = MatrixProduct::Tile;

// Half kinds take as many products for the bytes of a step as codes of 8 bits. Float takes three
// products, whose sums need registers of their own: it has smaller tiles.
const std::vector<Tile> kHalfTiles{{128, 128, 64, 3, 2, 2, 2, 850, 2300, 1, 1150, 1150},
                                   {128, 64, 64, 4, 2, 2, 3, 530, 1100, 1, 1000, 700},
                                   {64, 64, 128, 3, 2, 2, 3, 520, 800, 1, 900, 720},
                                   {32, 64, 128, 4, 2, 2, 4, 400, 600, 1, 850, 500},
                                   {16, 64, 128, 4, 1, 2, 5, 320, 560, 1, 750, 300},
                                   {16, 32, 256, 4, 1, 1, 4, 345, 560, 1, 1550, 430}};
const std::vector<Tile> kFloatTiles{{128, 128, 64, 3, 4, 2, 1, 1300, 2300, 1, 2650, 2650},
                                    {128, 64, 64, 4, 2, 2, 2, 680, 1100, 1, 1850, 1350},
                                    {64, 64, 128, 3, 2, 2, 3, 750, 800, 1, 2200, 1450},
                                    {32, 64, 128, 4, 2, 2, 4, 480, 600, 1, 1650, 900},
                                    {16, 64, 128, 4, 1, 2, 5, 400, 560, 1, 1600, 520},
                                    {16, 32, 256, 4, 1, 1, 4, 400, 560, 1, 2950, 720}};
constexpr int64_t kPackedUnit = 64;  // bytes to which rows of packed weights are rounded up
constexpr int64_t kChunk = 16;       // bytes of weights that are read at once
constexpr int64_t kMostParts = 32;

int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

const std::vector<Tile>& TilesFor(DataType type) {
  return type == kFloat ? kFloatTiles : kHalfTiles;
}

}  // namespace

bool FloatProduct::KnowsTypes(DataType in, DataType out) {
  if (in == kFloat) return out == kFloat;
  return (in == kHalf || in == kBfloat16) && (out == in || out == kFloat);
}

bool FloatProduct::ReadsWeights(const Problem& p) {
  const bool points = p.window.kernel[0] * p.window.kernel[1] == 1;
  const bool folds = p.fold[0] * p.fold[1] != 1 || p.plain_channels != p.channels / p.group;
  return points && !folds && MatrixProduct::DepthBytes(p) % kChunk == 0;
}

int FloatProduct::Tilings(const Problem& problem) {
  return static_cast<int>(TilesFor(problem.type).size());
}

FloatProduct::FloatProduct(Device* device, const Problem& problem)
    : FloatProduct(device, problem,
                   MatrixProduct::Fastest(TilesFor(problem.type), problem, device, 1,
                                          MatrixUnits(device) > 0 ? kMostParts : 1)) {}

FloatProduct::FloatProduct(Device* device, const Problem& problem, int tile, int64_t parts)
    : FloatProduct(device, problem,
                   MatrixProduct::Division{&TilesFor(problem.type).at(tile), parts}) {}

FloatProduct::FloatProduct(Device* device, const Problem& problem,
                           const MatrixProduct::Division& division)
    : problem_(problem), stages_(problem.epilogue), tile_(division.tile), parts_(division.parts) {
  const Problem& p = problem_;
  const int64_t depth = MatrixProduct::DepthBytes(p);
  packed_depth_ = ReadsWeights(p) ? depth : Ceil(depth, kPackedUnit) * kPackedUnit;
  ProgramBuilder builder(device, "matrix convolution");
  builder.Types({kFloat, p.type, p.out})
      .Define("MATRIX_UNITS", std::min(1, MatrixUnits(device)))
      .Define("ELEMENT_BYTES", static_cast<int64_t>(p.type.bytes()))
      .Define("BFLOAT", p.type == kBfloat16)
      .Define("TILE_M", tile_->m)
      .Define("TILE_N", tile_->n)
      .Define("TILE_K", tile_->k)
      .Define("STAGES", tile_->stages)
      .Define("WARPS_M", tile_->warps_m)
      .Define("WARPS_N", tile_->warps_n)
      .Define("VECTOR", MatrixProduct::Vector(p))
      .Define("POINTWISE", MatrixProduct::Pointwise(p))
      .Define("BIAS", p.epilogue.bias != Epilogue::Bias::kNone)
      .Define("RESIDUAL", p.epilogue.sum() != nullptr)
      .Define("SPLIT", parts_ > 1)
      .Define("ROW_GROUPS", p.row_groups);
  stages_.Define(&builder, "added[c]");
  product_ = builder.Body("conv/matrix_convolution").Build()->CreateKernel("matrix_convolution");
  if (parts_ > 1) {
    const int64_t bytes = Tiles() * p.group * static_cast<int64_t>(sizeof(int32_t));
    arrived_ = DeviceArray(device, bytes, "counters of a product in parts");
    device->Fill(arrived_.get(), 0, bytes);
  }
  if (ReadsWeights(p)) return;
  pack_ = ProgramBuilder(device, "pack weights")
              .Types({kFloat, p.type, p.type})
              .Body("conv/pack_matrix")
              .Build()
              ->CreateKernel("pack_weights");
}

int64_t FloatProduct::packed_bytes() const {
  return pack_ ? problem_.out_channels * packed_depth_ : 0;
}

int64_t FloatProduct::Tiles() const {
  const Problem& p = problem_;
  const int64_t item_rows = p.window.output[0] * p.window.output[1];
  return RowGroupTiles(p.batch, item_rows, p.row_groups, tile_->m) *
         Ceil(p.out_channels / p.group, tile_->n);
}

int64_t FloatProduct::workspace_bytes() const {
  const int64_t sums = tile_->m * tile_->n * static_cast<int64_t>(sizeof(float));
  return parts_ > 1 ? Tiles() * problem_.group * parts_ * sums : 0;
}

void FloatProduct::Pack(DevicePtr weights, DevicePtr packed) {
  const int64_t row = packed_depth_ / static_cast<int64_t>(problem_.type.bytes());
  KernelArguments arguments{problem_.out_channels, row};
  const KernelArguments order = MatrixProduct::PackedOrder(problem_);
  arguments.append(order.begin(), order.end());
  arguments.append({weights, packed});
  pack_->Launch({problem_.out_channels, row}, arguments);
}

void FloatProduct::Run(const Operands& o) {
  const Problem& p = problem_;
  if (o.x.offset % MatrixProduct::Vector(p) != 0 || o.weights.offset % kChunk != 0) {
    throw LibraryRefusal(Concat("x begins at byte ", o.x.offset,
                                " of its memory and the weights at byte ", o.weights.offset,
                                "; matrix units read ", MatrixProduct::Vector(p), " and ", kChunk,
                                " bytes at once"));
  }
  const int64_t group_out = p.out_channels / p.group, column_tiles = Ceil(group_out, tile_->n);
  KernelArguments arguments = MatrixProduct::Geometry(p);
  arguments.append({packed_depth_, p.out_channels, group_out, p.y_row, column_tiles, parts_,
                    Tiles(), o.alpha, o.beta});
  stages_.AddArguments(o.epilogue, o.y, &arguments);
  const DevicePtr none = BufferOf(o.y);
  arguments.append({o.offsets ? o.offsets : none, o.x, o.weights, o.bias ? o.bias : none});
  arguments.append({parts_ > 1 ? o.workspace : none, parts_ > 1 ? arrived_.get() : none, o.y});
  product_->LaunchInGroups({{Tiles(), parts_, p.group}, {tile_->items(), 1, 1}}, arguments);
}

}  // namespace caffe
