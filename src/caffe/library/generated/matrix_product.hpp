#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/device/kernel.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"

namespace caffe {

class Device;
class ProgramBuilder;

// Products of codes with channels last, by the matrix units of a device, or by loops where it has
// none: kernels/quant/matrix_product.h.
class MatrixProduct {
 public:
  // A window over positions of images; a product of matrices has images of one position.
  struct Window {
    static Window Of(const ConvGeometry& geometry);  // one axis is an image of one row
    int64_t input[2] = {1, 1}, output[2] = {1, 1}, kernel[2] = {1, 1}, stride[2] = {1, 1};
    int64_t pad[2] = {0, 0}, dilation[2] = {1, 1};
  };
  struct Problem {
    DataType type;  // of x and of codes
    DataType out;   // of y; float for codes: the real values of sums
    int64_t batch = 1;
    Window window;
    int64_t channels = 0, out_channels = 0, group = 1;  // of x, of y
    int64_t y_row = 0;                                  // elements between positions of y
    int64_t row_groups = 0;                             // groups of images with own weights
    Epilogue epilogue;
    // How the window came from that of the weights: each position holds fold[0] x fold[1] pixels of
    // `plain_channels` channels, and the weights have windows of plain_kernel.
    int64_t fold[2] = {1, 1}, plain_kernel[2] = {1, 1}, plain_channels = 0;
    // Groups of the convolution that are computed as one, whose weights are 0 for the channels of
    // other groups; `group` is 1 then.
    int64_t joined_groups = 1;
    // Not 0: x has C order and as many channels, see kernels/dialect/image_tiles.h. `channels` are
    // the elements of a line of a window in whole words, and the window's lines are those of all
    // channels.
    int64_t image_channels = 0;
    // For floats, the gradient of the input of a convolution whose output x is: the weights are
    // those of the convolution, [channels, out_channels / group, kernel…]. Only positions of x at
    // multiples of `spread` are in memory, the others are 0; window.input counts all of them.
    bool transposed = false;
    int64_t spread[2] = {1, 1};
  };
  // The results of a work group: m rows by n channels, in steps of k bytes, of which `stages` are
  // in local memory; a compute unit has `resident` groups at a time. m k and n k are multiples of
  // 16 bytes for each item. `step` and `result`: the cycles of an H200 that a step of points and
  // the results of a group take, measured with many groups. `units`: see kernels/dialect/matrix.h.
  // The others are cycles of a step where all groups run at once: of a group that is `alone` on its
  // compute unit, and of each one of several that share it; 0: not measured.
  struct Tile {
    int64_t m, n, k, stages, warps_m, warps_n, resident;
    double step, result;
    int units = 1;
    double alone = 0, shared = 0;
    int64_t items() const { return warps_m * warps_n * 32; }
    int64_t local_bytes() const { return stages * (m + n) * k; }
    // Whether the device computes it: by instructions, or by loops if local memory holds all steps.
    bool RunsOn(Device* device) const;
    // MATRIX_UNITS for a device.
    int UnitsOn(Device* device) const;
    // Local memory whose size a launch states, and the defines of kernels/dialect/matrix.h and
    // matrix_tiles.h.
    int64_t dynamic_bytes(Device* device) const { return UnitsOn(device) == 2 ? local_bytes() : 0; }
    void Define(Device* device, ProgramBuilder* builder) const;
  };
  // `parts`: the work groups that divide the depth of a result; `cycles`: an estimate.
  struct Division {
    const Tile* tile;
    int64_t parts;
    double cycles = 0;
  };
  // The fastest one by an estimate, whose tile has at most `most_units`, and an item for each
  // vector of a step.
  static Division Fastest(const std::vector<Tile>& tiles, const Problem& problem, Device* device,
                          int most_units, int64_t most_parts = 1);
  // The work groups of a result in tiles that have rows.
  static int64_t Groups(const Tile& tile, const Problem& problem);
  // The steps of a result.
  static int64_t Steps(const Tile& tile, const Problem& problem);
  // The rows of y, the bytes of x that a result reads, and whether these are rows of x.
  static int64_t Rows(const Problem& problem);
  static int64_t DepthBytes(const Problem& problem);
  static bool Pointwise(const Problem& problem);
  // The first arguments of the kernels: rows, and the window; and those of packing, from `channels`
  // on.
  static KernelArguments Geometry(const Problem& problem);
  static KernelArguments PackedOrder(const Problem& problem);

  // Refuses the product if groups of the kernel have fewer items than needed.
  static void CheckItems(const Kernel& kernel, int64_t most, int64_t needed);

  // The bytes of x that can be read at once: 16, 8 or 4; 0 if positions are not multiples of 4
  // bytes, which is not supported.
  static int64_t Vector(const Problem& problem);
  // Whether all indices fit into those of the kernels.
  static bool Counts(const Problem& problem);

  // The numbers of the tiles by which the device computes a problem.
  static std::vector<int> TilesOn(Device* device, const std::vector<Tile>& tiles,
                                  const Problem& problem);
  // The ways of dividing the result that the device has.
  static std::vector<int> Tilings(Device* device, const Problem& problem);
  // `tile`: one of Tilings; negative: the fastest by an estimate.
  MatrixProduct(Device* device, const Problem& problem, int tile = -1);
  // The bytes of the packed weights of one group of images.
  int64_t packed_bytes() const { return problem_.out_channels * packed_depth_; }
  // Packs weights [out_channels, plain_channels, plain_kernel…].
  void Pack(DevicePtr codes, DevicePtr packed);
  // `residual` is laid out as y; null if the epilogue has no sum. `offsets`: of the groups of
  // images.
  void Run(DevicePtr x, DevicePtr packed, DevicePtr y, const QuantArguments& quant,
           DevicePtr residual, DevicePtr offsets = {});

 private:
  int64_t Rows() const { return Rows(problem_); }
  // The rows of work groups; `tile` rows in each.
  int64_t RowTiles(int64_t tile) const;
  int64_t DepthBytes() const { return DepthBytes(problem_); }
  void MakeProduct(Device* device);
  void MakeVectorProduct(Device* device);

  const Problem problem_;
  const int64_t bytes_;         // of a code
  const Tile* tile_ = nullptr;  // null: a few rows, by kernels/quant/vector_product.h
  int64_t packed_depth_;        // in bytes
  int64_t local_bytes_ = 0;
  std::unique_ptr<Kernel> product_, pack_;
};

// The code of padding, repeated in 4 bytes.
uint32_t PaddingWord(DataType type, int32_t zero);

// MATRIX_UNITS of kernels/dialect/matrix.h for a device. The null device's text is for every device
// of its backend.
int MatrixUnits(Device* device);

}  // namespace caffe
