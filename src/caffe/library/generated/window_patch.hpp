#pragma once

#include <optional>

#include "caffe/library/generated/matrix_product.hpp"

namespace caffe {

// The part of images with channels last that the results of a tile read, in local memory:
// kernels/dialect/window_patch.h.
struct WindowPatch {
  int64_t chunks;        // of 16 bytes: a block of the channels of a position
  int64_t blocks;        // of a group's channels
  int64_t lines, width;  // positions, of which a tile may read fewer lines
  int64_t buffers;       // 2 if there are several blocks
  int64_t steps;         // of a block

  // The patch with the fewest steps that fits into `local_bytes` beside the weights; none if
  // windows read each position once, or positions are not whole chunks.
  static std::optional<WindowPatch> Of(const MatrixProduct::Tile& tile,
                                       const MatrixProduct::Problem& problem, int64_t local_bytes);
  int64_t bytes() const;  // of all buffers
  // Copies of 16 bytes for all blocks.
  int64_t copies() const { return lines * width * chunks * blocks; }
  // The defines of the kernel.
  void Define(ProgramBuilder* builder) const;
};

}  // namespace caffe
