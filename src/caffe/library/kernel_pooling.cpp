#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

using Method = PoolDescriptor::Method;

// kernels/pool/*.h. `native` and `generated` differ in the bodies for windows of 2x2 that do not
// overlap and are never cut: rows of windows on the CPU, one window per item on devices.
class KernelPoolOp final : public PoolOp {
 public:
  KernelPoolOp(Device* device, const PoolDescriptor& d)
      : PoolOp(d),
        host_(!device->has_groups()),
        device_(device),
        tiles_(Tiles()),
        blocks_(Blocks()) {
    const std::string tiles = host_ ? "_rows" : "_tiles";
    if (d.has_private_layout() && d.quantized() && d.method == Method::kAverage) {
      Make(host_ ? "pool/average_quantized_rows" : "pool/average_quantized_spans",
           Concat("average_pool_quantized_", host_ ? "rows" : "channels"), "");
    } else if (Vector() > 0) {
      Make("pool/max_codes", "max_pool_codes", "");
    } else if (d.has_private_layout() && d.trains) {
      const std::string rows = host_ ? "_rows" : "";
      const char* const body =
          host_ ? "pool/channels_last_training" : "pool/channels_last_training_spans";
      if (d.method == Method::kMax) {
        Make(body, "max_pool_channels_mask" + rows, "max_pool_channels_backward" + rows);
      } else {
        Make(host_ ? "pool/channels_last" : "pool/channels_last_spans",
             "average_pool_channels" + rows, "");
        backward_ = Program(body)->CreateKernel("average_pool_channels_backward" + rows);
      }
    } else if (d.has_private_layout()) {
      const std::string method = d.method == Method::kMax ? "max" : "average";
      Make(host_ ? "pool/channels_last" : "pool/channels_last_spans",
           method + "_pool_channels" + (host_ ? "_rows" : ""), "");
    } else if (d.method == Method::kMax) {
      Make("pool/max", "max_pool_forward" + (tiles_ ? tiles : ""),
           d.quantized() ? ""
                         : "max_pool_backward" + (blocks_  ? "_blocks"
                                                  : tiles_ ? tiles
                                                           : ""));
    } else if (d.quantized()) {
      Make("pool/average_quantized", "average_pool_quantized", "");
    } else if (d.method == Method::kAverage) {
      Make("pool/average", "average_pool_forward", "average_pool_backward");
    } else if (d.method == Method::kDraw) {
      Make("pool/stochastic", "stochastic_pool_draw", "");
      backward_ = Program("pool/max")->CreateKernel("max_pool_backward");
    } else {
      Make("pool/stochastic", "stochastic_pool_expect", "");
    }
  }
  const char* library() const override { return host_ ? "native" : "generated"; }

 protected:
  void DoForward(const PoolArguments& a) override {
    const PoolDescriptor& d = descriptor_;
    KernelArguments arguments = Geometry();
    if (d.has_private_layout()) {
      // Maxima have no factors: the greatest code is copied.
      arguments.push_back({a.x, a.quant ? a.quant->zero_x : 0});
      arguments.push_back({a.y, a.quant ? a.quant->zero_y : 0});
      if (a.quant) arguments.append({a.quant->multiplier, a.quant->shift});
      if (d.has_mask()) arguments.push_back(a.mask);
      const int64_t windows = d.planes / d.channels * d.height.output * d.width.output;
      // On the host the second extent is the cost of a window; on devices it is an axis.
      const int64_t vector = Vector();
      forward_->Launch({windows, vector > 0 ? RowBytes() / vector : d.channels}, arguments);
      return;
    }
    arguments.push_back({a.x, a.quant ? a.quant->zero_x : 0});
    arguments.push_back({a.y, a.quant ? a.quant->zero_y : 0});
    if (a.quant) {
      arguments.push_back(a.quant->multiplier);
      arguments.push_back(a.quant->shift);
    }
    if (d.has_mask()) arguments.push_back(a.mask);
    if (d.method == Method::kDraw) {
      arguments.push_back(a.counters);
      arguments.push_back(a.seed);
      forward_->Launch(d.planes * d.height.output * d.width.output, arguments);
    } else {
      LaunchRange range(d.planes * d.height.output, d.width.output);
      // Elements of the window are compared one by one.
      range.cost = 2 * d.height.kernel * d.width.kernel;
      forward_->Launch(range, arguments);
    }
  }

  void DoBackward(const PoolArguments& a) override {
    const PoolDescriptor& d = descriptor_;
    KernelArguments arguments = Geometry();
    const auto blocks = [](const PoolDescriptor::Axis& axis) {
      return (axis.input + axis.pad + axis.stride - 1) / axis.stride;
    };
    const int64_t blocks_h = blocks(d.height), blocks_w = blocks(d.width);
    if (blocks_) arguments.append({blocks_h, blocks_w});
    arguments.push_back(a.y_diff);
    if (d.has_mask()) arguments.push_back(a.mask);
    arguments.push_back(a.x_diff);
    if (d.has_private_layout()) {
      const int64_t positions = d.planes / d.channels * d.height.input * d.width.input;
      backward_->Launch({positions, d.channels}, arguments);
    } else if (blocks_) {
      backward_->Launch({d.planes * blocks_h, blocks_w}, arguments);
    } else if (tiles_) {
      backward_->Launch({d.planes * d.height.output, d.width.output}, arguments);
    } else {
      backward_->Launch({d.planes * d.height.input, d.width.input}, arguments);
    }
  }

