#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// A block of columns of this size stays in the second cache between its two uses.
constexpr int64_t kColumnBytes = 1 << 20;

template <class T>
T* At(DevicePtr pointer) {
  return reinterpret_cast<T*>(pointer.address());
}

// Rows are often shorter than what a call of memcpy costs.
template <class T>
void CopyRow(T* target, const T* source, int64_t count) {
  if (count >= 64) {
    std::memcpy(target, source, count * sizeof(T));
    return;
  }
  for (; count >= 8; count -= 8, target += 8, source += 8) {
    std::memcpy(target, source, 8 * sizeof(T));
  }
  if (count & 4) {
    std::memcpy(target, source, 4 * sizeof(T));
    target += 4;
    source += 4;
  }
  if (count & 2) {
    std::memcpy(target, source, 2 * sizeof(T));
    target += 2;
    source += 2;
  }
  if (count & 1) *target = *source;
}

template <class T>
void ZeroRow(T* target, int64_t count) {
  if (count >= 64) {
    std::memset(target, 0, count * sizeof(T));
    return;
  }
#pragma GCC unroll 2
  for (; count > 0; --count) *target++ = 0;
}

// Any number of axes as rows of the last one: which input row each (tap of the other axes, output
// row) reads, -1 for padding, and which part of an output row each tap of the last axis covers.
class Rows {
 public:
  explicit Rows(const ConvGeometry& g) {
    const Shape out = g.output();
    const int last = g.axes() - 1;
    in_width_ = g.input[last];
    width_ = out[last];
    stride_ = g.stride[last];
    taps_ = ShapeCount(g.kernel, 0, last);
    rows_ = ShapeCount(out, 0, last);
    row_.resize(taps_ * rows_);
    for (int64_t tap = 0; tap < taps_; ++tap) {
      for (int64_t row = 0; row < rows_; ++row) row_[tap * rows_ + row] = InputRow(g, out, tap, row);
    }
    for (int64_t k = 0; k < g.kernel[last]; ++k) {
      const int64_t start = k * g.dilation[last] - g.pad[last];
      const int64_t low = start >= 0 ? 0 : (-start + stride_ - 1) / stride_;
      const int64_t high = start >= in_width_ ? 0 : (in_width_ - 1 - start) / stride_ + 1;
      const int64_t end = std::clamp<int64_t>(high, 0, width_);
      spans_.push_back({start, std::min(low, end), end});
    }
  }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }

  // The columns of output rows [begin, end) of one plane: [taps…, (end - begin) * width].
  template <class T>
  T* Gather(const T* plane, T* columns, int64_t begin, int64_t end) const {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const int32_t* row = &row_[tap * rows_];
      for (const Span& span : spans_) {
        for (int64_t r = begin; r < end; ++r, columns += width_) {
          if (row[r] < 0) {
            ZeroRow(columns, width_);
            continue;
          }
          const T* source = plane + row[r] * in_width_ + span.start;
          if (span.low > 0) ZeroRow(columns, span.low);
          if (stride_ == 1) {
            CopyRow(columns + span.low, source + span.low, span.high - span.low);
          } else {
            for (int64_t i = span.low; i < span.high; ++i) columns[i] = source[i * stride_];
          }
          if (span.high < width_) ZeroRow(columns + span.high, width_ - span.high);
        }
      }
    }
    return columns;
  }

  // The adjoint: adds the columns to where Gather takes them from.
  template <class T>
  const T* Scatter(const T* columns, T* plane, int64_t begin, int64_t end) const {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const int32_t* row = &row_[tap * rows_];
      for (const Span& span : spans_) {
        for (int64_t r = begin; r < end; ++r, columns += width_) {
          if (row[r] < 0) continue;
          T* target = plane + row[r] * in_width_ + span.start;
          if (stride_ == 1) {
#pragma GCC ivdep
            for (int64_t i = span.low; i < span.high; ++i) target[i] += columns[i];
          } else {
            for (int64_t i = span.low; i < span.high; ++i) target[i * stride_] += columns[i];
          }
        }
      }
    }
    return columns;
  }

 private:
  struct Span {
    int64_t start, low, high;
  };

  static int32_t InputRow(const ConvGeometry& g, const Shape& out, int64_t tap, int64_t row) {
    int64_t at = 0, step = 1;
    for (int axis = g.axes() - 2; axis >= 0; --axis) {
      const int64_t p = row % out[axis] * g.stride[axis] - g.pad[axis] +
                        tap % g.kernel[axis] * g.dilation[axis];
      if (p < 0 || p >= g.input[axis]) return -1;
      at += p * step;
      step *= g.input[axis];
      row /= out[axis];
      tap /= g.kernel[axis];
    }
    return static_cast<int32_t>(at);
  }

  int64_t in_width_, width_, stride_, taps_, rows_;
  std::vector<int32_t> row_;
  std::vector<Span> spans_;
};

