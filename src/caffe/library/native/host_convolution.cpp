#include <omp.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_formulas.hpp"
#include "caffe/library/native/host_gemm.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

// For few output channels and long sums the native product is faster in the forward pass, because
// it copies no operand (by 20 % in the second convolution of LeNet).
constexpr int64_t kFewChannels = 96, kLongSum = 64;
// A block of columns of this size stays in the second cache between its two uses.
constexpr int64_t kColumnBytes = 1 << 20;
// A block of this size stays in the first cache.
constexpr int64_t kFewColumnBytes = 32 << 10;
// Up to this many products the time of a call is also that of reading what another thread wrote.
// For short sums the threads then share the channels of an image rather than its rows, as pooling
// behind it does; all of them gather all columns.
constexpr int64_t kFewProducts = 4 << 20, kShortSum = 64;
// From this many elements on, the threads' gradients of weights are added in parallel, in blocks.
constexpr int64_t kSumBlock = 1024, kParallelSum = 1 << 16;

template <class T> T* At(DevicePtr pointer) { return reinterpret_cast<T*>(pointer.address()); }

// Copies or adds rows of W elements (0: of `width`); a call of memcpy costs more than a short row.
template <int W, class T> void CopyRow(T* target, const T* source, int64_t width) {
  if constexpr (W > 0) {
    std::memcpy(target, source, W * sizeof(T));
    return;
  }
  for (; width >= 8; width -= 8, target += 8, source += 8) {
    std::memcpy(target, source, 8 * sizeof(T));
  }
  if (width & 4) {
    std::memcpy(target, source, 4 * sizeof(T));
    target += 4;
    source += 4;
  }
  if (width & 2) {
    std::memcpy(target, source, 2 * sizeof(T));
    target += 2;
    source += 2;
  }
  if (width & 1) *target = *source;
}

template <int W, class T> void AddRow(T* target, const T* source, int64_t width) {
  const int64_t count = W > 0 ? W : width;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) target[i] += source[i];
}

// Walks the rows of the last axis of a convolution over any number of axes: for each (tap of the
// other axes, output row) it has the offset of the input row. Images include their padding.
class RowWalker {
 public:
  explicit RowWalker(const ConvGeometry& g) {
    const Shape out = g.output();
    const int last = g.axes() - 1;
    const Shape padded = g.padded();
    width_ = out[last];
    stride_ = g.stride[last];
    dilation_ = g.dilation[last];
    taps_ = ShapeCount(g.kernel, 0, last);
    last_taps_ = g.kernel[last];
    rows_ = ShapeCount(out, 0, last);
    padded_ = ShapeCount(padded);
    for (int64_t tap = 0; tap < taps_; ++tap) {
      for (int64_t row = 0; row < rows_; ++row) start_.push_back(Start(g, padded, out, tap, row));
    }
    // Over one or two axes, the distance of output rows is the same for all.
    if (last <= 1) pitch_ = rows_ > 1 ? start_[1] - start_[0] : padded_;
    image_width_ = g.input[last];
    for (int64_t row = 0; row < ShapeCount(g.input, 0, last); ++row) {
      int64_t at = g.pad[last], stride = padded[last], left = row;
      for (int axis = last - 1; axis >= 0; --axis) {
        at += (left % g.input[axis] + g.pad[axis]) * stride;
        stride *= padded[axis];
        left /= g.input[axis];
      }
      image_rows_.push_back(at);
    }
  }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  int64_t padded() const { return padded_; }  // elements of a plane with its padding

  // Copies between planes and planes with padding.
  template <class T> void Pad(const T* planes, T* padded, int64_t count) const {
    for (int64_t plane = 0; plane < count; ++plane, padded += padded_) {
      for (const int64_t row : image_rows_) {
        CopyRow<0>(padded + row, planes, image_width_);
        planes += image_width_;
      }
    }
  }
  // Zeros the padding, which Pad does not write.
  template <class T> void ClearPadding(T* padded, int64_t count) const {
    for (int64_t plane = 0; plane < count; ++plane, padded += padded_) {
      int64_t at = 0;
      for (const int64_t row : image_rows_) {
        std::fill(padded + at, padded + row, T{0});
        at = row + image_width_;
      }
      std::fill(padded + at, padded + padded_, T{0});
    }
  }
  template <class T> void Crop(const T* padded, T* planes, int64_t count) const {
    for (int64_t plane = 0; plane < count; ++plane, padded += padded_) {
      for (const int64_t row : image_rows_) {
        CopyRow<0>(planes, padded + row, image_width_);
        planes += image_width_;
      }
    }
  }

