#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/generated/matrix_product.hpp"

namespace caffe {

// Products of floats (float, half, bfloat16) with channels last, by the matrix units of a device, or
// by loops where it has none: kernels/conv/matrix_convolution.h. Float is multiplied in three
// products of TF32, with the accuracy of float; an infinite operand yields NaN.
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
  };

  static bool KnowsTypes(DataType in, DataType out);
  // Whether the kernel can read rows of weights as they are: whole vectors in its order.
  static bool ReadsWeights(const Problem& problem);
  // The problem on images in C order, for one on images with channels last without groups and
  // dilation; none if local memory cannot hold the part of an image that a tile reads.
  static std::optional<Problem> OfImages(Problem problem);
  // How many ways of dividing the result there are.
  static int Tilings(const Problem& problem);
  // `tile`: one of these; negative: the fastest by an estimate.
  FloatProduct(Device* device, const Problem& problem, int tile = -1);
  int64_t packed_bytes() const;  // of one group of rows
  // Packs weights [out_channels, plain_channels, plain_kernel…].
  void Pack(DevicePtr weights, DevicePtr packed);
  void Run(const Operands& operands);

 private:
  void DefineImages(ProgramBuilder* builder) const;
  // The tiles of rows of y.
  int64_t RowTiles() const;

  const Problem problem_;
  const EpilogueStages stages_;
  const Tile* tile_;
  int64_t area_[2] = {1, 1};  // of the results of a tile, for images in C order
  int64_t packed_depth_;      // in bytes
  std::unique_ptr<Kernel> product_, pack_;
};

}  // namespace caffe
