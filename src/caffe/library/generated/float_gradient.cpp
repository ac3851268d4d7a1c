#include "caffe/library/generated/float_gradient.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/generated/float_product.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

using Tile = MatrixProduct::Tile;

// Rows of operands have 128 bytes or more. The cycles are those of FloatProduct's tiles of the same
// size.
const std::vector<Tile> kHalfTiles{{128, 128, 64, 3, 2, 4, 2, 600, 3300, 1, 700, 700},
                                   {128, 64, 64, 4, 4, 1, 3, 435, 1320, 1, 700, 600},
                                   {64, 128, 64, 4, 2, 2, 3, 435, 1320, 1, 700, 600},
                                   {64, 64, 64, 4, 2, 2, 5, 250, 950, 1, 500, 380}};
const std::vector<Tile> kFloatTiles{{128, 64, 64, 3, 4, 2, 2, 800, 1100, 1, 1000, 1000},
                                    {64, 64, 64, 4, 2, 2, 3, 450, 800, 1, 900, 700},
                                    {32, 64, 64, 4, 1, 2, 4, 300, 600, 1, 700, 450},
                                    {64, 32, 64, 4, 2, 1, 4, 300, 600, 1, 700, 450}};
constexpr int64_t kMostParts = 128;

const std::vector<Tile>& TilesFor(const MatrixProduct::Problem& p) {
  return p.type == kFloat ? kFloatTiles : kHalfTiles;
}

// The sizes of the result, as those of a product of matrices, whose rows are the channels of y and
// whose depth are positions.
MatrixProduct::Problem SizesOf(const MatrixProduct::Problem& p) {
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  MatrixProduct::Problem sizes;
  sizes.type = p.type;
  sizes.batch = p.out_channels / p.group;
  sizes.group = p.group;
  sizes.channels = RoundUp(MatrixProduct::Rows(p), 16) * p.group;
  sizes.out_channels = MatrixProduct::DepthBytes(p) / bytes * p.group;
  return sizes;
}

// The bytes of y that are read at once, as MatrixProduct::Vector those of x.
int64_t VectorY(const MatrixProduct::Problem& p) {
  MatrixProduct::Problem y;
  y.type = p.type;
  y.channels = p.out_channels;
  y.group = p.group;
  return MatrixProduct::Vector(y);
}

}  // namespace

bool FloatGradient::Computes(const Problem& p) {
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  return FloatProduct::KnowsTypes(p.type, kFloat) && p.image_channels == 0 && p.row_groups == 0 &&
         MatrixProduct::Vector(p) > 0 && VectorY(p) > 0 && MatrixProduct::Counts(p) &&
         p.out_channels * bytes <= INT32_MAX;
}

std::vector<int> FloatGradient::Tilings(Device* device, const Problem& p) {
  return MatrixProduct::TilesOn(device, TilesFor(p), SizesOf(p));
}

FloatGradient::Way FloatGradient::Fastest(Device* device, const Problem& p) {
  const auto division = MatrixProduct::Fastest(TilesFor(p), SizesOf(p), device, 1,
                                               MatrixUnits(device) > 0 ? kMostParts : 1);
  return {division.tile, division.parts};
}

FloatGradient::FloatGradient(Device* device, const Problem& problem)
    : FloatGradient(device, problem, Fastest(device, problem)) {}

FloatGradient::FloatGradient(Device* device, const Problem& problem, int tile, int64_t parts)
    : FloatGradient(device, problem, Way{&TilesFor(problem).at(tile), parts}) {}

FloatGradient::FloatGradient(Device* device, const Problem& problem, const Way& way)
    : problem_(problem), tile_(way.tile), parts_(way.parts) {
  const Problem& p = problem_;
  ProgramBuilder builder(device, "gradient of weights");
  tile_->Define(device, &builder);
  builder.Types({kFloat, p.type, p.type})
      .Define("ELEMENT_BYTES", static_cast<int64_t>(p.type.bytes()))
      .Define("BFLOAT", p.type == kBfloat16)
      .Define("VECTOR", MatrixProduct::Vector(p))
      .Define("VECTOR_Y", VectorY(p))
      .Define("POINTWISE", MatrixProduct::Pointwise(p))
      .Define("JOINED", p.joined_groups > 1)
      .Define("SPLIT", parts_ > 1);
  kernel_ = builder.Body("conv/matrix_gradient").Build()->CreateKernel("matrix_gradient");
  MatrixProduct::CheckItems(*kernel_, kernel_->most_items(), tile_->items());
  if (parts_ > 1) {
    const int64_t bytes = Tiles() * p.group * static_cast<int64_t>(sizeof(int32_t));
    arrived_ = DeviceArray(device, bytes, "counters of a gradient in parts");
    device->Fill(arrived_.get(), 0, bytes);
  }
}

int64_t FloatGradient::Tiles() const {
  const Problem sizes = SizesOf(problem_);
  return Ceil(sizes.batch, tile_->m) * Ceil(sizes.out_channels / sizes.group, tile_->n);
}

int64_t FloatGradient::workspace_bytes() const {
  const int64_t sums = tile_->m * tile_->n * static_cast<int64_t>(sizeof(float));
  return parts_ > 1 ? Tiles() * problem_.group * parts_ * sums : 0;
}

void FloatGradient::Run(const Operands& o) {
  const Problem& p = problem_;
  if (o.x.offset % MatrixProduct::Vector(p) != 0 || o.y_diff.offset % VectorY(p) != 0) {
    throw LibraryRefusal(Concat("x begins at byte ", o.x.offset, " of its memory and y at byte ",
                                o.y_diff.offset, "; matrix units read ", MatrixProduct::Vector(p),
                                " and ", VectorY(p), " bytes at once"));
  }
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  const int64_t columns = MatrixProduct::DepthBytes(p) / bytes;
  KernelArguments arguments = MatrixProduct::Geometry(p);
  arguments.append(
      {p.out_channels * bytes, p.out_channels / p.group, Ceil(columns, tile_->n), parts_, Tiles()});
  const KernelArguments order = MatrixProduct::PackedOrder(p);
  arguments.append(order.begin(), order.end());
  const Quotient line(p.window.output[1]), image(p.window.output[0]);
  arguments.append({line.multiplier, line.shift, image.multiplier, image.shift});
  const DevicePtr none = BufferOf(o.w_diff);
  arguments.append({o.alpha, o.beta, o.y_diff, o.x, parts_ > 1 ? o.workspace : none,
                    parts_ > 1 ? arrived_.get() : none, o.w_diff});
  kernel_->LaunchInGroups({{Tiles(), parts_, p.group}, {tile_->items(), 1, 1}}, arguments);
}

}  // namespace caffe