  // The columns of output rows [begin, end) of padded planes, of the shape
  // [planes, taps…, (end - begin) * width].
  template <class T>
  void Gather(const T* planes, T* columns, int64_t count, int64_t begin, int64_t end) const {
    if (stride_ == 1 && pitch_ > 0) {
      switch (width_) {
        case 8: return GatherImage<8>(planes, columns, count, begin, end);
        case 16: return GatherImage<16>(planes, columns, count, begin, end);
        case 24: return GatherImage<24>(planes, columns, count, begin, end);
        case 32: return GatherImage<32>(planes, columns, count, begin, end);
      }
    }
    Walk(count, begin, end, [=, this](auto w, int64_t plane, int64_t at, int64_t column) {
      const T* source = planes + plane + at;
      T* target = columns + column;
      if (stride_ == 1) {
        CopyRow<decltype(w)::value>(target, source, width_);
      } else {
        for (int64_t i = 0; i < width_; ++i) target[i] = source[i * stride_];
      }
    });
  }

  // The adjoint of Gather: adds the columns to the elements that Gather copies.
  template <class T>
  void Scatter(const T* columns, T* planes, int64_t count, int64_t begin, int64_t end) const {
    Walk(count, begin, end, [=, this](auto w, int64_t plane, int64_t at, int64_t column) {
      T* target = planes + plane + at;
      const T* source = columns + column;
      if (stride_ == 1) {
        AddRow<decltype(w)::value>(target, source, width_);
      } else {
        for (int64_t i = 0; i < width_; ++i) target[i * stride_] += source[i];
      }
    });
  }

 private:
  template <int W> using Width = std::integral_constant<int, W>;

  static int64_t Start(const ConvGeometry& g, const Shape& padded, const Shape& out, int64_t tap,
                       int64_t row) {
    int64_t at = 0, stride = padded[g.axes() - 1];
    for (int axis = g.axes() - 2; axis >= 0; --axis) {
      at += (row % out[axis] * g.stride[axis] + tap % g.kernel[axis] * g.dilation[axis]) * stride;
      stride *= padded[axis];
      row /= out[axis];
      tap /= g.kernel[axis];
    }
    return at;
  }

  // Output rows of W elements that begin at equal distances.
  template <int W, class T>
  void GatherImage(const T* planes, T* columns, int64_t count, int64_t begin, int64_t end) const {
    for (int64_t plane = 0; plane < count; ++plane, planes += padded_) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const T* source = planes + start_[tap * rows_ + begin];
        for (int64_t k = 0; k < last_taps_; ++k, source += dilation_) {
          const T* from = source;
          for (int64_t r = begin; r < end; ++r, from += pitch_, columns += W) {
            std::memcpy(columns, from, W * sizeof(T));
          }
        }
      }
    }
  }

  // Calls visit for each row of columns, with common widths as constants.
  template <class Visit>
  void Walk(int64_t count, int64_t begin, int64_t end, const Visit& visit) const {
    if (stride_ == 1 && width_ == 8) {
      WalkBy(Width<8>(), count, begin, end, visit);
    } else if (stride_ == 1 && width_ == 16) {
      WalkBy(Width<16>(), count, begin, end, visit);
    } else if (stride_ == 1 && width_ == 24) {
      WalkBy(Width<24>(), count, begin, end, visit);
    } else if (stride_ == 1 && width_ == 32) {
      WalkBy(Width<32>(), count, begin, end, visit);
    } else {
      WalkBy(Width<0>(), count, begin, end, visit);
    }
  }

  template <class W, class Visit>
  void WalkBy(W w, int64_t count, int64_t begin, int64_t end, const Visit& visit) const {
    int64_t column = 0;
    for (int64_t plane = 0; plane < count; ++plane) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const int64_t* start = &start_[tap * rows_];
        for (int64_t k = 0; k < last_taps_; ++k) {
          for (int64_t r = begin; r < end; ++r, column += width_) {
            visit(w, plane * padded_, start[r] + k * dilation_, column);
          }
        }
      }
    }
  }

  int64_t width_, stride_, dilation_, taps_, last_taps_, rows_, padded_, image_width_;
  int64_t pitch_ = 0;  // between the input rows of two output rows, if that is always the same
  std::vector<int64_t> start_, image_rows_;
};

