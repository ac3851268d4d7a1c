#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_formulas.hpp"
#include "caffe/library/native/host_gemm.hpp"
#include "caffe/library/native/winograd.hpp"

namespace caffe {

// One for each instruction level; null for levels that this build lacks.
extern const WinogradSteps winograd_steps_v2 [[gnu::weak]];
extern const WinogradSteps winograd_steps_v3 [[gnu::weak]];
extern const WinogradSteps winograd_steps_v4 [[gnu::weak]];
extern const WinogradSteps winograd_steps_neon [[gnu::weak]];

namespace {

constexpr int64_t kLanes = 16, kPoints = 6;
// Elements of two slices of a strip of tiles, which must stay in the second cache.
constexpr int64_t kSliceElements = 96 << 10;
// Elements of images in lanes; for larger ones Winograd is not faster.
constexpr int64_t kLaneElements = 1 << 20;

const WinogradSteps* Steps(const std::string& level) {
  if (level == "v2") return &winograd_steps_v2;
  if (level == "v3") return &winograd_steps_v3;
  if (level == "v4") return &winograd_steps_v4;
  return &winograd_steps_neon;
}

WinogradShape ShapeOf(const ConvDescriptor& d) {
  const Shape out = d.geometry.output();
  WinogradShape s;
  s.tile = kPoints + 1 - d.geometry.kernel[0];
  s.inputs = d.in_channels;
  s.outputs = d.out_channels;
  s.tiles_y = (out[0] + s.tile - 1) / s.tile;
  s.tiles_x = (out[1] + s.tile - 1) / s.tile;
  s.rows = s.tiles_y * s.tile;
  s.columns = s.tiles_x * s.tile;
  s.in_rows = s.rows + kPoints - s.tile;
  s.in_columns = s.columns + kPoints - s.tile;
  return s;
}

int64_t Round(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

float* At(DevicePtr pointer) { return reinterpret_cast<float*>(pointer.address()); }

typedef float Vector __attribute__((vector_size(16)));
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

void Transpose(Four (&v)[4]) {
  const Four a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
  const Four b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
  const Four c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const Four d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

// A window of an array in lanes [channels, rows, columns, 16] that contains images [channels,
// height, width] at (top, left); parts beyond the edge are left out.
struct Window {
  int64_t channels, rows, columns, top, left, height, width;
  int64_t lanes_size() const { return channels * rows * columns * kLanes; }
  int64_t image_size() const { return channels * height * width; }
  bool covers() const { return height == rows && width == columns; }
};

// Copies `count` images to lanes; other lanes, and elements without an image, become 0.
void ToLanes(const Window& w, const float* images, int64_t count, float* lanes) {
  if (!w.covers() || count < kLanes) std::memset(lanes, 0, w.lanes_size() * sizeof(float));
  const int64_t size = w.image_size();
  for (int64_t c = 0; c < w.channels; ++c) {
    for (int64_t y = 0; y < w.height; ++y) {
      const float* source = images + (c * w.height + y) * w.width;
      float* target = lanes + ((c * w.rows + y + w.top) * w.columns + w.left) * kLanes;
      int64_t lane = 0;
      for (; lane + 4 <= count; lane += 4, source += 4 * size) {
        int64_t x = 0;
        for (; x + 4 <= w.width; x += 4) {
          Four v[4];
          for (int l = 0; l < 4; ++l) {
            v[l] = *reinterpret_cast<const Four*>(source + l * size + x);
          }
          Transpose(v);
          for (int k = 0; k < 4; ++k) {
            *reinterpret_cast<Four*>(target + (x + k) * kLanes + lane) = v[k];
          }
        }
        for (; x < w.width; ++x) {
          for (int l = 0; l < 4; ++l) target[x * kLanes + lane + l] = source[l * size + x];
        }
      }
      for (; lane < count; ++lane, source += size) {
        for (int64_t x = 0; x < w.width; ++x) target[x * kLanes + lane] = source[x];
      }
    }
  }
}

struct Bounds {
  float low, high;
};

// The way back, with a bias for each channel and bounds on the way; both may be null.
void FromLanes(const Window& w, const float* lanes, int64_t count, const float* bias,
               const Bounds* bounds, float* images) {
  const float low = bounds ? bounds->low : 0, high = bounds ? bounds->high : 0;
  const Vector lows = Vector{} + low, highs = Vector{} + high;
  const auto finish = [=](float v) {
    return bounds ? HostFormulas<float>::clip_value(v, low, high) : v;
  };
  const auto finish_four = [=](Vector v) {
    return bounds ? HostFormulas<Vector>::clip_value(v, lows, highs) : v;
  };
  const int64_t size = w.image_size();
  for (int64_t c = 0; c < w.channels; ++c) {
    const float b = bias ? bias[c] : 0;
    for (int64_t y = 0; y < w.height; ++y) {
      const float* source = lanes + ((c * w.rows + y + w.top) * w.columns + w.left) * kLanes;
      float* target = images + (c * w.height + y) * w.width;
      int64_t lane = 0;
      for (; lane + 4 <= count; lane += 4, target += 4 * size) {
        int64_t x = 0;
        for (; x + 4 <= w.width; x += 4) {
          Four v[4];
          for (int k = 0; k < 4; ++k) {
            v[k] = *reinterpret_cast<const Four*>(source + (x + k) * kLanes + lane);
          }
          Transpose(v);
          for (int l = 0; l < 4; ++l) {
            *reinterpret_cast<Four*>(target + l * size + x) = finish_four(v[l] + b);
          }
        }
        for (; x < w.width; ++x) {
          for (int l = 0; l < 4; ++l) {
            target[l * size + x] = finish(source[x * kLanes + lane + l] + b);
          }
        }
      }
      for (; lane < count; ++lane, target += size) {
        for (int64_t x = 0; x < w.width; ++x) {
          target[x] = finish(source[x * kLanes + lane] + b);
        }
      }
    }
  }
}

// Threads compute blocks of 16 images. For each slice of points and strip of tiles of a block, a
// thread transforms, multiplies and transforms back, all in its cache.
class WinogradConvOp final : public ConvOp {
 public:
  WinogradConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        steps_(*Steps(HostLevel())),
        gemm_(NativeGemms().f32),
        shape_(ShapeOf(d)),
        blocks_((d.batch + kLanes - 1) / kLanes),
        windows_(d.in_channels * d.out_channels),
        stages_(d.epilogue),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, d.geometry.output_count(),
              std::nullopt, d.backward_weights) {
    const ConvGeometry& g = d.geometry;
    const Shape out = g.output();
    const WinogradShape& s = shape_;
    x_ = {s.inputs, s.in_rows, s.in_columns, g.pad[0], g.pad[1], g.input[0], g.input[1]};
    y_ = {s.outputs, s.rows, s.columns, 0, 0, out[0], out[1]};
    const int64_t row = kPoints * (s.inputs + s.outputs) * s.tiles_x * kLanes;
    strip_ = std::clamp<int64_t>(kSliceElements / row, 1, s.tiles_y);
    // An odd number of cache lines, so that rows of a slice do not map to the same set of the first
    // cache.
    stride_ = (strip_ * s.tiles_x | 1) * kLanes;
    const int64_t partial = d.backward_weights ? TransformedSize() : 0;
    const int64_t each = x_.lanes_size() + y_.lanes_size() +
                         kPoints * (s.inputs + s.outputs) * stride_ + s.in_columns * kLanes +
                         partial;
    threads_.resize(std::clamp<int64_t>(omp_get_max_threads(), 1, blocks_));
    bytes_ = static_cast<int64_t>(threads_.size()) * each * static_cast<int64_t>(sizeof(float));
    if (!d.forward || stages_.bounds()) return;
    Epilogue epilogue = d.epilogue;
    epilogue.bias = Epilogue::Bias::kNone;
    for (size_t i = 0; i < threads_.size(); ++i) {
      passes_.push_back(std::make_unique<EpiloguePass>(device, kFloat, kFloat, epilogue));
    }
  }
  const char* library() const override { return "winograd"; }
  int64_t workspace_bytes() const override { return std::max(bytes_, bias_.workspace_bytes()); }
  // The transformed windows.
  int64_t prepared_bytes() const override {
    return TransformedSize() * static_cast<int64_t>(sizeof(float));
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const int64_t groups = (windows_ + kLanes - 1) / kLanes;
#pragma omp parallel if (!omp_in_parallel())
    {
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const int64_t begin = groups * thread / threads * kLanes;
      const int64_t end = std::min(windows_, groups * (thread + 1) / threads * kLanes);
      if (begin < end) {
        steps_.filter(shape_.tile, windows_, begin, end, At(weights), At(prepared));
      }
    }
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    const DevicePtr x = arguments.x, y = arguments.y;
    const float* b =
        descriptor_.epilogue.bias == Epilogue::Bias::kNone ? nullptr : At(arguments.bias);
    const Bounds limits{static_cast<float>(stages_.a()), static_cast<float>(stages_.b())};
    const Bounds* bounds = stages_.bounds() && !stages_.none() ? &limits : nullptr;
    const int64_t outputs = shape_.outputs, size = y_.height * y_.width;
    CheckMemory(arguments.prepared, arguments.workspace);
    const float* u = At(arguments.prepared);
    Bind(arguments.workspace);
    InBlocks([&](const Thread& t, int64_t block, int64_t images) {
      ToLanes(x_, At(x) + block * kLanes * x_.image_size(), images, t.x);
      InSlices([&](const WinogradStrip& strip, int i, int64_t columns) {
        steps_.input(shape_, strip, i, t.x, t.v, t.row);
        for (int j = 0; j < kPoints; ++j) {
          gemm_(false, false, shape_.outputs, columns, shape_.inputs, 1, Transformed(u, i, j),
                shape_.inputs, Point(t.v, shape_.inputs, j), stride_, 0,
                Point(t.m, shape_.outputs, j), stride_);
        }
        steps_.output(shape_, strip, i, t.m, t.y);
      });
      const int64_t first = block * kLanes * y_.image_size();
      FromLanes(y_, t.y, images, b, bounds, At(y) + first);
      if (passes_.empty()) return;
      const int64_t bytes = first * static_cast<int64_t>(sizeof(float));
      EpilogueOperands operands = arguments.epilogue;
      if (operands.residual) operands.residual = operands.residual + bytes;
      passes_[&t - threads_.data()]->Run(
          {images * outputs, size, outputs, outputs * size, size, outputs * size, size}, y + bytes,
          y + bytes, {}, operands);
    });
  }

  void DoBackwardData(const ConvGradients& gradients) override {
    const DevicePtr y_diff = gradients.y_diff, x_diff = gradients.x_diff;
    CheckMemory(gradients.prepared, gradients.workspace);
    const float* u = At(gradients.prepared);
    Bind(gradients.workspace);
    InBlocks([&](const Thread& t, int64_t block, int64_t images) {
      ToLanes(y_, At(y_diff) + block * kLanes * y_.image_size(), images, t.y);
      std::memset(t.x, 0, x_.lanes_size() * sizeof(float));
      InSlices([&](const WinogradStrip& strip, int i, int64_t columns) {
        steps_.output_adjoint(shape_, strip, i, t.y, t.m);
        for (int j = 0; j < kPoints; ++j) {
          gemm_(true, false, shape_.inputs, columns, shape_.outputs, 1, Transformed(u, i, j),
                shape_.inputs, Point(t.m, shape_.outputs, j), stride_, 0,
                Point(t.v, shape_.inputs, j), stride_);
        }
        steps_.input_adjoint(shape_, strip, i, t.v, t.x, t.row);
      });
      FromLanes(x_, t.x, images, nullptr, nullptr, At(x_diff) + block * kLanes * x_.image_size());
    });
  }

  void DoBackwardWeights(const ConvGradients& gradients) override {
    const DevicePtr x = gradients.x, y_diff = gradients.y_diff;
    CheckWorkspace(gradients.workspace);
    Bind(gradients.workspace);
    const int64_t plane = Round(windows_);
    for (const Thread& t : threads_) {
      std::memset(t.partial, 0, kPoints * kPoints * plane * sizeof(float));
    }
    InBlocks([&](const Thread& t, int64_t block, int64_t images) {
      ToLanes(x_, At(x) + block * kLanes * x_.image_size(), images, t.x);
      ToLanes(y_, At(y_diff) + block * kLanes * y_.image_size(), images, t.y);
      InSlices([&](const WinogradStrip& strip, int i, int64_t columns) {
        steps_.input(shape_, strip, i, t.x, t.v, t.row);
        steps_.output_adjoint(shape_, strip, i, t.y, t.m);
        for (int j = 0; j < kPoints; ++j) {
          steps_.inner(shape_.outputs, shape_.inputs, columns, Point(t.m, shape_.outputs, j),
                       Point(t.v, shape_.inputs, j), stride_,
                       t.partial + (i * kPoints + j) * plane);
        }
      });
    });
    float* total = threads_[0].partial;
    for (size_t i = 1; i < threads_.size(); ++i) {
      for (int64_t j = 0; j < kPoints * kPoints * plane; ++j) total[j] += threads_[i].partial[j];
    }
    steps_.filter_adjoint(shape_.tile, windows_, 0, windows_, total, At(gradients.w_diff));
  }

  void DoBackwardBias(const ConvGradients& gradients) override {
    bias_.Backward(gradients.y_diff, gradients.b_diff, gradients.workspace);
  }

 private:
  // x and y in lanes, a slice of each, a row of tiles, transformed gradients of windows.
  struct Thread {
    float *x, *y, *v, *m, *row, *partial;
  };

  int64_t TransformedSize() const { return kPoints * kPoints * Round(windows_); }
  const float* Transformed(const float* u, int i, int j) const {
    return u + (i * kPoints + j) * Round(windows_);
  }
  float* Point(float* slice, int64_t channels, int j) const {
    return slice + j * channels * stride_;
  }

  // Divides the workspace among the threads.
  void Bind(DevicePtr workspace) {
    const WinogradShape& s = shape_;
    float* next = At(workspace);
    const auto take = [&](int64_t elements) {
      float* taken = next;
      next += elements;
      return taken;
    };
    for (Thread& t : threads_) {
      t = {take(x_.lanes_size()),
           take(y_.lanes_size()),
           take(kPoints * s.inputs * stride_),
           take(kPoints * s.outputs * stride_),
           take(s.in_columns * kLanes),
           take(descriptor_.backward_weights ? TransformedSize() : 0)};
    }
  }

  // Calls work for each block of images.
  template <class Work> void InBlocks(const Work& work) {
    const auto blocks = [&](int64_t thread, int64_t threads) {
      for (int64_t i = blocks_ * thread / threads; i < blocks_ * (thread + 1) / threads; ++i) {
        work(threads_[thread], i, std::min(kLanes, descriptor_.batch - i * kLanes));
      }
    };
    if (threads_.size() == 1 || omp_in_parallel()) {
      blocks(0, 1);
    } else {
      const int count = static_cast<int>(threads_.size());
#pragma omp parallel num_threads(count)
      blocks(omp_get_thread_num(), omp_get_num_threads());
    }
    device_->CountLibraryCall();
  }

  template <class Work> void InSlices(const Work& work) const {
    for (int64_t begin = 0; begin < shape_.tiles_y; begin += strip_) {
      const int64_t end = std::min<int64_t>(shape_.tiles_y, begin + strip_);
      const WinogradStrip strip{begin, end, stride_};
      for (int i = 0; i < kPoints; ++i) work(strip, i, (end - begin) * shape_.tiles_x * kLanes);
    }
  }

  Device* device_;
  const WinogradSteps& steps_;
  const HostGemm<float> gemm_;
  const WinogradShape shape_;
  const int64_t blocks_, windows_;  // of 16 images; pairs of channels
  Window x_, y_;
  int64_t strip_, stride_;  // rows of tiles at a time; elements between channels of a slice
  const EpilogueStages stages_;
  std::vector<std::unique_ptr<EpiloguePass>> passes_;  // of the threads; none for bounds
  BiasOp bias_;
  int64_t bytes_ = 0;  // of workspace
  std::vector<Thread> threads_;
};

bool Supports(Device*, const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  if (!Steps(HostLevel())) return false;
  if (!(d.in == kFloat && d.out == kFloat) || d.group != 1 || g.axes() != 2) return false;
  if (!(g.kernel == Shape{3, 3} || g.kernel == Shape{5, 5})) return false;
  if (!(g.stride == Shape{1, 1} && g.dilation == Shape{1, 1})) return false;
  if (d.workspace_limit > 0 || d.in_channels < 8 || d.out_channels < 8) return false;
  return g.pad[0] < g.kernel[0] && g.pad[1] < g.kernel[1];
}

// True where it is the fastest.
bool Pays(Device*, const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  const WinogradShape s = ShapeOf(d);
  const int64_t lanes =
      kLanes * std::max(s.inputs * s.in_rows * s.in_columns, s.outputs * s.rows * s.columns);
  if (lanes > kLaneElements) return false;
  // Estimates the cost: whole blocks for every thread, and the products of this method, including
  // padding, plus half for the transforms, against the products of the definition.
  const int64_t threads = std::max(1, omp_get_max_threads());
  const int64_t blocks = (d.batch + kLanes - 1) / kLanes;
  const int64_t own = (blocks + threads - 1) / threads * threads * kLanes * kPoints * kPoints *
                      s.tiles_y * s.tiles_x;
  return 3 * own <= 2 * d.batch * g.kernel_count() * g.output_count();
}

}  // namespace

ConvLibrary WinogradLibrary() {
  return {"winograd", &OnHost, &Supports,
          [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
            return std::make_unique<WinogradConvOp>(device, d);
          },
          &Pays};
}

}  // namespace caffe
