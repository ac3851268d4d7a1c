#include "caffe/library/generated/float_product.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/row_groups.hpp"

namespace caffe {
namespace {

using Tile = MatrixProduct::Tile;

// Half kinds take as many products for the bytes of a step as codes of 8 bits. Float takes three
// products, whose sums need registers of their own: it has smaller tiles.
// The last two numbers of tiles with 32, 48 and 96 columns are estimates between those of their
// neighbours.
const std::vector<Tile> kHalfTiles{{128, 128, 128, 3, 8, 1, 2, 870, 3300, 2, 1385, 1040},
                                   {128, 96, 64, 4, 4, 1, 3, 400, 1900, 2, 1120, 760},
                                   {128, 64, 64, 4, 4, 1, 4, 315, 1300, 2, 1115, 765},
                                   {64, 128, 128, 3, 4, 1, 3, 580, 1800, 2, 950, 650},
                                   {128, 128, 64, 3, 2, 2, 2, 760, 3500, 1, 1150, 1150},
                                   {128, 96, 64, 3, 2, 2, 2, 660, 2400, 1, 1080, 920},
                                   {128, 64, 64, 4, 4, 1, 3, 435, 1320, 1, 1000, 700},
                                   {128, 32, 64, 4, 4, 1, 4, 330, 800, 1, 900, 480},
                                   {64, 64, 128, 3, 2, 2, 3, 458, 950, 1, 900, 720},
                                   {32, 64, 128, 4, 2, 2, 4, 343, 750, 1, 850, 500},
                                   {16, 64, 128, 4, 1, 2, 5, 228, 510, 1, 750, 300},
                                   {16, 32, 256, 4, 1, 1, 4, 377, 520, 1, 1550, 430}};
const std::vector<Tile> kFloatTiles{{128, 96, 64, 3, 2, 2, 2, 800, 1700, 1, 2250, 2000},
                                    {128, 64, 64, 4, 2, 2, 2, 550, 1100, 1, 1850, 1350},
                                    {128, 48, 128, 2, 4, 1, 2, 930, 900, 1, 3200, 2200},
                                    {128, 32, 64, 4, 4, 1, 3, 305, 700, 1, 1500, 800},
                                    {64, 64, 128, 3, 2, 2, 2, 680, 800, 1, 2200, 1450},
                                    {32, 64, 128, 4, 2, 2, 4, 480, 600, 1, 1650, 900},
                                    {16, 64, 128, 4, 1, 2, 5, 400, 560, 1, 1600, 520},
                                    {16, 32, 256, 4, 1, 1, 4, 400, 560, 1, 2950, 720}};
// For images in C order, of which local memory has a part as well.
const std::vector<Tile> kHalfImageTiles{{128, 96, 64, 2, 4, 1, 3, 640, 1800},
                                        {128, 64, 64, 3, 4, 1, 3, 450, 1200},
                                        {128, 48, 128, 2, 4, 1, 4, 740, 900},
                                        {32, 32, 64, 4, 2, 1, 6, 150, 400}};
const std::vector<Tile> kFloatImageTiles{{128, 96, 64, 2, 2, 2, 2, 1100, 1800},
                                         {128, 64, 64, 2, 2, 2, 2, 750, 1200},
                                         {128, 48, 128, 2, 4, 1, 2, 1300, 900},
                                         {32, 32, 64, 3, 2, 1, 6, 250, 400}};
// With a patch of images (window_patch.hpp), of half kinds; those of float were slower than plain
// tiles.
const std::vector<Tile> kPatchTiles{{256, 32, 128, 3, 4, 1, 3, 510, 2500},
                                    {256, 32, 64, 4, 4, 1, 3, 282, 2500},
                                    {128, 32, 64, 4, 4, 1, 4, 190, 1300}};
constexpr int64_t kLocalBytes = 48 << 10;  // that each work group can have
constexpr int64_t kPackedUnit = 64;        // bytes to which rows of packed weights are rounded up
constexpr int64_t kChunk = 16;             // bytes that are read at once, of weights always
constexpr int64_t kMostParts = 32;

const std::vector<Tile>& TilesFor(const MatrixProduct::Problem& p) {
  if (p.image_channels > 0) return p.type == kFloat ? kFloatImageTiles : kHalfImageTiles;
  return p.type == kFloat ? kFloatTiles : kHalfTiles;
}

// A rectangle of results of an image, and the bytes of local memory for what these read.
struct Area {
  int64_t height = 0, width = 0, bytes = 0;
  int64_t count(const MatrixProduct::Problem& p) const {
    return Ceil(p.window.output[0], height) * Ceil(p.window.output[1], width);
  }
};

int64_t PatchBytes(const MatrixProduct::Problem& p, int64_t height, int64_t width) {
  const MatrixProduct::Window& w = p.window;
  const int64_t bytes = static_cast<int64_t>(p.type.bytes());
  const int64_t lines = (height - 1) * w.stride[0] + p.plain_kernel[0] / p.image_channels;
  return p.image_channels * lines * ((width - 1) * w.stride[1] + p.channels) * bytes;
}

// The area of a tile with which images have the fewest tiles, of those the one that reads least.
// Its height is 0 if none fits into local memory.
Area AreaOf(const Tile& tile, const MatrixProduct::Problem& p) {
  const int64_t places = Ceil(MatrixProduct::DepthBytes(p), tile.k) * tile.k / 2;
  const int64_t rest = kLocalBytes - tile.stages * tile.n * tile.k - places;
  Area best;
  for (int64_t width = 1; width <= std::min(tile.m, p.window.output[1]); ++width) {
    Area area{std::min(tile.m / width, p.window.output[0]), width};
    area.bytes = PatchBytes(p, area.height, width);
    if (area.bytes > rest) continue;
    const int64_t count = area.count(p), least = best.height > 0 ? best.count(p) : count + 1;
    if (count < least || (count == least && area.bytes < best.bytes)) best = area;
  }
  return best;
}

// The tile that takes least time by an estimate.
const Tile* FastestOfImages(const MatrixProduct::Problem& p, int64_t units) {
  constexpr double kCyclesOfByte = 0.05;  // to copy a byte of an image
  const Tile* best = nullptr;
  double least = 0;
  for (const Tile& tile : TilesFor(p)) {
    const Area area = AreaOf(tile, p);
    if (area.height == 0) continue;
    const int64_t groups = p.batch * area.count(p) * Ceil(p.out_channels, tile.n);
    const double steps = static_cast<double>(Ceil(MatrixProduct::DepthBytes(p), tile.k));
    const double cycles =
        static_cast<double>(Ceil(groups, units)) *
        (steps * tile.step + tile.result + kCyclesOfByte * static_cast<double>(area.bytes));
    if (!best || cycles < least) {
      best = &tile;
      least = cycles;
    }
  }
  return best;
}

// Whether the vectors of x pass by the first cache. The steps of warpgroups leave little of it;
// windows still gain from it if a group reads short pieces of positions.
bool PassesCache(const Tile& tile, const MatrixProduct::Problem& p, Device* device) {
  constexpr int64_t kShortPiece = 64;  // bytes
  const int64_t piece = p.channels / p.group * static_cast<int64_t>(p.type.bytes());
  return tile.UnitsOn(device) == 2 && MatrixProduct::Vector(p) == kChunk &&
         (MatrixProduct::Pointwise(p) || piece > kShortPiece);
}

std::optional<WindowPatch> PatchOf(const Tile& tile, const MatrixProduct::Problem& p) {
  if (p.type == kFloat || p.spread[0] * p.spread[1] > 1) return std::nullopt;
  return WindowPatch::Of(tile, p, kLocalBytes);
}

}  // namespace

FloatProduct::Way FloatProduct::Fastest(const Problem& p, Device* device) {
  const int64_t units = device->info().compute_units;
  if (p.image_channels > 0) return {FastestOfImages(p, units), 1, {}};
  const MatrixProduct::Division plain =
      MatrixProduct::Fastest(TilesFor(p), p, device, std::max(1, MatrixUnits(device)),
                             MatrixUnits(device) > 0 ? kMostParts : 1);
  Way best{plain.tile, plain.parts, {}};
  double least = plain.cycles;
  constexpr double kCyclesOfCopy = 1.56;
  for (const Tile& tile : kPatchTiles) {
    const auto patch = PatchOf(tile, p);
    if (!patch) continue;
    // Groups that run alone take as long as `resident` ones.
    const int64_t turns = Ceil(MatrixProduct::Groups(tile, p), units * tile.resident);
    const double cycles = static_cast<double>(turns * tile.resident) *
                          (static_cast<double>(patch->blocks * patch->steps) * tile.step +
                           kCyclesOfCopy * static_cast<double>(patch->copies()) + tile.result);
    if (cycles >= least) continue;
    best = {&tile, 1, patch};
    least = cycles;
  }
  return best;
}

bool FloatProduct::KnowsTypes(DataType in, DataType out) {
  if (in == kFloat) return out == kFloat;
  return (in == kHalf || in == kBfloat16) && (out == in || out == kFloat);
}

bool FloatProduct::ReadsWeights(const Problem& p) {
  const bool points = p.window.kernel[0] * p.window.kernel[1] == 1;
  if (p.transposed) return false;
  const bool folds = p.fold[0] * p.fold[1] != 1 || p.plain_channels != p.channels / p.group;
  return points && !folds && MatrixProduct::DepthBytes(p) % kChunk == 0;
}

std::optional<FloatProduct::Problem> FloatProduct::OfImages(Problem p) {
  MatrixProduct::Window& w = p.window;
  const int64_t word = 4 / static_cast<int64_t>(p.type.bytes());
  // Pairs of elements begin at even ones.
  if (p.group != 1 || p.row_groups > 0 || w.stride[1] % word != 0) return std::nullopt;
  if (w.dilation[0] != 1 || w.dilation[1] != 1) return std::nullopt;
  p.image_channels = p.channels;
  p.channels = Ceil(w.kernel[1], word) * word;
  p.plain_kernel[0] = w.kernel[0] = w.kernel[0] * p.image_channels;
  p.plain_kernel[1] = w.kernel[1];
  w.kernel[1] = 1;
  // The order of weights: as if a line of a window were one position with folded pixels.
  p.plain_channels = p.fold[0] = 1;
  p.fold[1] = p.channels;
  for (const Tile& tile : TilesFor(p)) {
    if (AreaOf(tile, p).height > 0) return p;
  }
  return std::nullopt;
}

std::vector<int> FloatProduct::Tilings(Device* device, const Problem& problem) {
  return MatrixProduct::TilesOn(device, TilesFor(problem), problem);
}

std::vector<int> FloatProduct::PatchTilings(const Problem& problem) {
  std::vector<int> numbers;
  for (size_t i = 0; i < kPatchTiles.size(); ++i) {
    const int number = static_cast<int>(TilesFor(problem).size() + i);
    if (PatchOf(kPatchTiles[i], problem)) numbers.push_back(number);
  }
  return numbers;
}

FloatProduct::FloatProduct(Device* device, const Problem& problem)
    : FloatProduct(device, problem, Fastest(problem, device)) {}

FloatProduct::FloatProduct(Device* device, const Problem& problem, int tile, int64_t parts)
    : FloatProduct(device, problem, WayOf(problem, tile, parts)) {}

FloatProduct::Way FloatProduct::WayOf(const Problem& p, int tile, int64_t parts) {
  const int plain = static_cast<int>(TilesFor(p).size());
  if (tile < plain) return {&TilesFor(p).at(tile), parts, {}};
  const Tile& one = kPatchTiles.at(tile - plain);
  return {&one, 1, PatchOf(one, p)};
}

FloatProduct::FloatProduct(Device* device, const Problem& problem, const Way& way)
    : problem_(problem),
      stages_(problem.epilogue),
      tile_(way.tile),
      parts_(way.parts),
      patch_(way.patch),
      local_bytes_(way.tile->dynamic_bytes(device)) {
  const Problem& p = problem_;
  if (p.image_channels > 0) {
    const Area area = AreaOf(*tile_, p);
    area_[0] = area.height;
    area_[1] = area.width;
  }
  const int64_t depth = MatrixProduct::DepthBytes(p);
  packed_depth_ = ReadsWeights(p) ? depth : Ceil(depth, kPackedUnit) * kPackedUnit;
  ProgramBuilder builder(device, "matrix convolution");
  tile_->Define(device, &builder);
  builder.Types({kFloat, p.type, p.out})
      .Define("ELEMENT_BYTES", static_cast<int64_t>(p.type.bytes()))
      .Define("BFLOAT", p.type == kBfloat16)
      .Define("VECTOR", MatrixProduct::Vector(p))
      .Define("POINTWISE", MatrixProduct::Pointwise(p))
      .Define("WHOLE_CHUNKS", PassesCache(*tile_, p, device))
      .Define("BIAS", p.epilogue.bias != Epilogue::Bias::kNone)
      .Define("RESIDUAL", p.epilogue.sum() != nullptr)
      .Define("SPLIT", parts_ > 1)
      .Define("SPREAD", p.spread[0] * p.spread[1] > 1)
      .Define("SPREAD_H", p.spread[0])
      .Define("SPREAD_W", p.spread[1])
      .Define("ROW_GROUPS", p.row_groups)
      .Define("IMAGES", p.image_channels > 0)
      .Define("PATCH", patch_.has_value());
  if (p.image_channels > 0) DefineImages(&builder);
  if (patch_) patch_->Define(&builder);
  stages_.Define(&builder, "added[c]");
  product_ = builder.Body("conv/matrix_convolution").Build()->CreateKernel("matrix_convolution");
  MatrixProduct::CheckItems(*product_, product_->most_items(), tile_->items());
  if (parts_ > 1) {
    const int64_t bytes = Tiles() * p.group * static_cast<int64_t>(sizeof(int32_t));
    arrived_ = DeviceArray(device, bytes, "counters of a product in parts");
    device->Fill(arrived_.get(), 0, bytes);
  }
  if (ReadsWeights(p)) return;
  const bool points = p.window.kernel[0] * p.window.kernel[1] == 1;
  if (p.transposed && points && p.group == 1 && packed_depth_ == depth) {
    turn_.emplace(device, p.type);
    return;
  }
  pack_ = ProgramBuilder(device, "pack weights")
              .Types({kFloat, p.type, p.type})
              .Body("conv/pack_matrix")
              .Build()
              ->CreateKernel(p.transposed ? "pack_transposed" : "pack_weights");
}

int64_t FloatProduct::packed_bytes() const {
  return pack_ || turn_ ? problem_.out_channels * packed_depth_ : 0;
}

void FloatProduct::Pack(DevicePtr weights, DevicePtr packed) {
  const int64_t row = packed_depth_ / static_cast<int64_t>(problem_.type.bytes());
  const Problem& p = problem_;
  KernelArguments arguments{p.out_channels, row};
  if (turn_) {
    turn_->Run(1, p.channels, p.out_channels, weights, packed, Layout::kNHWC);
    return;
  }
  if (p.transposed) {
    arguments.append(
        {p.out_channels / p.group, p.channels / p.group, p.window.kernel[0], p.window.kernel[1]});
  } else {
    const KernelArguments order = MatrixProduct::PackedOrder(p);
    arguments.append(order.begin(), order.end());
  }
  arguments.append({weights, packed});
  pack_->Launch({problem_.out_channels, row}, arguments);
}

void FloatProduct::DefineImages(ProgramBuilder* builder) const {
  const Problem& p = problem_;
  builder->Define("CHANNELS", p.image_channels)
      .Define("KERNEL_H", p.plain_kernel[0] / p.image_channels)
      .Define("KERNEL_W", p.plain_kernel[1])
      .Define("STRIDE_H", p.window.stride[0])
      .Define("STRIDE_W", p.window.stride[1])
      .Define("AREA_H", area_[0])
      .Define("AREA_W", area_[1]);
}

int64_t FloatProduct::RowTiles() const {
  const Problem& p = problem_;
  const int64_t height = p.window.output[0], width = p.window.output[1];
  if (p.image_channels > 0) return p.batch * Ceil(height, area_[0]) * Ceil(width, area_[1]);
  return RowGroupTiles(p.batch, height * width, p.row_groups, tile_->m);
}

int64_t FloatProduct::Tiles() const {
  return RowTiles() * Ceil(problem_.out_channels / problem_.group, tile_->n);
}

int64_t FloatProduct::workspace_bytes() const {
  const int64_t sums = tile_->m * tile_->n * static_cast<int64_t>(sizeof(float));
  return parts_ > 1 ? Tiles() * problem_.group * parts_ * sums : 0;
}

void FloatProduct::Run(const Operands& o) {
  const Problem& p = problem_;
  const int64_t vector =
      p.image_channels > 0 ? static_cast<int64_t>(p.type.bytes()) : MatrixProduct::Vector(p);
  if (o.x.offset % vector != 0 || o.weights.offset % kChunk != 0) {
    throw LibraryRefusal(Concat("x begins at byte ", o.x.offset,
                                " of its memory and the weights at byte ", o.weights.offset,
                                "; matrix units read ", vector, " and ", kChunk, " bytes at once"));
  }
  const int64_t group_out = p.out_channels / p.group, column_tiles = Ceil(group_out, tile_->n);
  KernelArguments arguments = MatrixProduct::Geometry(p);
  arguments.append({packed_depth_, p.out_channels, group_out, p.y_row, column_tiles, parts_,
                    Tiles(), o.alpha, o.beta});
  stages_.AddArguments(o.epilogue, o.y, &arguments);
  const DevicePtr none = BufferOf(o.y);
  arguments.append({o.offsets ? o.offsets : none, o.x, o.weights, o.bias ? o.bias : none});
  arguments.append({parts_ > 1 ? o.workspace : none, parts_ > 1 ? arrived_.get() : none, o.y});
  product_->LaunchInGroups({{Tiles(), parts_, p.group}, {tile_->items(), 1, 1}, local_bytes_},
                           arguments);
}

}  // namespace caffe
