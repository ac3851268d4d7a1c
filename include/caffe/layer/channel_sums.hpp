#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Sums over everything but the channel of [outer, channels, inner], for gradients of parameters and
// for statistics: on the device, without atomics, in an order that depends only on the shape and
// the device. A kernel of the layer writes partial sums with many work items per channel; Finish
// adds them up. Sums are float, double for double.
class ChannelSums {
 public:
  ChannelSums() = default;
  // One pass computes `sums` sums per channel. `types` are the layer's, `out` is the results' type.
  ChannelSums(Device* device, const TypeTriple& types, DataType out, int sums = 1);
  // Called in Reshape.
  void Reshape(int64_t outer, int64_t channels, int64_t inner);
  // Launches such a kernel. Its first arguments are channels, outer, inner, slices, lanes, and its
  // last one is the array of parts: [sums, slices * lanes, channels].
  void Launch(Kernel* kernel, const KernelArguments& arguments);
  // The two common cases: the sum of a, or the sum of a * b.
  void Sum(KernelArgument a);
  void Dot(KernelArgument a, KernelArgument b);
  // Two sums: of b, and of a * b.
  void SumAndDot(KernelArgument a, KernelArgument b);
  // The partial sums: parts() is [sums, parts_per_channel(), channels].
  int64_t parts_per_channel() const { return folds_ > 0 ? folds_ : slices_ * lanes_; }
  const BlobBase& parts() const { return folds_ > 0 ? *folded_ : *parts_; }
  // y = the sums of the last pass, or y += them if `add`; y has count() elements of type `out`.
  void Finish(bool add, KernelArgument y);
  // The same for one of the sums; y has channels elements.
  void FinishOne(int which, bool add, KernelArgument y);
  int64_t count() const { return sums_ * channels_; }

 private:
  Device* device_ = nullptr;
  int64_t sums_ = 1, outer_ = 0, channels_ = 0, inner_ = 0;
  // Work items of a channel: `slices` divide the outer axis, `lanes` of each the inner axis.
  int64_t slices_ = 1, lanes_ = 1;
  // If there are many parts, they are first added up to this many: a single work item per channel
  // would wait for memory too often.
  int64_t folds_ = 0;
  std::shared_ptr<BlobBase> parts_, folded_;
  std::unique_ptr<Kernel> sum_, dot_, sum_dot_, fold_, finish_;
};

}  // namespace caffe
