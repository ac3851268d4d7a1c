#include <omp.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/gemmlowp/code_patches.hpp"
#include "caffe/library/gemmlowp/gemmlowp_product.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

// Below this many products one thread is faster.
constexpr int64_t kParallelProducts = 1 << 17;
// A task multiplies at most this many rows of activations with this many channels. gemmlowp packs
// both for each task.
constexpr int64_t kMostRows = 256, kMostChannels = 512, kLeastChannels = 64;

// Instructions for products of codes are faster. It packs weights for each call, which fewer rows
// of activations or channels are not worth.
constexpr int64_t kLeastRows = 8;

bool Indexable(int64_t elements) { return elements <= std::numeric_limits<int32_t>::max(); }

// Channels of a task: fewer if threads would be idle.
int64_t TaskChannels(int64_t channels, int64_t row_tasks) {
  int64_t count = std::min(kMostChannels, channels);
  while (Ceil(channels, count) * row_tasks < omp_get_max_threads() && count > kLeastChannels) {
    count = std::max(kLeastChannels, count / 2);
  }
  return count;
}

class GemmlowpOp final : public GemmOp {
 public:
  GemmlowpOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), rows_are_weights_(d.epilogue.bias == Epilogue::Bias::kPerRow) {
    const int64_t rows = rows_are_weights_ ? d.n : d.m, channels = rows_are_weights_ ? d.m : d.n;
    const int64_t task_rows = std::min(kMostRows, rows);
    const int64_t task_channels = TaskChannels(channels, Ceil(rows, task_rows));
    task_m_ = rows_are_weights_ ? task_channels : task_rows;
    task_n_ = rows_are_weights_ ? task_rows : task_channels;
    threads_ = omp_get_max_threads();
    sums_bytes_ = task_m_ * task_n_ * static_cast<int64_t>(sizeof(int32_t));
  }
  const char* library() const override { return "gemmlowp"; }
  int64_t workspace_bytes() const override { return threads_ * sums_bytes_; }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    const ResidualCodes residual(d.epilogue, d.in, *g.quant, g.epilogue.residual, g.c);
    const int zero = WeightZero(d.in);
    const int64_t tasks_n = Ceil(d.n, task_n_), tasks = Ceil(d.m, task_m_) * tasks_n * d.batch;
    const bool parallel =
        d.batch * d.m * d.n * d.k >= kParallelProducts && tasks > 1 && !omp_in_parallel();
#pragma omp parallel for schedule(static) num_threads(threads_) if (parallel)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t in_item = task % (tasks / d.batch), item = task / (tasks / d.batch);
      const int64_t row = in_item / tasks_n * task_m_, column = in_item % tasks_n * task_n_;
      const int64_t a_at = item * d.batch_stride_a() + row * (d.trans_a ? 1 : d.row_a());
      const int64_t b_at = item * d.batch_stride_b() + column * (d.trans_b ? d.row_b() : 1);
      const int64_t m = std::min(task_m_, d.m - row), n = std::min(task_n_, d.n - column);
      int32_t* const sums =
          reinterpret_cast<int32_t*>(g.workspace.address() + omp_get_thread_num() * sums_bytes_);
      MultiplyCodes(m, n, d.k, {At(g.a) + a_at, d.row_a(), d.trans_a, rows_are_weights_ ? zero : 0},
                    {At(g.b) + b_at, d.row_b(), d.trans_b, rows_are_weights_ ? 0 : zero}, sums);
      ByteOutput output = MakeByteOutput(d.epilogue, *g.quant, rows_are_weights_ ? row : column,
                                         rows_are_weights_ ? m : n);
      const int64_t first = item * d.batch_stride_c() + row * d.row_c() + column;
      output.y = reinterpret_cast<uint8_t*>(g.c.address()) + first;
      output.y_stride = d.row_c();
      HostByteSteps().requantize(output, rows_are_weights_, m, n, sums);
      residual.Add(m, n, first, d.row_c(), first, d.row_c());
    }
    device_->CountLibraryCall();
  }

 private:
  static const uint8_t* At(DevicePtr pointer) {
    return reinterpret_cast<const uint8_t*>(pointer.address());
  }

  Device* device_;
  const bool rows_are_weights_;
  int64_t task_m_, task_n_, sums_bytes_;
  int threads_;
};