// Each thread computes whole images: it turns blocks of output rows into columns that stay in its
// cache and multiplies them, writing NCHW directly. T is float or double; half kinds and types of
// users are widened to float image by image.
template <class T> class HostConvOp final : public ConvOp {
 public:
  HostConvOp(Device* device, const ConvDescriptor& d, const HostGemms& gemms)
      : ConvOp(d),
        device_(device),
        gemms_(gemms),
        gemm_(gemms.Of<T>()),
        forward_gemm_(Native(d) ? NativeGemms().Of<T>() : gemm_),
        rows_(d.geometry),
        pointwise_(d.geometry.pointwise()),
        padded_(rows_.padded() != d.geometry.input_count()),
        narrow_in_(d.in != DataTypeOf<T>::value),
        narrow_out_(d.out != DataTypeOf<T>::value),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        depth_(d.in_channels / d.group * d.geometry.kernel_count()),
        few_(d.batch * d.weight_count() * out_ <= kFewProducts),
        serial_(few_ && Native(d)),
        stages_(d.epilogue),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, out_, std::nullopt,
              d.backward_weights) {
    // Blocks of whole output rows.
    const int64_t row_bytes = depth_ * rows_.width() * sizeof(T);
    const int64_t limit = d.workspace_limit > 0 ? d.workspace_limit : kColumnBytes;
    block_ = std::clamp<int64_t>(limit / row_bytes, 1, rows_.rows());
    threads_.resize(std::max(1, omp_get_max_threads()));
    const int64_t needed = (static_cast<int64_t>(threads_.size()) + d.batch - 1) / d.batch;
    chunk_ = std::max<int64_t>(1, d.in_channels / d.group);
    if (few_ && d.forward && needed > 1 && depth_ <= kShortSum) {
      parts_ = static_cast<int64_t>(threads_.size());
    } else if (d.forward && needed > 1) {
      block_ = std::min(block_, std::max<int64_t>(1, (rows_.rows() + needed - 1) / needed));
    }
    // A part of the output would begin in the middle of a byte.
    if (d.out.is_packed()) {
      block_ = rows_.rows();
      parts_ = 1;
    }
    if (few_) {
      chunk_ = std::clamp<int64_t>(kFewColumnBytes * chunk_ / (row_bytes * block_), 1, chunk_);
    }
    PlanWorkspace();
    if (!d.forward || (stages_.bounds() && !narrow_out_)) return;
    Epilogue epilogue = d.epilogue;
    epilogue.bias = Epilogue::Bias::kNone;
    for (Thread& thread : threads_) {
      thread.finish = std::make_unique<EpiloguePass>(device, DataType(d.master()), d.out, epilogue);
    }
  }
  const char* library() const override { return gemms_.library; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }
  // Narrow weights, widened.
  int64_t prepared_bytes() const override {
    return narrow_in_ ? descriptor_.weight_count() * static_cast<int64_t>(sizeof(T)) : 0;
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    if (!narrow_in_) return;
    const int64_t rows = descriptor_.out_channels, columns = depth_;
    widen_->Launch(LaunchRange(rows, columns),
                   {rows, columns, columns, columns, weights, prepared});
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    const ConvDescriptor& d = descriptor_;
    const DevicePtr x = arguments.x, y = arguments.y;
    CheckMemory(arguments.prepared, arguments.workspace);
    Bind(arguments.workspace);
    const T* w = At<T>(narrow_in_ ? arguments.prepared : arguments.weights);
    const T* b = d.epilogue.bias == Epilogue::Bias::kNone ? nullptr : At<T>(arguments.bias);
    const bool bounded = stages_.bounds() && !stages_.none();
    const T low = static_cast<T>(stages_.a()), high = static_cast<T>(stages_.b());
    const int64_t blocks = (rows_.rows() + block_ - 1) / block_;
    const int64_t all_out = d.out_channels / d.group;
    const auto compute = [&](Thread& thread, int64_t begin, int64_t end) {
      int64_t current = -1;
      const T* image = nullptr;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t i = unit / blocks / parts_, row = unit % blocks * block_;
        const int64_t part = unit / blocks % parts_, first_out = all_out * part / parts_;
        const int64_t group_out = all_out * (part + 1) / parts_ - first_out;
        const int64_t row_end = std::min(rows_.rows(), row + block_);
        const int64_t first = row * rows_.width(), count = (row_end - row) * rows_.width();
        if (i != current) image = Padded(thread, x, i);
        current = i;
        for (int64_t g = 0; g < d.group; ++g) {
          const int64_t channel = g * all_out + first_out;
          T* target =
              narrow_out_ ? thread.y : At<T>(y) + (i * d.out_channels + channel) * out_ + first;
          const int64_t stride = narrow_out_ ? count : out_;
          // The product adds to the bias.
          for (int64_t o = 0; b && o < group_out; ++o) {
            std::fill_n(target + o * stride, count, b[channel + o]);
          }
          const int64_t group_in = d.in_channels / d.group, taps = d.geometry.kernel_count();
          const T* planes = image + g * group_in * rows_.padded();
          for (int64_t c = 0; c < group_in; c += chunk_) {
            const int64_t channels = std::min(chunk_, group_in - c);
            const T* columns = planes + c * rows_.padded() + first;
            if (!pointwise_) {
              rows_.Gather(planes + c * rows_.padded(), thread.columns, channels, row, row_end);
              columns = thread.columns;
            }
            forward_gemm_(false, false, group_out, count, channels * taps, 1,
                          w + channel * depth_ + c * taps, depth_, columns,
                          pointwise_ ? in_ : count, b || c > 0 ? 1 : 0, target, stride);
          }
          if (thread.finish) {
            const int64_t at = ((i * d.out_channels + channel) * out_ + first) *
                               static_cast<int64_t>(d.out.bytes());
            EpilogueOperands operands = arguments.epilogue;
            if (operands.residual) operands.residual = operands.residual + at;
            if (stages_.slope_axis() != 0) {
              operands.slopes = operands.slopes + channel * static_cast<int64_t>(sizeof(T));
            }
            thread.finish->Run({group_out, count, group_out, 0, stride, 0, out_}, Pointer(target),
                               y + at, {}, operands);
            continue;
          }
          for (int64_t o = 0; bounded && o < group_out; ++o) {
            T* values = target + o * stride;
            for (int64_t j = 0; j < count; ++j) {
              values[j] = HostFormulas<T>::clip_value(values[j], low, high);
            }
          }
        }
      }
    };
    InParallel(d.batch * parts_ * blocks, compute, serial_ && CoresAreShared());
  }

  void DoBackwardData(const ConvGradients& gradients) override {
    const ConvDescriptor& d = descriptor_;
    const DevicePtr y_diff = gradients.y_diff, x_diff = gradients.x_diff;
    CheckMemory(gradients.prepared, gradients.workspace);
    Bind(gradients.workspace);
    const T* w = At<T>(narrow_in_ ? gradients.prepared : gradients.weights);
    const int64_t group_out = d.out_channels / d.group, group_in = d.in_channels / d.group;
    InParallel(d.batch, [&](Thread& thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* y = Image(thread, y_diff, i, d.out_channels * out_, d.out, thread.y);
        const int64_t size = d.in_channels * in_;
        T* target = narrow_in_ ? thread.x : At<T>(x_diff) + i * size;
        T* scattered = padded_ ? thread.padded_diff : target;
        if (!pointwise_) {
          std::memset(scattered, 0, d.in_channels * rows_.padded() * sizeof(T));
        }
        for (int64_t g = 0; g < d.group; ++g) {
          const T* group_w = w + g * group_out * depth_;
          const T* group_y = y + g * group_out * out_;
          T* group_x = scattered + g * group_in * rows_.padded();
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
            rows_.Scatter(thread.columns, group_x, group_in, row, row_end);
          }
        }
        if (padded_) rows_.Crop(scattered, target, d.in_channels);
        if (narrow_in_) {
          thread.narrow->Launch(LaunchRange(1, size),
                                {1, size, size, size, Pointer(target),
                                 x_diff + i * size * static_cast<int64_t>(d.in.bytes())});
        }
      }
    });
  }

  void DoBackwardWeights(const ConvGradients& gradients) override {
    const ConvDescriptor& d = descriptor_;
    const DevicePtr x = gradients.x, y_diff = gradients.y_diff;
    CheckWorkspace(gradients.workspace);
    Bind(gradients.workspace);
    const int64_t group_out = d.out_channels / d.group, group_in = d.in_channels / d.group;
    InParallel(d.batch, [&](Thread& thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* image = Padded(thread, x, i);
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
    T* target = At<T>(gradients.w_diff);
    const int64_t count = d.weight_count();
#pragma omp parallel for schedule(static) if (count >= kParallelSum && !omp_in_parallel())
    for (int64_t j = 0; j < count; j += kSumBlock) {
      const int64_t end = std::min(count, j + kSumBlock);
      for (const Thread& thread : threads_) {
        if (!thread.summed) continue;
        for (int64_t e = j; e < end; ++e) target[e] += thread.partial[e];
      }
    }
  }

  void DoBackwardBias(const ConvGradients& gradients) override {
    bias_.Backward(gradients.y_diff, gradients.b_diff, gradients.workspace);
  }

 private:
  struct Thread {
    // padded: an image with its padding; padded_diff: the gradients, with theirs.
    T *columns, *x, *y, *partial, *padded, *padded_diff;
    bool summed = false;   // partial has values
    bool cleared = false;  // the padding of `padded` is 0
    std::unique_ptr<Kernel> widen, narrow;
    // From a tile of sums, which has its bias, to y; null where bounds are all there is to do.
    std::unique_ptr<EpiloguePass> finish;
  };

  static bool Native(const ConvDescriptor& d) {
    return d.out_channels / d.group <= kFewChannels &&
           d.in_channels / d.group * d.geometry.kernel_count() >= kLongSum;
  }

  static DevicePtr Pointer(T* address) { return {address, 0}; }

  void PlanWorkspace() {
    const ConvDescriptor& d = descriptor_;
    const bool backward = d.backward_data || d.backward_weights;
    int64_t y = narrow_out_ ? d.out_channels / d.group * block_ * rows_.width() : 0;
    if (narrow_in_ && backward) y = std::max(y, d.out_channels * out_);
    const int64_t padded = padded_ ? d.in_channels * rows_.padded() : 0;
    const auto add = [](WorkspaceLayout* layout, int64_t count) {
      return layout->Add(count * static_cast<int64_t>(sizeof(T)));
    };
    WorkspaceLayout one;
    columns_at_ = add(&one, pointwise_ ? 0 : depth_ * block_ * rows_.width());
    x_at_ = add(&one, narrow_in_ ? d.in_channels * in_ : 0);
    y_at_ = add(&one, y);
    partial_at_ = add(&one, d.backward_weights ? d.weight_count() : 0);
    padded_at_ = add(&one, padded);
    padded_diff_at_ = add(&one, d.backward_data ? padded : 0);
    thread_bytes_ = one.bytes();
    layout_.Add(thread_bytes_ * static_cast<int64_t>(threads_.size()));
    if (!narrow_in_) return;
    const auto program = ProgramBuilder(device_, "convert")
                             .Types({kFloat, d.in, kFloat})
                             .Body("blas/convert")
                             .Build();
    widen_ = program->CreateKernel("widen_rows");
    for (Thread& thread : threads_) {
      thread.widen = program->CreateKernel("widen_rows");
      thread.narrow = program->CreateKernel("narrow_rows");
    }
  }

  // Divides the workspace among the threads.
  void Bind(DevicePtr workspace) {
    char* next = workspace ? workspace.address() : nullptr;
    for (Thread& thread : threads_) {
      thread.columns = reinterpret_cast<T*>(next + columns_at_);
      thread.x = reinterpret_cast<T*>(next + x_at_);
      thread.y = reinterpret_cast<T*>(next + y_at_);
      thread.partial = reinterpret_cast<T*>(next + partial_at_);
      thread.padded = reinterpret_cast<T*>(next + padded_at_);
      thread.padded_diff = reinterpret_cast<T*>(next + padded_diff_at_);
      thread.summed = thread.cleared = false;
      next += thread_bytes_;
    }
  }

  // Calls work with each thread's share [begin, end) of `units`. `serial`: with all of them, by the
  // caller alone, which is allowed if the shares do not change the results.
  template <class Work> void InParallel(int64_t units, const Work& work, bool serial = false) {
    WatchCores();
    const int count = static_cast<int>(std::min<int64_t>(threads_.size(), units));
    if (count == 1 || serial || omp_in_parallel()) {
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

  // Image i of an array of images of `size` elements; a narrow one is widened into `room`.
  const T* Image(Thread& thread, DevicePtr images, int64_t i, int64_t size, DataType type,
                 T* room) {
    if (type == DataTypeOf<T>::value) return At<T>(images) + i * size;
    thread.widen->Launch(LaunchRange(1, size),
                         {1, size, size, size,
                          images + i * size * static_cast<int64_t>(type.bytes()), Pointer(room)});
    return room;
  }

  // Image i of x, widened and padded for the columns.
  const T* Padded(Thread& thread, DevicePtr x, int64_t i) {
    const ConvDescriptor& d = descriptor_;
    const T* image = Image(thread, x, i, d.in_channels * in_, d.in, thread.x);
    if (!padded_) return image;
    if (!thread.cleared) rows_.ClearPadding(thread.padded, d.in_channels);
    thread.cleared = true;
    rows_.Pad(image, thread.padded, d.in_channels);
    return thread.padded;
  }

  const T* Gather(Thread& thread, const T* image, int64_t group, int64_t row, int64_t row_end) {
    const int64_t channels = descriptor_.in_channels / descriptor_.group;
    rows_.Gather(image + group * channels * rows_.padded(), thread.columns, channels, row, row_end);
    return thread.columns;
  }

  Device* device_;
  const HostGemms& gemms_;
  const HostGemm<T> gemm_, forward_gemm_;
  const RowWalker rows_;
  const bool pointwise_, padded_, narrow_in_, narrow_out_;
  const int64_t in_, out_, depth_;  // positions in and out, rows of the column matrix of a group
  const bool few_;                  // at most kFewProducts
  // Whether one thread may compute a forward pass with the same result. Outside of a parallel
  // region the product of a BLAS would use threads of its own, and round otherwise.
  const bool serial_;
  const EpilogueStages stages_;
  BiasOp bias_;
  int64_t block_;      // output rows at a time
  int64_t parts_ = 1;  // of the channels of a group, if threads share images
  int64_t chunk_;      // input channels at a time, in a forward pass
  std::vector<Thread> threads_;
  WorkspaceLayout layout_;
  // Bytes of a thread's part of the workspace, and the offsets of the arrays of Thread in it.
  int64_t thread_bytes_ = 0, columns_at_ = 0, x_at_ = 0, y_at_ = 0, partial_at_ = 0, padded_at_ = 0,
          padded_diff_at_ = 0;
  std::unique_ptr<Kernel> widen_;
};

}  // namespace

ConvLibrary HostConvolutionLibrary(const char* name, const HostGemms& (*gemms)()) {
  return {name, &OnHost,
          [gemms](Device*, const ConvDescriptor& d) {
            // Images are computed by this library's threads, which can call only some BLAS builds.
            return !d.quantized() && gemms().nestable;
          },
          [gemms](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
            if (d.in == kDouble) return std::make_unique<HostConvOp<double>>(device, d, gemms());
            return std::make_unique<HostConvOp<float>>(device, d, gemms());
          }};
}

}  // namespace caffe
