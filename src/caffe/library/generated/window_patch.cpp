#include "caffe/library/generated/window_patch.hpp"

#include <algorithm>

#include "caffe/device/program_builder.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

using Problem = MatrixProduct::Problem;
using Tile = MatrixProduct::Tile;

constexpr int64_t kChunk = 16;      // bytes that are copied at once
constexpr int64_t kMostChunks = 8;  // of a block

// The lines that `rows` neighbouring results read at most, wherever they begin. Those of another
// image do not share lines with it.
int64_t MostLines(const MatrixProduct::Window& w, int64_t rows, int64_t batch) {
  const int64_t reach = (w.kernel[0] - 1) * w.dilation[0] + 1;
  const int64_t most = std::min((rows + w.output[1] - 2) / w.output[1] + 1, batch * w.output[0]);
  const int64_t images = std::min((most + w.output[0] - 2) / w.output[0], batch - 1) + 1;
  return (most - images) * w.stride[0] + (images - 1) * std::max(reach, w.stride[0]) + reach;
}

}  // namespace

std::optional<WindowPatch> WindowPatch::Of(const Tile& tile, const Problem& p,
                                           int64_t local_bytes) {
  const MatrixProduct::Window& w = p.window;
  const int64_t taps = w.kernel[0] * w.kernel[1];
  if (taps == 1 || p.image_channels > 0 || MatrixProduct::Vector(p) != kChunk) return std::nullopt;
  const int64_t all = p.channels / p.group * static_cast<int64_t>(p.type.bytes()) / kChunk;
  std::optional<WindowPatch> best;
  for (int64_t chunks = 1; chunks <= std::min(all, kMostChunks); ++chunks) {
    if (all % chunks != 0) continue;
    WindowPatch patch;
    patch.chunks = chunks;
    patch.blocks = all / chunks;
    patch.lines = MostLines(w, tile.m, p.batch);
    patch.width = (w.output[1] - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
    patch.steps = Ceil(taps * chunks * kChunk, tile.k);
    const int64_t tables = (2 * patch.steps * tile.k / kChunk + patch.lines + tile.m) *
                           static_cast<int64_t>(sizeof(int));
    const int64_t rest = local_bytes - tile.stages * tile.n * tile.k - tables;
    patch.buffers = patch.blocks > 1 ? 2 : 1;
    // Copies of the next block begin when the steps of the last one are computed.
    if (patch.bytes() > rest || (patch.blocks > 1 && patch.steps < tile.stages)) continue;
    // A position has fewer copies than without a patch.
    if (patch.lines * patch.width > taps * tile.m) continue;
    // A block that ends within a step wastes the rest of it.
    if (!best || patch.blocks * patch.steps <= best->blocks * best->steps) best = patch;
  }
  return best;
}

int64_t WindowPatch::bytes() const { return buffers * lines * width * (chunks | 1) * kChunk; }

void WindowPatch::Define(ProgramBuilder* builder) const {
  builder->Define("PATCH_CHUNKS", chunks)
      .Define("PATCH_LINES", lines)
      .Define("PATCH_WIDTH", width)
      .Define("PATCH_BUFFERS", buffers)
      .Define("PATCH_STEPS", steps);
}

}  // namespace caffe
