#include <omp.h>

#include <algorithm>
#include <memory>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/pool_steps.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const PoolSteps pool_steps_v2, pool_steps_v3, pool_steps_v4;
#else
extern const PoolSteps pool_steps_neon;
#endif

namespace {

using Method = PoolDescriptor::Method;

constexpr int64_t kParallelElements = 1 << 14;
// Sums of this many codes fit 32 bits, with any zero point.
constexpr int64_t kMostTaps = 1 << 14;
// Channels of a task, if there are fewer windows than threads.
constexpr int64_t kChannels = 256;

const PoolSteps& HostSteps() {
#if defined(__x86_64__)
  const InstructionLevel level = HostLevelNumber();
  return level == InstructionLevel::kV4   ? pool_steps_v4
         : level == InstructionLevel::kV3 ? pool_steps_v3
                                          : pool_steps_v2;
#else
  return pool_steps_neon;
#endif
}

PoolElement ElementOf(DataType type) {
  return type == kQuant8    ? PoolElement::kCode8
         : type == kQuant16 ? PoolElement::kCode16
         : type == kFloat   ? PoolElement::kFloat
         : type == kHalf    ? PoolElement::kHalf
                            : PoolElement::kBfloat16;
}

// Codes, float and half kinds with channels last. A maximum of codes needs no zero points: bottom
// and top have one range.
class ChannelsLastPoolOp final : public PoolOp {
 public:
  ChannelsLastPoolOp(Device* device, const PoolDescriptor& d)
      : PoolOp(d),
        device_(device),
        bytes_(static_cast<int64_t>(d.types.in.bytes())),
        windows_(d.planes / d.channels * d.height.output * d.width.output),
        parts_(windows_ < omp_get_max_threads() ? (d.channels + kChannels - 1) / kChannels : 1) {}
  const char* library() const override { return "native"; }

 protected:
  void DoForward(const PoolArguments& a) override {
    const PoolDescriptor& d = descriptor_;
    const int64_t taps = d.height.kernel * d.width.kernel;
    const bool lines = ReadsLines();
    const int64_t tasks = lines ? windows_ / d.width.output : windows_ * parts_;
    const auto compute = [&](int64_t task) {
      if (lines) {
        ComputeLine(a, task);
      } else if (parts_ == 1) {
        Compute(a, task, 0);
      } else {
        Compute(a, task / parts_, task % parts_ * kChannels);
      }
    };
    if (windows_ * taps * d.channels >= kParallelElements && !omp_in_parallel()) {
#pragma omp parallel for schedule(static)
      for (int64_t task = 0; task < tasks; ++task) compute(task);
    } else {
      for (int64_t task = 0; task < tasks; ++task) compute(task);
    }
    device_->CountLibraryCall();
  }
  void DoBackward(const PoolArguments&) override {}

 private:
  // Whether `max_line` computes lines of windows, each of which has elements.
  bool ReadsLines() const {
    const PoolDescriptor& d = descriptor_;
    const int64_t pixel = d.channels * bytes_;
    return d.quantized() && d.method == Method::kMax && d.y_row() == d.channels &&
           pixel <= kPoolLinePixel && d.width.input * pixel <= kPoolLineBytes &&
           d.width.output * pixel <= kPoolLineBytes;
  }

  void ComputeLine(const PoolArguments& a, int64_t line) const {
    const PoolDescriptor& d = descriptor_;
    const int64_t image = line / d.height.output;
    const int64_t first = line % d.height.output * d.height.stride - d.height.pad;
    const int64_t h = std::max<int64_t>(first, 0), pixel = d.channels * bytes_;
    PoolLine p{};
    p.element = ElementOf(d.types.in);
    p.channels = d.channels;
    p.rows = std::min(first + d.height.kernel, d.height.input) - h;
    p.row_stride = d.width.input * d.channels;
    p.x = a.x.address() + (image * d.height.input + h) * d.width.input * pixel;
    p.width = d.width.input;
    p.windows = d.width.output;
    p.kernel = d.width.kernel;
    p.stride = d.width.stride;
    p.pad = d.width.pad;
    p.y = a.y.address() + line * d.width.output * pixel;
    HostSteps().max_line(p);
  }