// Weights [channels, taps] times the codes below windows. These are gathered, but for windows of
// one code, whose planes are the operand.
class GemmlowpConvOp final : public ConvOp {
 public:
  GemmlowpConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d), device_(device), gather_(d), threads_(omp_get_max_threads()) {
    task_rows_ = std::min(kMostRows, gather_.positions());
    const int64_t row_tasks = d.batch * d.group * Ceil(gather_.positions(), task_rows_);
    task_channels_ = TaskChannels(d.out_channels / d.group, row_tasks);
    if (gather_.pads()) padded_at_ = layout_.Add(gather_.padded_bytes());
    for (int i = 0; i < threads_; ++i) {
      sums_at_.push_back(
          layout_.Add(task_channels_ * task_rows_ * static_cast<int64_t>(sizeof(int32_t))));
      patches_at_.push_back(gather_.points() ? 0 : layout_.Add(task_rows_ * d.depth()));
    }
  }
  const char* library() const override { return "gemmlowp"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckMemory(arguments.prepared, arguments.workspace);
    const ConvDescriptor& d = descriptor_;
    const int64_t products = d.batch * d.out_channels * gather_.positions() * d.depth();
    const bool parallel = products >= kParallelProducts && !omp_in_parallel();
#pragma omp parallel num_threads(threads_) if (parallel)
    Compute(arguments);
    device_->CountLibraryCall();
  }

 private:
  // The part of one thread.
  void Compute(const ConvArguments& arguments) const {
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *arguments.quant;
    char* const workspace = arguments.workspace.address();
    const uint8_t* images = reinterpret_cast<const uint8_t*>(arguments.x.address());
    if (gather_.pads()) {
      uint8_t* const padded = reinterpret_cast<uint8_t*>(workspace + padded_at_);
#pragma omp for schedule(static)
      for (int64_t i = 0; i < d.batch * d.in_channels; ++i) {
        gather_.Pad(i, images, padded, static_cast<uint8_t>(quant.zero_x));
      }
      images = padded;
    }
    const int thread = omp_get_thread_num();
    int32_t* const sums = reinterpret_cast<int32_t*>(workspace + sums_at_[thread]);
    uint8_t* const patches = reinterpret_cast<uint8_t*>(workspace + patches_at_[thread]);
    const uint8_t* const weights = reinterpret_cast<const uint8_t*>(arguments.weights.address());
    const ResidualCodes residual(d.epilogue, d.in, quant, arguments.epilogue.residual, arguments.y);
    const int64_t positions = gather_.positions(), blocks = Ceil(positions, task_rows_);
    const int64_t group_in = d.in_channels / d.group, group_out = d.out_channels / d.group;
    const int64_t parts = Ceil(group_out, task_channels_);
#pragma omp for schedule(static)
    for (int64_t task = 0; task < d.batch * d.group * blocks * parts; ++task) {
      const int64_t part = task % parts, block = task / parts % blocks;
      const int64_t group = task / parts / blocks % d.group,
                    image = task / parts / blocks / d.group;
      const int64_t first = block * task_rows_, count = std::min(task_rows_, positions - first);
      const uint8_t* const planes =
          images + (image * d.in_channels + group * group_in) * gather_.plane();
      CodeMatrix b{patches, d.depth(), true, 0};
      if (gather_.points()) {
        b = {planes + first, gather_.plane(), false, 0};
      } else {
        for (int64_t i = 0; i < count; ++i) {
          gather_.Gather(planes, first + i, group_in, patches + i * d.depth());
        }
      }
      const int64_t channel = group * group_out + part * task_channels_;
      const int64_t channels = std::min(task_channels_, group_out - part * task_channels_);
      MultiplyCodes(channels, count, d.depth(),
                    {weights + channel * d.depth(), d.depth(), false, WeightZero(d.in)}, b, sums);
      ByteOutput output = MakeByteOutput(d.epilogue, quant, channel, channels);
      const int64_t at = (image * d.out_channels + channel) * positions + first;
      output.y = reinterpret_cast<uint8_t*>(arguments.y.address()) + at;
      output.y_stride = positions;
      HostByteSteps().requantize(output, true, channels, count, sums);
      residual.Add(channels, count, at, positions, at, positions);
    }
  }

  Device* device_;
  const CodePatches gather_;
  const int threads_;
  int64_t task_rows_, task_channels_;
  WorkspaceLayout layout_;
  int64_t padded_at_ = 0;
  std::vector<int64_t> sums_at_, patches_at_;  // of each thread
};

}  // namespace

GemmLibrary GemmlowpLibrary() {
  GemmLibrary row;
  row.name = "gemmlowp";
  row.place = &OnHost;
  row.supports = [](Device*, const GemmDescriptor& d) {
    return d.in == kQuant8 && d.out == kQuant8 && !d.wide_sums() && Indexable(d.m * d.k) &&
           Indexable(d.k * d.n) && Indexable(d.row_a() * d.m) &&
           Indexable(d.row_b() * std::max(d.k, d.n));
  };
  row.make = [](Device* device, const GemmDescriptor& d) {
    return std::make_unique<GemmlowpOp>(device, d);
  };
  row.prefers = [](Device*, const GemmDescriptor& d) {
    return !HasFastByteSteps() && std::min(d.m, d.n) >= kLeastRows;
  };
  return row;
}

ConvLibrary GemmlowpConvolutionLibrary() {
  ConvLibrary row;
  row.name = "gemmlowp";
  row.place = &OnHost;
  row.supports = [](Device*, const ConvDescriptor& d) {
    return d.in == kQuant8 && d.depth() <= kNarrowDepth && Indexable(d.weight_count());
  };
  row.make = [](Device* device, const ConvDescriptor& d) {
    return std::make_unique<GemmlowpConvOp>(device, d);
  };
  row.prefers = [](Device*, const ConvDescriptor& d) {
    return !HasFastByteSteps() && d.out_channels / d.group >= kLeastRows &&
           d.geometry.output_count() >= kLeastRows;
  };
  return row;
}

}  // namespace caffe
