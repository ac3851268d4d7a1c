#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/generated/window_patch.hpp"
#include "caffe/library/layout_converter.hpp"

namespace caffe {

// Products of floats (float, half, bfloat16) with channels last, by the matrix units of a device,
// or by loops where it has none: kernels/conv/matrix_convolution.h. Float is multiplied in three
// products of TF32, with the accuracy of float; an infinite operand yields NaN, and may do so in
// half kinds.
class FloatProduct {
 public:
  using Problem = MatrixProduct::Problem;
  using Tile = MatrixProduct::Tile;
  // The operands of a call; `weights` are packed ones if packed_bytes() is not 0. Of groups of rows
  // these are the arrays of all groups, and `offsets` the first item of each.
  struct Operands {
    DevicePtr x, weights, bias, y;
    EpilogueOperands epilogue = {};
    double alpha = 1, beta = 0;
    DevicePtr offsets = {};
    DevicePtr workspace = {};
  };

  static bool KnowsTypes(DataType in, DataType out);
  // Whether the kernel can read rows of weights as they are: whole vectors in its order.
  static bool ReadsWeights(const Problem& problem);
  // The problem on images in C order, for one on images with channels last without groups and
  // dilation; none if local memory cannot hold the part of an image that a tile reads.
  static std::optional<Problem> OfImages(Problem problem);
  // The ways of dividing the result that the device has.
  static std::vector<int> Tilings(Device* device, const Problem& problem);
  // More ways, whose tiles have patches of images.
  static std::vector<int> PatchTilings(const Problem& problem);
  // The fastest way by an estimate.
  FloatProduct(Device* device, const Problem& problem);
  // `tile`: one of Tilings, or of PatchTilings, which have one part; `parts`: the work groups that
  // divide the depth of a result, 1 to MatrixProduct::Steps.
  FloatProduct(Device* device, const Problem& problem, int tile, int64_t parts = 1);
  const Tile& tile() const { return *tile_; }
  // If the tile has one.
  const std::optional<WindowPatch>& patch() const { return patch_; }
  int64_t packed_bytes() const;  // of one group of rows
  int64_t workspace_bytes() const;
  // Packs weights [out_channels, plain_channels, plain_kernel…].
  void Pack(DevicePtr weights, DevicePtr packed);
  void Run(const Operands& operands);

 private:
  struct Way {
    const Tile* tile;
    int64_t parts;
    std::optional<WindowPatch> patch;
  };
  static Way Fastest(const Problem& problem, Device* device);
  static Way WayOf(const Problem& problem, int tile, int64_t parts);
  FloatProduct(Device* device, const Problem& problem, const Way& way);
  void DefineImages(ProgramBuilder* builder) const;
  // The tiles of rows of y, and the work groups of the first index.
  int64_t RowTiles() const;
  int64_t Tiles() const;

  const Problem problem_;
  const EpilogueStages stages_;
  const Tile* tile_;
  const int64_t parts_;
  const std::optional<WindowPatch> patch_;
  int64_t area_[2] = {1, 1};  // of the results of a tile, for images in C order
  int64_t packed_depth_;      // in bytes
  const int64_t local_bytes_;
  std::unique_ptr<Kernel> product_, pack_;
  std::optional<LayoutConverter> turn_;  // packs transposed matrices
  // If several work groups divide a depth: how many arrived, for each result of a group. All are 0
  // between launches, because the last one that arrives sets its counter to 0. They belong to this
  // product, since other steps write to a workspace.
  DeviceArray arrived_;
};

}  // namespace caffe
