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

// kernels/pool/*.h. In C order a plane is an image of one channel.
class KernelPoolOp final : public PoolOp {
 public:
  KernelPoolOp(Device* device, const PoolDescriptor& d)
      : PoolOp(d),
        host_(!device->has_groups()),
        device_(device),
        way_(WayOf()),
        vector_(way_ == Way::kVectors ? Vector() : 0),
        block_(d.channels % device->info().span() == 0 ? device->info().span() : 1) {
    const Body forward = ForwardBody();
    const auto program = Program(forward.file);
    forward_ = program->CreateKernel(forward.kernel);
    if (!d.has_gradient()) return;
    const Body backward = BackwardBody();
    backward_ = (backward.file == forward.file ? program : Program(backward.file))
                    ->CreateKernel(backward.kernel);
  }
  const char* library() const override { return host_ ? "native" : "generated"; }

 protected:
  void DoForward(const PoolArguments& a) override {
    const PoolDescriptor& d = descriptor_;
    const bool general = way_ != Way::kTiles && !Random();
    KernelArguments arguments = Geometry(general);
    if (general) arguments.push_back(d.y_row());
    // Maxima have no factors: the greatest code is copied.
    arguments.push_back({a.x, a.quant ? a.quant->zero_x : 0});
    arguments.push_back({a.y, a.quant ? a.quant->zero_y : 0});
    if (d.method == Method::kAverage) {
      arguments.append(
          {a.quant ? a.quant->multiplier : DevicePtr(), a.quant ? a.quant->shift : DevicePtr()});
    } else if (way_ == Way::kTiles || d.method == Method::kDraw) {
      arguments.push_back(a.mask);
    } else if (d.method == Method::kMax && way_ != Way::kVectors) {
      arguments.append({int64_t{d.has_mask()}, a.mask});
    }
    if (d.method == Method::kDraw) arguments.append({a.counters, a.seed});
    LaunchRange range = Positions(d.height.output, d.width.output);
    // Elements of the window are compared one by one.
    if (!d.has_private_layout()) range.cost = 2 * d.height.kernel * d.width.kernel;
    if (d.method == Method::kDraw) range = range.rows * range.columns;
    forward_->Launch(range, arguments);
  }

  void DoBackward(const PoolArguments& a) override {
    const PoolDescriptor& d = descriptor_;
    KernelArguments arguments = Geometry(way_ == Way::kGeneral);
    LaunchRange range = way_ == Way::kTiles ? Positions(d.height.output, d.width.output)
                                            : Positions(d.height.input, d.width.input);
    if (way_ == Way::kBlocks) {
      const auto blocks = [](const PoolDescriptor::Axis& axis) {
        return (axis.input + axis.pad + axis.stride - 1) / axis.stride;
      };
      const int64_t blocks_h = blocks(d.height), blocks_w = blocks(d.width);
      arguments.append({blocks_h, blocks_w});
      range = {d.planes * blocks_h, blocks_w};
    }
    arguments.push_back(a.y_diff);
    if (d.has_mask()) arguments.push_back(a.mask);
    arguments.push_back(a.x_diff);
    backward_->Launch(range, arguments);
  }

 private:
  // The kernels of maxima. kTiles are for windows of 2x2 in planes that do not overlap and are
  // never cut, kBlocks for gradients in planes on devices, kVectors for codes with channels last on
  // devices.
  enum class Way { kGeneral, kTiles, kBlocks, kVectors };

  // A file of kernels/pool/ and a kernel in it.
  struct Body {
    std::string file, kernel;
  };
  Body ForwardBody() const {
    if (way_ == Way::kVectors) return {"max_codes", "max_pool_codes"};
    if (way_ == Way::kTiles) return {"max_planes", "max_pool_forward_tiles"};
    switch (descriptor_.method) {
      case Method::kMax: return {"max", "max_pool_forward"};
      case Method::kAverage: return {"average", "average_pool_forward"};
      case Method::kDraw: return {"stochastic", "stochastic_pool_draw"};
      case Method::kExpect: break;
    }
    return {"stochastic", "stochastic_pool_expect"};
  }
  Body BackwardBody() const {
    if (way_ == Way::kTiles) return {"max_planes", "max_pool_backward_tiles"};
    if (way_ == Way::kBlocks) return {"max_planes", "max_pool_backward_blocks"};
    return descriptor_.method == Method::kAverage ? Body{"average", "average_pool_backward"}
                                                  : Body{"max", "max_pool_backward"};
  }