  void Compute(const PoolArguments& a, int64_t window, int64_t channel) const {
    const PoolDescriptor& d = descriptor_;
    const int64_t line = window / d.width.output, image = line / d.height.output;
    const int64_t h0 = line % d.height.output * d.height.stride - d.height.pad;
    const int64_t w0 = window % d.width.output * d.width.stride - d.width.pad;
    const int64_t h1 = std::min(h0 + d.height.kernel, d.height.input);
    const int64_t w1 = std::min(w0 + d.width.kernel, d.width.input);
    const int64_t h = std::max<int64_t>(h0, 0), v = std::max<int64_t>(w0, 0);
    PoolWindow w{};
    w.element = ElementOf(d.types.in);
    w.rows = h1 - h;
    w.columns = w1 - v;
    w.row_stride = d.width.input * d.channels;
    w.column_stride = d.channels;
    w.x = a.x.address() +
          (((image * d.height.input + h) * d.width.input + v) * d.channels + channel) * bytes_;
    w.channels = parts_ > 1 ? std::min(kChannels, d.channels - channel) : d.channels;
    w.y = a.y.address() + (window * d.y_row() + channel) * bytes_;
    if (d.method == Method::kMax) return HostSteps().max(w);
    // The area within the padded image; 0 for a window beyond it.
    const int64_t height = std::min(h0 + d.height.kernel, d.height.input + d.height.pad) - h0;
    const int64_t width = std::min(w0 + d.width.kernel, d.width.input + d.width.pad) - w0;
    const int64_t area = height > 0 && width > 0 ? height * width : 1;
    const QuantArguments& quant = *a.quant;
    w.offset = static_cast<int>(w.rows * w.columns * quant.zero_x);
    w.multiplier = reinterpret_cast<const int*>(quant.multiplier.address())[area - 1];
    w.shift = reinterpret_cast<const int*>(quant.shift.address())[area - 1];
    w.zero_y = quant.zero_y;
    HostSteps().mean(w);
  }

  Device* device_;
  const int64_t bytes_, windows_, parts_;
};

// A stride larger than the kernel can have windows beyond the image, which have no elements.
bool EveryWindowHasElements(const PoolDescriptor::Axis& axis) {
  const int64_t last = (axis.output - 1) * axis.stride - axis.pad;
  return axis.output > 0 && last < axis.input && axis.kernel > axis.pad;
}

// Averages of float and half kinds are computed by KernelPoolOp.
bool HasSteps(const PoolDescriptor& d) {
  if (d.method == Method::kMax) {
    const auto is = [&](DataType type) { return d.types == TypeTriple::Equal(type); };
    return d.quantized() || is(kFloat) || is(kHalf) || is(kBfloat16);
  }
  return d.method == Method::kAverage && d.quantized();
}

}  // namespace

PoolLibrary NativeChannelsLastPoolingLibrary() {
  PoolLibrary row;
  row.name = "native";
  row.place = &OnHost;
  row.supports = [](Device*, const PoolDescriptor& d) {
    return d.has_private_layout() && !d.trains && HasSteps(d) && EveryWindowHasElements(d.height) &&
           EveryWindowHasElements(d.width) && d.height.kernel * d.width.kernel <= kMostTaps;
  };
  row.make = [](Device* device, const PoolDescriptor& d) -> std::unique_ptr<PoolOp> {
    return std::make_unique<ChannelsLastPoolOp>(device, d);
  };
  row.prefers_nhwc = [](Device*, const PoolDescriptor&) { return false; };
  row.knows_pitch = true;
  return row;
}

}  // namespace caffe
