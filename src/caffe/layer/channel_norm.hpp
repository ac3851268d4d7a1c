#pragma once

#include <cstdint>
#include <memory>

#include "caffe/layer/channel_sums.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/parallel/communicator.hpp"

namespace caffe {

// y = slope v + bias with v = (x - mean) inverse, for each channel of [outer, channels, inner];
// with `relu` its values below 0 are replaced by 0. x may be y. With d = dE/dy, or 0 where ReLU has
// no gradient:
//   dE/dslope = sum of v d, dE/dbias = sum of d
//   dE/dx = slope inverse (d - mean of d - v times mean of v d), if the statistics are those of x,
//   else slope inverse d
// One pass over memory computes y, one both sums, and one dE/dx: v is not stored.
class ChannelNorm {
 public:
  // mean, inverse, slope and bias are masters with a value for each channel.
  struct Operands {
    KernelArgument x, mean, inverse, slope, bias;
    bool relu = false;
  };

  ChannelNorm() = default;
  // Masters are float, double for double.
  ChannelNorm(Workspace* workspace, const TypeTriple& types);
  // Called in Reshape. `trains`: states the need of workspace of Sum.
  void Reshape(int64_t outer, int64_t channels, int64_t inner, bool trains);
  // The same for [rows, channels] with kernels that read spans of channels, on devices.
  void ReshapeSpans(int64_t rows, int64_t channels);
  int64_t workspace_bytes() const { return sums_.workspace_bytes(); }

  void Forward(const Operands& of, KernelArgument y);
  // Computes the sums that the three functions below use.
  void Sum(const Operands& of, KernelArgument y_diff);
  void AddSlopeGradient(KernelArgument slope_diff) { Add(1, slope_diff); }
  void AddBiasGradient(KernelArgument bias_diff) { Add(0, bias_diff); }
  // The three in one.
  void SumAndAdd(const Operands& of, KernelArgument y_diff, KernelArgument slope_diff,
                 KernelArgument bias_diff);
  // `batch`: the statistics are those of x. Without it, Sum and x are not needed. x_diff may be
  // y_diff. `joint`: the statistics are those of the batches of all ranks, and so are the means.
  void Backward(const Operands& of, bool batch, KernelArgument y_diff, KernelArgument x_diff,
                Communicator* joint = nullptr);

 private:
  void Add(int which, KernelArgument diff);

  Device* device_ = nullptr;
  TypeTriple types_;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  ChannelSums sums_;
  std::shared_ptr<BlobBase> totals_;  // [2, channels]: sums of d and of v d
  std::unique_ptr<Kernel> rows_, columns_, gradient_parts_, accumulate_;
  std::unique_ptr<Kernel> gradient_rows_, gradient_columns_;
  // The kernels of ReshapeSpans; null without it.
  std::unique_ptr<Kernel> spans_, gradient_parts_of_spans_, gradient_finish_, gradient_spans_;
  int64_t items_ = 0, slices_ = 0;  // of passes that write elements
};

}  // namespace caffe