// Images go to the threads; each turns blocks of output rows into columns that stay in its cache and
// multiplies them by itself, straight into NCHW. T is float or double; half kinds are widened to
// float image by image.
template <class T>
class HostConvOp final : public ConvOp {
 public:
  HostConvOp(Device* device, const ConvDescriptor& d, const HostGemms& gemms)
      : ConvOp(d),
        device_(device),
        gemms_(gemms),
        gemm_(gemms.Of<T>()),
        rows_(d.geometry),
        pointwise_(d.geometry.pointwise()),
        narrow_in_(d.in.bytes() != sizeof(T)),
        narrow_out_(d.out.bytes() != sizeof(T)),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        depth_(d.in_channels / d.group * d.geometry.kernel_count()),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, out_) {
    // Blocks of whole output rows.
    const int64_t row_bytes = depth_ * rows_.width() * sizeof(T);
    const int64_t limit = d.workspace_limit > 0 ? d.workspace_limit : kColumnBytes;
    block_ = std::clamp<int64_t>(limit / row_bytes, 1, rows_.rows());
    threads_.resize(std::max(1, omp_get_max_threads()));
    const int64_t needed = (static_cast<int64_t>(threads_.size()) + d.batch - 1) / d.batch;
    if (d.forward && needed > 1) {
      block_ = std::min(block_, std::max<int64_t>(1, (rows_.rows() + needed - 1) / needed));
    }
    Allocate();
  }
  const char* library() const override { return gemms_.library; }
  int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void Forward(DevicePtr x, DevicePtr weights, DevicePtr bias, DevicePtr y) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.forward, "convolution ", d.name(), " was not made for a forward pass");
    const T* w = Weights(weights);
    const T* b = d.epilogue.bias == Epilogue::Bias::kNone ? nullptr : At<T>(bias);
    const bool relu = d.epilogue.activation == Epilogue::Activation::kRelu;
    const int64_t blocks = (rows_.rows() + block_ - 1) / block_;
    const int64_t group_out = d.out_channels / d.group;
    InParallel(d.batch * blocks, [&](Thread& thread, int64_t begin, int64_t end) {
      int64_t current = -1;
      const T* image = nullptr;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t i = unit / blocks, row = unit % blocks * block_;
        const int64_t row_end = std::min(rows_.rows(), row + block_);
        const int64_t first = row * rows_.width(), count = (row_end - row) * rows_.width();
        if (i != current) image = Image(thread, x, i, d.in_channels * in_, d.in, thread.x);
        current = i;
        for (int64_t g = 0; g < d.group; ++g) {
          const int64_t channel = g * group_out;
          const T* columns = image + g * (d.in_channels / d.group) * in_ + first;
          if (!pointwise_) columns = Gather(thread, image, g, row, row_end);
          T* target = narrow_out_ ? thread.y
                                  : At<T>(y) + (i * d.out_channels + channel) * out_ + first;
          const int64_t step = narrow_out_ ? count : out_;
          // The bias is where the product adds to.
          for (int64_t o = 0; b && o < group_out; ++o) {
            std::fill_n(target + o * step, count, b[channel + o]);
          }
          gemm_(false, false, group_out, count, depth_, 1, w + channel * depth_, depth_, columns,
                pointwise_ ? in_ : count, b ? 1 : 0, target, step);
          for (int64_t o = 0; relu && o < group_out; ++o) {
            T* values = target + o * step;
            for (int64_t j = 0; j < count; ++j) values[j] = values[j] > 0 ? values[j] : 0;
          }
          if (narrow_out_) {
            const int64_t at = (i * d.out_channels + channel) * out_ + first;
            thread.narrow->Launch(LaunchRange(group_out, count),
                                  {group_out, count, count, out_, Pointer(target),
                                   y + at * static_cast<int64_t>(d.out.bytes())});
          }
        }
      }
    });
  }

  void BackwardData(DevicePtr y_diff, DevicePtr weights, DevicePtr x_diff) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.backward_data, "convolution ", d.name(), " was not made for gradients of data");
    const T* w = Weights(weights);
    const int64_t group_out = d.out_channels / d.group, group_in = d.in_channels / d.group;
    InParallel(d.batch, [&](Thread& thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* y = Image(thread, y_diff, i, d.out_channels * out_, d.out, thread.y);
        const int64_t size = d.in_channels * in_;
        T* target = narrow_in_ ? thread.x : At<T>(x_diff) + i * size;
        if (!pointwise_) std::memset(target, 0, size * sizeof(T));
        for (int64_t g = 0; g < d.group; ++g) {
          const T* group_w = w + g * group_out * depth_;
          const T* group_y = y + g * group_out * out_;
          T* group_x = target + g * group_in * in_;
          if (pointwise_) {
            gemm_(true, false, depth_, out_, group_out, 1, group_w, depth_, group_y, out_, 0,
                  group_x, in_);
            continue;
          }
          for (int64_t row = 0; row < rows_.rows(); row += block_) {
            const int64_t row_end = std::min(rows_.rows(), row + block_);
            const int64_t count = (row_end - row) * rows_.width();
            gemm_(true, false, depth_, count, group_out, 1, group_w, depth_,
                  group_y + row * rows_.width(), out_, 0, thread.columns, count);
            const T* columns = thread.columns;
            for (int64_t c = 0; c < group_in; ++c) {
              columns = rows_.Scatter(columns, group_x + c * in_, row, row_end);
            }
          }
        }
        if (narrow_in_) {
          thread.narrow->Launch(LaunchRange(1, size),
                                {1, size, size, size, Pointer(target),
                                 x_diff + i * size * static_cast<int64_t>(d.in.bytes())});
        }
      }
    });
  }

  void BackwardWeights(DevicePtr x, DevicePtr y_diff, DevicePtr w_diff) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.backward_weights, "convolution ", d.name(),
                " was not made for gradients of weights");
    const int64_t group_out = d.out_channels / d.group, group_in = d.in_channels / d.group;
    for (Thread& thread : threads_) thread.summed = false;
    InParallel(d.batch, [&](Thread& thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* image = Image(thread, x, i, d.in_channels * in_, d.in, thread.x);
        const T* y = Image(thread, y_diff, i, d.out_channels * out_, d.out, thread.y);
        for (int64_t row = 0; row < rows_.rows(); row += block_) {
          const int64_t row_end = std::min(rows_.rows(), row + block_);
          const int64_t first = row * rows_.width(), count = (row_end - row) * rows_.width();
          for (int64_t g = 0; g < d.group; ++g) {
            const T* columns = image + g * group_in * in_ + first;
            if (!pointwise_) columns = Gather(thread, image, g, row, row_end);
            gemm_(false, true, group_out, depth_, count, 1, y + g * group_out * out_ + first, out_,
                  columns, pointwise_ ? in_ : count, thread.summed ? 1 : 0,
                  thread.partial + g * group_out * depth_, depth_);
          }
          thread.summed = true;
        }
      }
    });
    T* target = At<T>(w_diff);
    const int64_t count = d.weight_count();
    for (const Thread& thread : threads_) {
      if (!thread.summed) continue;
      for (int64_t j = 0; j < count; ++j) target[j] += thread.partial[j];
    }
  }

  void BackwardBias(DevicePtr y_diff, DevicePtr b_diff) override {
    bias_.Backward(y_diff, b_diff);
  }

 private:
  struct Thread {
    T *columns, *x, *y, *partial;
    bool summed = false;  // partial holds something
    std::unique_ptr<Kernel> widen, narrow;
  };

  static DevicePtr Pointer(T* address) { return {address, 0}; }

  void Allocate() {
    const ConvDescriptor& d = descriptor_;
    const bool backward = d.backward_data || d.backward_weights;
    const auto round = [](int64_t count) { return (count + 63) / 64 * 64; };
    const int64_t columns = pointwise_ ? 0 : round(depth_ * block_ * rows_.width());
    const int64_t x = narrow_in_ ? round(d.in_channels * in_) : 0;
    int64_t y = 0;
    if (narrow_out_) y = round(d.out_channels / d.group * block_ * rows_.width());
    if (narrow_in_ && backward) y = std::max(y, round(d.out_channels * out_));
    const int64_t partial = d.backward_weights ? round(d.weight_count()) : 0;
    const int64_t weights = narrow_in_ ? round(d.weight_count()) : 0;
    const int64_t each = columns + x + y + partial;
    workspace_ = DeviceArray(device_, (each * threads_.size() + weights) * sizeof(T),
                             "columns of a convolution");
    T* next = workspace_.bytes() > 0 ? At<T>(workspace_.get()) : nullptr;
    wide_weights_ = next;
    next += weights;
    std::shared_ptr<Program> program;
    if (narrow_in_) {
      program = ProgramBuilder(device_, "convert")
                    .Types({kFloat, d.in, kFloat})
                    .Body("blas/convert")
                    .Build();
      widen_ = program->CreateKernel("widen_rows");
    }
    for (Thread& thread : threads_) {
      thread.columns = next;
      thread.x = thread.columns + columns;
      thread.y = thread.x + x;
      thread.partial = thread.y + y;
      next = thread.partial + partial;
      if (program) {
        thread.widen = program->CreateKernel("widen_rows");
        thread.narrow = program->CreateKernel("narrow_rows");
      }
    }
  }

  // The calling thread's share [begin, end) of `units`, for each thread.
  template <class Work>
  void InParallel(int64_t units, const Work& work) {
    const int count = static_cast<int>(std::min<int64_t>(threads_.size(), units));
    if (count == 1 || omp_in_parallel()) {
      work(threads_[0], int64_t{0}, units);
    } else {
#pragma omp parallel num_threads(count)
      {
        const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
        work(threads_[thread], units * thread / threads, units * (thread + 1) / threads);
      }
    }
    device_->CountLibraryCall();
  }

  const T* Weights(DevicePtr weights) {
    if (!narrow_in_) return At<T>(weights);
    const int64_t rows = descriptor_.out_channels, columns = depth_;
    widen_->Launch(LaunchRange(rows, columns),
                   {rows, columns, columns, columns, weights, Pointer(wide_weights_)});
    return wide_weights_;
  }

  // Image i of an array of images of `size` elements, widened into `room` where it is narrow.
  const T* Image(Thread& thread, DevicePtr images, int64_t i, int64_t size, DataType type,
                 T* room) {
    if (type.bytes() == sizeof(T)) return At<T>(images) + i * size;
    thread.widen->Launch(LaunchRange(1, size),
                         {1, size, size, size,
                          images + i * size * static_cast<int64_t>(type.bytes()), Pointer(room)});
    return room;
  }

  const T* Gather(Thread& thread, const T* image, int64_t group, int64_t row, int64_t row_end) {
    const int64_t channels = descriptor_.in_channels / descriptor_.group;
    T* columns = thread.columns;
    for (int64_t c = 0; c < channels; ++c) {
      columns = rows_.Gather(image + (group * channels + c) * in_, columns, row, row_end);
    }
    return thread.columns;
  }

  Device* device_;
  const HostGemms& gemms_;
  HostGemm<T> gemm_;
  const Rows rows_;
  const bool pointwise_, narrow_in_, narrow_out_;
  const int64_t in_, out_, depth_;  // positions in and out, rows of the column matrix of a group
  BiasOp bias_;
  int64_t block_;  // output rows at a time
  std::vector<Thread> threads_;
  DeviceArray workspace_;
  T* wide_weights_ = nullptr;
  std::unique_ptr<Kernel> widen_;
};

}  // namespace

std::unique_ptr<ConvOp> MakeHostConvolution(Device* device, const ConvDescriptor& d,
                                            const HostGemms& gemms) {
  if (d.in == kDouble) return std::make_unique<HostConvOp<double>>(device, d, gemms);
  return std::make_unique<HostConvOp<float>>(device, d, gemms);
}

}  // namespace caffe
