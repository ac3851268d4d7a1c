#pragma once

#include <memory>
#include <vector>

#include "caffe/library/device_array.hpp"
#include "caffe/library/generated/matrix_product.hpp"

namespace caffe {

// Gradients of weights of floats with channels last, by the matrix units of a device, or by loops
// where it has none: kernels/conv/matrix_gradient.h. Sums are float, as precise as FloatProduct's.
class FloatGradient {
 public:
  using Problem = MatrixProduct::Problem;
  using Tile = MatrixProduct::Tile;

  // Whether positions of x and of y are whole words, and all indices fit into those of the kernel.
  // A problem is that of the forward pass; its epilogue and the type of y have no effect.
  static bool Computes(const Problem& problem);
  // The ways of dividing the result that the device has.
  static std::vector<int> Tilings(Device* device, const Problem& problem);
  // The fastest way by an estimate.
  FloatGradient(Device* device, const Problem& problem);
  // `tile`: one of Tilings; `parts`: the work groups that divide the positions of a result.
  FloatGradient(Device* device, const Problem& problem, int tile, int64_t parts);
  int64_t workspace_bytes() const;
  // w_diff = beta w_diff + alpha the gradient, [out_channels, plain_channels, plain_kernel…], in
  // float.
  struct Operands {
    DevicePtr y_diff, x, w_diff, workspace;
    double alpha = 1, beta = 1;
  };
  void Run(const Operands& operands);

 private:
  struct Way {
    const Tile* tile;
    int64_t parts;
  };
  static Way Fastest(Device* device, const Problem& problem);
  FloatGradient(Device* device, const Problem& problem, const Way& way);
  int64_t Tiles() const;

  const Problem problem_;
  const Tile* tile_;
  const int64_t parts_;
  std::unique_ptr<Kernel> kernel_;
  DeviceArray arrived_;  // as in FloatProduct
};

}  // namespace caffe