 private:
  bool Tiles() const {
    const PoolDescriptor& d = descriptor_;
    const auto exact = [](const PoolDescriptor::Axis& axis) {
      return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0 && axis.input == 2 * axis.output;
    };
    // The kernel of rows computes four windows at a time.
    const bool wide = !host_ || d.width.output >= 4;
    return d.method == Method::kMax && exact(d.height) && exact(d.width) && wide &&
           !d.has_private_layout();
  }

  // Whether an item of the backward pass computes a block of elements (max_pool_backward_blocks).
  bool Blocks() const {
    const PoolDescriptor& d = descriptor_;
    const int64_t block = d.height.stride * d.width.stride;
    return d.method == Method::kMax && !host_ && !tiles_ && !d.has_private_layout() && block > 1 &&
           block <= 16;
  }

  // The bytes of the channels of a position.
  int64_t RowBytes() const {
    return descriptor_.channels * static_cast<int64_t>(descriptor_.types.in.bytes());
  }

  // The bytes of channels that an item of pool/max_codes computes; 0 if another kernel is used.
  int64_t Vector() const {
    const PoolDescriptor& d = descriptor_;
    if (host_ || !d.has_private_layout() || !d.quantized() || d.method != Method::kMax) return 0;
    for (const int64_t vector : {16, 8, 4}) {
      if (RowBytes() % vector == 0) return vector;
    }
    return 0;
  }

  std::shared_ptr<caffe::Program> Program(const char* body) const {
    const PoolDescriptor& d = descriptor_;
    ProgramBuilder builder(device_, body);
    builder.Types(d.types).Body(body);
    if (Vector() > 0) {
      builder.Define("VECTOR", Vector());
      builder.Define("CODE_BYTES", static_cast<int64_t>(d.types.in.bytes()));
    }
    if (d.fixed_window) {
      builder.Fold("kernel_h", d.height.kernel).Fold("kernel_w", d.width.kernel);
    }
    if (d.has_private_layout()) {
      // Divisions by them give each item its place.
      builder.Fold("channels", d.channels).Fold("height", d.height.input);
      builder.Fold("width", d.width.input).Fold("out_height", d.height.output);
      builder.Fold("out_width", d.width.output).Fold("y_row", d.y_row());
    }
    builder.Fold("stride_h", d.height.stride).Fold("stride_w", d.width.stride);
    builder.Fold("pad_h", d.height.pad).Fold("pad_w", d.width.pad);
    return builder.Build();
  }

  void Make(const char* body, const std::string& forward, const std::string& backward) {
    const auto program = Program(body);
    forward_ = program->CreateKernel(forward);
    if (!backward.empty()) backward_ = program->CreateKernel(backward);
  }

  // The arguments of the geometry, which all kernels take.
  KernelArguments Geometry() const {
    const PoolDescriptor& d = descriptor_;
    KernelArguments arguments;
    if (d.has_private_layout()) {
      arguments.append({d.planes / d.channels, d.channels});
    } else {
      arguments.push_back(d.planes);
    }
    arguments.append({d.height.input, d.width.input, d.height.output, d.width.output});
    if (!tiles_) {
      arguments.append({d.height.kernel, d.width.kernel, d.height.stride, d.width.stride,
                        d.height.pad, d.width.pad});
    }
    if (d.has_private_layout()) arguments.push_back(d.y_row());
    return arguments;
  }

  const bool host_;
  Device* device_;
  const bool tiles_, blocks_;
  std::unique_ptr<Kernel> forward_, backward_;
};

std::unique_ptr<PoolOp> Make(Device* device, const PoolDescriptor& d) {
  return std::make_unique<KernelPoolOp>(device, d);
}

bool Supports(const PoolDescriptor& d) {
  const bool reduces = d.method == Method::kMax || d.method == Method::kAverage;
  return !d.has_private_layout() || reduces;
}

PoolLibrary Row(const char* name, Place place) {
  PoolLibrary row;
  row.name = name;
  row.place = place;
  row.supports = [](Device*, const PoolDescriptor& d) { return Supports(d); };
  row.make = &Make;
  row.prefers_nhwc = [](Device*, const PoolDescriptor&) { return false; };
  row.knows_pitch = true;
  return row;
}

}  // namespace

PoolLibrary NativePoolingLibrary() { return Row("native", &OnHost); }

PoolLibrary GeneratedPoolingLibrary() { return Row("generated", &OnDevices); }

}  // namespace caffe
