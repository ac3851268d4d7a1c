#include "caffe/layer/channel_norm.hpp"

#include <algorithm>
#include <limits>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

// Work items for each compute unit in passes that write elements, and the rows of an item.
constexpr int64_t kItemsPerUnit = 2048;
constexpr int64_t kFewRows = 4, kManyRows = 16;

}  // namespace

ChannelNorm::ChannelNorm(Workspace* workspace, const TypeTriple& types)
    : device_(workspace->device()), types_(types) {
  Device* const device = workspace->device();
  const DataType master = types.compute == kDouble ? kDouble : kFloat;
  const auto program =
      ProgramBuilder(device, "channel_norm").Types(types).Body("norm/channel_norm").Build();
  rows_ = program->CreateKernel("channel_norm_rows");
  columns_ = program->CreateKernel("channel_norm_columns");
  gradient_parts_ = program->CreateKernel("channel_norm_gradient_parts");
  gradient_rows_ = program->CreateKernel("channel_norm_backward_rows");
  gradient_columns_ = program->CreateKernel("channel_norm_backward_columns");
  accumulate_ = ProgramBuilder(device, "channel_norm")
                    .Types(TypeTriple::Equal(master))
                    .Body("blas/accumulate")
                    .Build()
                    ->CreateKernel("accumulate_parts");
  sums_ = ChannelSums(workspace, types, master, 2);
  totals_ = MakeBlob(master, device, {2, 0}, "sums of gradients");
}

void ChannelNorm::Reshape(int64_t outer, int64_t channels, int64_t inner, bool trains) {
  outer_ = outer;
  channels_ = channels;
  inner_ = inner;
  sums_.Reshape(outer, channels, inner, trains);
  totals_->Reshape({2, channels});
}

void ChannelNorm::ReshapeSpans(int64_t rows, int64_t channels) {
  outer_ = rows;
  channels_ = channels;
  inner_ = 1;
  sums_.ReshapeSpans(rows, channels);
  totals_->Reshape({2, channels});
  const auto program =
      ProgramBuilder(device_, "channel_norm").Types(types_).Body("norm/channel_norm_spans").Build();
  spans_ = program->CreateKernel("channel_norm_spans");
  gradient_parts_of_spans_ = program->CreateKernel("channel_norm_gradient_spans");
  gradient_finish_ = program->CreateKernel("channel_norm_gradient_finish");
  gradient_spans_ = program->CreateKernel("channel_norm_backward_spans");
  const int64_t span = device_->info().span(), spans = (channels + span - 1) / span;
  const int64_t items = device_->info().compute_units * kItemsPerUnit;
  const int64_t per_item = std::clamp(rows * spans / items, kFewRows, kManyRows);
  slices_ = std::max<int64_t>(1, rows / per_item);
  items_ = spans * slices_;
}

void ChannelNorm::Forward(const Operands& of, KernelArgument y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double low = of.relu ? 0 : -kInfinity, high = kInfinity;
  if (spans_) {
    spans_->Launch(items_, {channels_, outer_, slices_, low, high, of.x, of.mean, of.inverse,
                            of.slope, of.bias, y});
    return;
  }
  if (inner_ == 1) {
    columns_->Launch({outer_, channels_}, {outer_, channels_, low, high, of.x, of.mean, of.inverse,
                                           of.slope, of.bias, y});
  } else {
    const int64_t rows = outer_ * channels_;
    rows_->Launch({rows, inner_}, {rows, inner_, channels_, low, high, of.x, of.mean, of.inverse,
                                   of.slope, of.bias, y});
  }
}

void ChannelNorm::Sum(const Operands& of, KernelArgument y_diff) {
  const int gate = of.relu;
  sums_.Launch(gradient_parts_.get(), {gate, of.x, y_diff, of.mean, of.inverse, of.slope, of.bias});
  sums_.Finish(false, totals_->MutableData());
}

void ChannelNorm::SumAndAdd(const Operands& of, KernelArgument y_diff, KernelArgument slope_diff,
                            KernelArgument bias_diff) {
  if (!spans_) {
    Sum(of, y_diff);
    AddSlopeGradient(slope_diff);
    AddBiasGradient(bias_diff);
    return;
  }
  const int gate = of.relu;
  sums_.Launch(gradient_parts_of_spans_.get(),
               {gate, of.x, y_diff, of.mean, of.inverse, of.slope, of.bias});
  gradient_finish_->Launch(channels_, {channels_, sums_.parts_per_channel(), sums_.parts(),
                                       totals_->MutableData(), bias_diff, slope_diff});
}

void ChannelNorm::Add(int which, KernelArgument diff) {
  const DevicePtr total = totals_->device_data() + which * totals_->bytes() / 2;
  accumulate_->Launch(channels_, {channels_, 1, total, diff});
}

void ChannelNorm::Backward(const Operands& of, bool batch, KernelArgument y_diff,
                           KernelArgument x_diff, Communicator* joint) {
  const int gate = of.relu, statistics = batch;
  if (joint) {
    joint->AllReduceSum(device_, totals_->mutable_device_data(), totals_->count(), totals_->type());
    joint->Finish();
  }
  const int64_t ranks = joint ? joint->size() : 1;
  const double factor = 1.0 / static_cast<double>(outer_ * inner_ * ranks);
  const DevicePtr totals = totals_->device_data();
  if (spans_) {
    CAFFE_CHECK(batch, "spans of channels have gradients with statistics of the batch only");
    gradient_spans_->Launch(items_, {channels_, outer_, slices_, gate, factor, of.x, y_diff,
                                     of.mean, of.inverse, of.slope, of.bias, totals, x_diff});
    return;
  }
  if (inner_ == 1) {
    gradient_columns_->Launch({outer_, channels_},
                              {outer_, channels_, gate, statistics, factor, of.x, y_diff, of.mean,
                               of.inverse, of.slope, of.bias, totals, x_diff});
  } else {
    const int64_t rows = outer_ * channels_;
    gradient_rows_->Launch(
        {rows, inner_}, {rows, inner_, channels_, gate, statistics, factor, of.x, y_diff, of.mean,
                         of.inverse, of.slope, of.bias, totals, x_diff});
  }
}

}  // namespace caffe
