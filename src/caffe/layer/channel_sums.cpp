#include "caffe/layer/channel_sums.hpp"

#include <algorithm>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

// Most host threads per sum. It must not depend on the machine.
constexpr int64_t kHostParts = 64;
// Neighbouring spans that a device reads in one access.
constexpr int64_t kLanes = 32;
constexpr int64_t kMaxLanes = 4096;
// Work items that fill a compute unit, and the fewest elements per item.
constexpr int64_t kItemsPerUnit = 1024;
constexpr int64_t kElementsPerItem = 8;
// The same for spans of channels: fewer items have more loads each, and write fewer parts.
constexpr int64_t kSpanItemsPerUnit = 512;
constexpr int64_t kRowsPerItem = 16;
// Most parts that one work item adds up, and the fewest groups to fold parts into.
constexpr int64_t kFewParts = 64;
constexpr int64_t kFolds = 16;
constexpr int64_t kAlignment = 256;  // bytes, of arrays in the workspace

}  // namespace

ChannelSums::ChannelSums(Workspace* workspace, const TypeTriple& types, DataType out, int sums)
    : workspace_(workspace), master_(types.compute == kDouble ? kDouble : kFloat), sums_(sums) {
  const auto make = [&](const TypeTriple& triple) {
    return ProgramBuilder(workspace->device(), "channel_sums")
        .Types(triple)
        .Body("norm/channel_sums")
        .Build();
  };
  const auto program = make(types);
  sum_ = program->CreateKernel("channel_sum");
  dot_ = program->CreateKernel("channel_dot");
  sum_dot_ = program->CreateKernel("channel_sum_dot");
  fold_ = (types.out == master_ ? program : make(TypeTriple::Equal(master_)))
              ->CreateKernel("channel_sums_finish");
  finish_ = (types.out == out ? program : make(TypeTriple::Equal(out)))
                ->CreateKernel("channel_sums_finish");
}

int64_t ChannelSums::bytes(int64_t parts) const {
  const int64_t bytes = sums_ * parts * channels_ * static_cast<int64_t>(master_.bytes());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

DevicePtr ChannelSums::Folded() { return AllParts() + bytes(slices_ * lanes_); }

void ChannelSums::Reshape(int64_t outer, int64_t channels, int64_t inner, bool runs) {
  const Device& device = *workspace_->device();
  outer_ = outer;
  channels_ = channels;
  inner_ = inner;
  slices_ = lanes_ = span_ = 1;
  const int64_t count = outer * channels * inner;
  if (count > 0 && !device.has_groups()) {
    slices_ = std::clamp<int64_t>(kHostParts / channels, 1, outer);
  } else if (count > 0) {
    const int64_t items = std::clamp<int64_t>(device.info().compute_units * kItemsPerUnit, 1,
                                              count / kElementsPerItem + 1);
    const int64_t span = device.info().span(), spans = (inner + span - 1) / span;
    while (2 * lanes_ <= std::min(spans, kLanes)) lanes_ *= 2;
    while (2 * lanes_ <= std::min(spans, kMaxLanes) && channels * lanes_ * outer < items) {
      lanes_ *= 2;
    }
    slices_ = std::clamp<int64_t>(items / (channels * lanes_), 1, outer);
  }
  PlanParts();
  if (runs) workspace_->Need(workspace_bytes_);
}

void ChannelSums::ReshapeSpans(int64_t rows, int64_t channels) {
  const Device& device = *workspace_->device();
  outer_ = rows;
  channels_ = channels;
  inner_ = lanes_ = 1;
  span_ = device.info().span();
  const int64_t items = device.info().compute_units * kSpanItemsPerUnit;
  const int64_t spans = std::max<int64_t>(1, (channels + span_ - 1) / span_);
  slices_ = std::max<int64_t>(1, std::min(items / spans, rows / kRowsPerItem));
  PlanParts();
}

void ChannelSums::PlanParts() {
  // Groups of a power of two divide the parts evenly.
  int64_t grain = 1;
  while (grain * grain <= slices_) grain *= 2;
  const bool host = !workspace_->device()->has_groups();
  if (!host && slices_ > grain) slices_ -= slices_ % grain;
  const int64_t parts = slices_ * lanes_;
  folds_ = 0;
  if (parts > kFewParts && parts % kFolds == 0) {
    folds_ = kFolds;
    while (folds_ * folds_ < parts && parts % (2 * folds_) == 0) folds_ *= 2;
  }
  workspace_bytes_ = bytes(parts) + bytes(folds_);
}

void ChannelSums::Launch(Kernel* kernel, const KernelArguments& arguments) {
  KernelArguments all{channels_, outer_, inner_, slices_, lanes_};
  all.append(arguments.begin(), arguments.end());
  all.push_back(AllParts());
  const int64_t groups = (channels_ + span_ - 1) / span_ * slices_ * lanes_;
  const int64_t elements = std::max<int64_t>(outer_ / slices_ * inner_, 1);
  kernel->Launch(LaunchRange::WithCost(groups, elements), all);
  if (folds_ == 0) return;
  // [parts, channels] viewed as [parts / folds, folds * channels]: sum over the first axis.
  const int64_t columns = folds_ * channels_;
  fold_->Launch(sums_ * columns,
                {sums_ * columns, columns, slices_ * lanes_ / folds_, 0, AllParts(), Folded()});
}

void ChannelSums::Sum(KernelArgument a) { Launch(sum_.get(), {a}); }

void ChannelSums::Dot(KernelArgument a, KernelArgument b) { Launch(dot_.get(), {a, b}); }

void ChannelSums::SumAndDot(KernelArgument a, KernelArgument b) { Launch(sum_dot_.get(), {a, b}); }

void ChannelSums::Finish(bool add, KernelArgument y) {
  finish_->Launch(count(),
                  {count(), channels_, parts_per_channel(), static_cast<int>(add), parts(), y});
}

void ChannelSums::FinishOne(int which, bool add, KernelArgument y) {
  const int64_t size = parts_per_channel() * channels_ * static_cast<int64_t>(master_.bytes());
  const DevicePtr sums = parts() + which * size;
  finish_->Launch(channels_,
                  {channels_, channels_, parts_per_channel(), static_cast<int>(add), sums, y});
}

}  // namespace caffe
