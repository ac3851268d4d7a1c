#pragma once

#include <memory>

#include "caffe/layer/weighted_op.hpp"
#include "caffe/library/workspace_layout.hpp"
#include "caffe/quant/min_max.hpp"

namespace caffe {

// A product in codes of 8 bits between a bottom and a top in float. The range of x is that of its
// values in each call: scale and zero point are found on the device, and nothing waits for them.
// Formulas: SumArguments and kernels/quant/dynamic.h. The weights are those of one group.
class DynamicProduct final : public LibraryOp {
 public:
  // The descriptor is that of the layer; its types are replaced.
  DynamicProduct(Device* device, ConvDescriptor descriptor, JointWeights::Groups weights);
  DynamicProduct(Device* device, GemmDescriptor descriptor, JointWeights::Groups weights);
  const Operator& op() const override;
  int64_t products() const override { return products_; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }
  void Run(const Operands& operands) override;
  void Backward(const Gradients& gradients, Workspace* workspace) override;

 private:
  void MakeKernels(Device* device);
  // Writes the codes of x with their padding.
  void Quantize(DevicePtr x, DevicePtr grid, DevicePtr codes);
  void Multiply(DevicePtr codes, DevicePtr sums, DevicePtr workspace);

  std::unique_ptr<ConvOp> conv_;
  std::unique_ptr<GemmOp> gemm_;  // one of the two
  MinMax min_max_;
  std::unique_ptr<Kernel> grid_, codes_, values_;
  // x is [images, channels, height, width], and y has out_channels of `positions`.
  int64_t images_ = 0, channels_ = 0, height_ = 1, width_ = 1, padded_h_ = 1, padded_w_ = 1;
  int64_t pad_h_ = 0, pad_w_ = 0, out_channels_ = 0, positions_ = 1, products_ = 0;
  bool padded_ = false;  // codes differ from x in their extents
  bool nhwc_ = false;    // sums
  WorkspaceLayout layout_;
  int64_t parts_at_ = 0, grid_at_ = 0, codes_at_ = 0, sums_at_ = 0, workspace_at_ = 0;
};

}  // namespace caffe
