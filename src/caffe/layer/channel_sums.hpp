#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/memory/blob.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

// Sums over everything but the channel of [outer, channels, inner], for gradients of parameters and
// for statistics: on the device, without atomics, in an order that depends only on the shape and
// the device. A kernel of the layer writes partial sums with many work items per channel; Finish
// adds them up. Sums are float, double for double. The partial sums lie in the workspace, from the
// start of a pass until its last Finish; no other computation may use the workspace in between.
class ChannelSums {
 public:
  ChannelSums() = default;
  // One pass computes `sums` sums per channel. `types` are the layer's, `out` is the results' type.
  ChannelSums(Workspace* workspace, const TypeTriple& types, DataType out, int sums = 1);
  // Called in Reshape. States the need of workspace if `runs`: a pass will probably be computed.
  void Reshape(int64_t outer, int64_t channels, int64_t inner, bool runs);
  // The same for [rows, channels], by kernels of norm/channel_norm_spans.h: a work item computes a
  // span of channels. Devices only; not for Sum, Dot and SumAndDot.
  void ReshapeSpans(int64_t rows, int64_t channels);
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Launches such a kernel. Its first arguments are channels, outer, inner, slices, lanes, and its
  // last one is the array of parts: [sums, slices * lanes, channels].
  void Launch(Kernel* kernel, const KernelArguments& arguments);
  // The two common cases: the sum of a, or the sum of a * b.
  void Sum(KernelArgument a);
  void Dot(KernelArgument a, KernelArgument b);
  // Two sums: of b, and of a * b.
  void SumAndDot(KernelArgument a, KernelArgument b);
  // The partial sums of the last pass: [sums, parts_per_channel(), channels].
  int64_t parts_per_channel() const { return folds_ > 0 ? folds_ : slices_ * lanes_; }
  DevicePtr parts() { return folds_ > 0 ? Folded() : AllParts(); }
  // y = the sums of the last pass, or y += them if `add`; y has count() elements of type `out`.
  void Finish(bool add, KernelArgument y);
  // The same for one of the sums; y has channels elements.
  void FinishOne(int which, bool add, KernelArgument y);
  int64_t count() const { return sums_ * channels_; }

 private:
  int64_t bytes(int64_t parts) const;
  // The parts of `slices_` and `lanes_`.
  void PlanParts();
  DevicePtr AllParts() { return workspace_->Need(workspace_bytes_); }
  DevicePtr Folded();

  Workspace* workspace_ = nullptr;
  DataType master_ = kFloat;
  int64_t sums_ = 1, outer_ = 0, channels_ = 0, inner_ = 0;
  // Work items of a channel: `slices` divide the outer axis, `lanes` of each the inner axis.
  int64_t slices_ = 1, lanes_ = 1;
  // If there are many parts, they are first added up to this many: a single work item per channel
  // would wait for memory too often.
  int64_t folds_ = 0;
  int64_t span_ = 1;  // channels of a work item
  int64_t workspace_bytes_ = 0;
  std::unique_ptr<Kernel> sum_, dot_, sum_dot_, fold_, finish_;
};

}  // namespace caffe