  Way WayOf() const {
    const PoolDescriptor& d = descriptor_;
    if (d.method != Method::kMax) return Way::kGeneral;
    if (d.has_private_layout()) {
      return !host_ && d.quantized() && Vector() > 0 ? Way::kVectors : Way::kGeneral;
    }
    const auto exact = [](const PoolDescriptor::Axis& axis) {
      return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0 && axis.input == 2 * axis.output;
    };
    // The host computes four windows at a time.
    const bool wide = !host_ || d.width.output >= 4;
    if (exact(d.height) && exact(d.width) && wide) return Way::kTiles;
    const int64_t block = d.height.stride * d.width.stride;
    return !host_ && block > 1 && block <= 16 ? Way::kBlocks : Way::kGeneral;
  }

  bool Random() const {
    return descriptor_.method == Method::kDraw || descriptor_.method == Method::kExpect;
  }

  // The bytes of the channels of a position.
  int64_t RowBytes() const {
    return descriptor_.channels * static_cast<int64_t>(descriptor_.types.in.bytes());
  }

  // The bytes of channels that an item of pool/max_codes computes; 0 if it does not support them.
  int64_t Vector() const {
    for (const int64_t vector : {16, 8, 4}) {
      if (RowBytes() % vector == 0) return vector;
    }
    return 0;
  }

  // The launch of the positions of x or y.
  LaunchRange Positions(int64_t height, int64_t width) const {
    const PoolDescriptor& d = descriptor_;
    const int64_t lines = d.planes / d.channels * height;
    if (vector_ > 0) return {lines * width, RowBytes() / vector_};
    return d.channels > 1 ? LaunchRange(lines * width, d.channels / block_)
                          : LaunchRange(lines, width);
  }

  std::shared_ptr<caffe::Program> Program(const std::string& file) const {
    const PoolDescriptor& d = descriptor_;
    ProgramBuilder builder(device_, "pool/" + file);
    builder.Types(d.types).Body("pool/" + file).Define("BLOCK", block_);
    if (vector_ > 0) {
      builder.Define("VECTOR", vector_);
      builder.Define("CODE_BYTES", static_cast<int64_t>(d.types.in.bytes()));
    }
    if (d.fixed_window) {
      builder.Fold("kernel_h", d.height.kernel).Fold("kernel_w", d.width.kernel);
    }
    if (d.has_private_layout()) {
      // Divisions by them give each item its place.
      builder.Fold("height", d.height.input).Fold("width", d.width.input);
      builder.Fold("out_height", d.height.output).Fold("out_width", d.width.output);
    }
    builder.Fold("channels", d.channels).Fold("y_row", d.y_row()).Fold("masks", d.has_mask());
    builder.Fold("stride_h", d.height.stride).Fold("stride_w", d.width.stride);
    builder.Fold("pad_h", d.height.pad).Fold("pad_w", d.width.pad);
    return builder.Build();
  }

  // The first arguments. Kernels of planes have no channels.
  KernelArguments Geometry(bool channels) const {
    const PoolDescriptor& d = descriptor_;
    KernelArguments arguments;
    if (channels) arguments.push_back(d.channels);
    arguments.append(
        {d.planes / d.channels, d.height.input, d.width.input, d.height.output, d.width.output});
    if (way_ != Way::kTiles) {
      arguments.append({d.height.kernel, d.width.kernel, d.height.stride, d.width.stride,
                        d.height.pad, d.width.pad});
    }
    return arguments;
  }

  const bool host_;
  Device* device_;
  const Way way_;
  const int64_t vector_, block_;  // of an item on devices: bytes, channels
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
