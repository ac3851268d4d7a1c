#include <algorithm>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

// One axis is treated as an image of one row.
ConvGeometry Planar(const ConvGeometry& g) {
  if (g.axes() == 2) return g;
  return {{1, g.input[0]}, {1, g.kernel[0]}, {1, g.stride[0]}, {0, g.pad[0]}, {1, g.dilation[0]}};
}

// Kernels count elements in 32 bits.
bool Counts(const ConvDescriptor& d) {
  return std::max(d.batch * d.in_channels * d.geometry.input_count(),
                  d.batch * d.out_channels * d.geometry.output_count()) <= INT32_MAX;
}

// One work item per element. Gradients of weights: work groups sum slices of images and positions,
// and the slices are added in a fixed order.
class DeviceDepthwiseOp final : public ConvOp {
 public:
  DeviceDepthwiseOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        geometry_(Planar(d.geometry)),
        out_(geometry_.output()),
        stages_(d.epilogue),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, d.geometry.output_count(),
              std::nullopt, d.backward_weights) {
    ProgramBuilder builder(device, "depthwise");
    builder.Types({d.master(), d.in, d.out});
    stages_.Define(&builder);
    builder.Body("conv/depthwise");
    Fold(&builder);
    const auto program = builder.Build();
    forward_ = program->CreateKernel("depthwise_forward");
    data_ = program->CreateKernel("depthwise_backward_data");
    weights_ = builder.GroupKernel("depthwise_backward_weights", program);
    if (!d.backward_weights) return;
    // Enough groups to fill the device, with a few rounds of work each.
    const int64_t work = d.batch * d.geometry.output_count() / (4 * weights_->group());
    slices_ = std::clamp<int64_t>(4 * device->info().compute_units / d.weight_count(), 1,
                                  std::max<int64_t>(work, 1));
    if (slices_ == 1) return;
    parts_bytes_ = slices_ * d.weight_count() * static_cast<int64_t>(d.master().bytes());
    accumulate_ = ProgramBuilder(device, "accumulate")
                      .Types(d.master())
                      .Body("blas/accumulate")
                      .Build()
                      ->CreateKernel("accumulate_parts");
  }
  const char* library() const override { return "depthwise"; }
  int64_t workspace_bytes() const override {
    return std::max(parts_bytes_, bias_.workspace_bytes());
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    const ConvDescriptor& d = descriptor_;
    const bool has_bias = d.epilogue.bias != Epilogue::Bias::kNone;
    const int64_t rows = d.batch * d.out_channels * out_[0];
    KernelArguments arguments{rows};
    AddGeometry(&arguments);
    arguments.push_back(has_bias);
    stages_.AddArguments(a.epilogue, a.y, &arguments);
    arguments.append({a.x, a.weights, has_bias ? a.bias : BufferOf(a.y), a.y});
    forward_->Launch(LaunchRange(rows, out_[1]), arguments);
  }

  void DoBackwardData(const ConvGradients& g) override {
    const ConvDescriptor& d = descriptor_;
    const int64_t rows = d.batch * d.in_channels * geometry_.input[0];
    KernelArguments arguments{rows};
    AddGeometry(&arguments);
    arguments.append({g.y_diff, g.weights, g.x_diff});
    data_->Launch(LaunchRange(rows, geometry_.input[1]), arguments);
  }

  void DoBackwardWeights(const ConvGradients& g) override {
    const ConvDescriptor& d = descriptor_;
    const int64_t count = d.weight_count();
    CheckWorkspace(g.workspace);
    KernelArguments arguments{count, d.batch, slices_};
    AddGeometry(&arguments);
    arguments.append({g.x, g.y_diff, slices_ > 1 ? g.workspace : g.w_diff});
    weights_->LaunchInGroups({{count, slices_, 1}, {weights_->group(), 1, 1}}, arguments);
    if (slices_ > 1) accumulate_->Launch(count, {count, slices_, g.workspace, g.w_diff});
  }

  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  void Fold(ProgramBuilder* builder) const {
    const char* const names[] = {"channels", "multiplier", "in_h",       "in_w",      "out_h",
                                 "out_w",    "kernel_h",   "kernel_w",   "stride_h",  "stride_w",
                                 "pad_h",    "pad_w",      "dilation_h", "dilation_w"};
    KernelArguments values;
    AddGeometry(&values);
    for (size_t i = 0; i < values.size(); ++i) builder->Fold(names[i], values[i].integer);
  }

  void AddGeometry(KernelArguments* arguments) const {
    const ConvDescriptor& d = descriptor_;
    const ConvGeometry& g = geometry_;
    arguments->append({d.in_channels, d.out_channels / d.in_channels, g.input[0], g.input[1],
                       out_[0], out_[1], g.kernel[0], g.kernel[1], g.stride[0], g.stride[1],
                       g.pad[0], g.pad[1], g.dilation[0], g.dilation[1]});
  }

  const ConvGeometry geometry_;
  const Shape out_;
  const EpilogueStages stages_;
  BiasOp bias_;
  int64_t slices_ = 1;       // work groups that share the sum of one weight
  int64_t parts_bytes_ = 0;  // partial gradients of weights, if there are several slices
  std::unique_ptr<Kernel> forward_, data_, weights_, accumulate_;
};

// How planes are divided into strips of rows for kernels/conv/depthwise_planes.h, whose arrays have
// kRoom elements. A strip is chosen so that most of its data stay in the first cache.
struct StripLayout {
  static constexpr int64_t kRoom = 8192, kPreferred = 4096, kTaps = 256;

  // The largest number of rows, up to `most`, for which `Fits` returns true; 0 if there is none.
  template <class Fits> static int64_t Choose(int64_t most, const Fits& fits) {
    for (int64_t strip = most; strip > 0; --strip) {
      if (fits(strip, kPreferred)) return strip;
    }
    return fits(1, kRoom) ? 1 : 0;
  }

  StripLayout(const ConvGeometry& g, bool of_y) {
    const Shape out = g.output();
    const int64_t images = g.stride[0] * g.stride[1];
    const int64_t reach_h = g.dilation[0] * (g.kernel[0] - 1) / g.stride[0];
    reach_w = g.dilation[1] * (g.kernel[1] - 1) / g.stride[1];
    if (of_y) {
      all_rows = out[0];
      pitch = out[1] + reach_w;
    } else {
      first_h = g.pad[0] / g.stride[0];
      first_w = g.pad[1] / g.stride[1];
      all_rows = (g.pad[0] + g.input[0] - 1) / g.stride[0] - first_h + 1;
      pitch = (g.pad[1] + g.input[1] - 1) / g.stride[1] - first_w + 1 + reach_w;
    }
    strip = Choose(all_rows, [&](int64_t count, int64_t limit) {
      const int64_t seen = count + reach_h;
      if (of_y) {
        return images * seen * pitch + reach_w + 64 <= limit &&
               seen * g.stride[0] * g.input[1] <= kRoom;
      }
      return seen * pitch + reach_w + 64 <= limit && seen * out[1] <= kRoom &&
             count * g.stride[0] * g.input[1] <= kRoom &&
             images * ((count * pitch + 15) / 16 * 16) <= kRoom;
    });
    rows = strip + reach_h;
    if (strip == 0 || g.kernel_count() > kTaps) return;
    // The image that a tap belongs to, and its offset there.
    std::vector<std::vector<int32_t>> taps(images), offsets(images);
    for (int64_t h = 0; h < g.kernel[0]; ++h) {
      for (int64_t w = 0; w < g.kernel[1]; ++w) {
        const int64_t y = h * g.dilation[0], x = w * g.dilation[1];
        const int64_t image = y % g.stride[0] * g.stride[1] + x % g.stride[1];
        const int64_t down = y / g.stride[0], right = x / g.stride[1];
        taps[image].push_back(static_cast<int32_t>(h * g.kernel[1] + w));
        if (of_y) {
          table.push_back(static_cast<int32_t>((image * rows + down) * pitch + right));
        } else {
          offsets[image].push_back(
              static_cast<int32_t>((reach_h - down) * pitch + reach_w - right));
        }
      }
    }
    if (of_y) return;
    table.push_back(0);
    for (const auto& list : taps) table.push_back(table.back() + static_cast<int>(list.size()));
    for (const auto& list : taps) table.insert(table.end(), list.begin(), list.end());
    for (const auto& list : offsets) table.insert(table.end(), list.begin(), list.end());
  }
  bool possible() const { return !table.empty(); }

  int64_t strip = 0, rows = 0, pitch = 0, reach_w = 0, all_rows = 0, first_h = 0, first_w = 0;
  std::vector<int32_t> table;
};

// One work item per plane.
class HostDepthwiseOp final : public ConvOp {
 public:
  HostDepthwiseOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        geometry_(Planar(d.geometry)),
        out_(geometry_.output()),
        stages_(d.epilogue),
        of_y_(geometry_, true),
        of_x_(geometry_, false),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, d.geometry.output_count(),
              std::nullopt, d.backward_weights),
        table_y_(Upload(device, of_y_.table)),
        table_x_(Upload(device, of_x_.table)) {
    const DataType compute = d.in == d.out ? d.in : d.master();
    const auto program = ProgramBuilder(device, "depthwise")
                             .Types({compute, d.in, d.out})
                             .Body("conv/depthwise_planes")
                             .Build();
    forward_ = program->CreateKernel("depthwise_forward_planes");
    data_ = program->CreateKernel("depthwise_backward_data_planes");
    weights_ = program->CreateKernel("depthwise_backward_weights_planes");
  }
  const char* library() const override { return "depthwise"; }
  int64_t workspace_bytes() const override { return bias_.workspace_bytes(); }

 protected:
  void DoForward(const ConvArguments& a) override {
    const ConvDescriptor& d = descriptor_;
    const bool has_bias = d.epilogue.bias != Epilogue::Bias::kNone;
    KernelArguments arguments{d.batch * d.out_channels, d.out_channels, multiplier()};
    AddGeometry(of_y_, &arguments);
    arguments.push_back(has_bias);
    stages_.AddArguments(a.epilogue, a.y, &arguments);
    stages_.AddHostArguments(&arguments);
    arguments.append({table_y_.get(), a.x, a.weights, has_bias ? a.bias : DevicePtr{}, a.y});
    forward_->Launch(d.batch * d.out_channels, arguments);
  }

  void DoBackwardData(const ConvGradients& g) override {
    const ConvDescriptor& d = descriptor_;
    KernelArguments arguments{d.batch * d.in_channels, d.in_channels, multiplier()};
    AddGeometry(of_x_, &arguments);
    arguments.append({of_x_.first_h, of_x_.first_w, of_x_.all_rows, of_x_.reach_w, table_x_.get(),
                      g.y_diff, g.weights, g.x_diff});
    data_->Launch(d.batch * d.in_channels, arguments);
  }

  void DoBackwardWeights(const ConvGradients& g) override {
    const ConvDescriptor& d = descriptor_;
    KernelArguments arguments{d.out_channels, d.batch, multiplier()};
    AddGeometry(of_y_, &arguments);
    arguments.append({table_y_.get(), g.x, g.y_diff, g.w_diff});
    weights_->Launch(d.out_channels, arguments);
  }

  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  static DeviceArray Upload(Device* device, const std::vector<int32_t>& table) {
    DeviceArray array(device, table.size() * sizeof(int32_t), "taps of a convolution");
    device->Upload(array.get(), table.data(), array.bytes());
    return array;
  }

  int64_t multiplier() const { return descriptor_.out_channels / descriptor_.in_channels; }

  void AddGeometry(const StripLayout& s, KernelArguments* arguments) const {
    const ConvGeometry& g = geometry_;
    arguments->append({g.input[0], g.input[1], out_[0], out_[1], g.stride[0], g.stride[1], g.pad[0],
                       g.pad[1], g.kernel_count(), s.strip, s.rows, s.pitch});
  }

  const ConvGeometry geometry_;
  const Shape out_;
  const EpilogueStages stages_;
  const StripLayout of_y_, of_x_;
  BiasOp bias_;
  const DeviceArray table_y_, table_x_;
  std::unique_ptr<Kernel> forward_, data_, weights_;
};

bool Supports(Device* device, const ConvDescriptor& d) {
  if (!d.in.is_float() || d.group == 1 || d.group != d.in_channels || d.geometry.axes() > 2) {
    return false;
  }
  if (!OnHost(*device)) return Counts(d);
  const ConvGeometry g = Planar(d.geometry);
  return StripLayout(g, true).possible() && StripLayout(g, false).possible();
}

}  // namespace

ConvLibrary DepthwiseLibrary() {
  ConvLibrary row;
  row.name = "depthwise";
  row.supports = &Supports;
  row.make = [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    if (OnHost(*device)) return std::make_unique<HostDepthwiseOp>(device, d);
    return std::make_unique<DeviceDepthwiseOp>(device, d);
  };
  row.compared = true;
  return row;
}

}  // namespace caffe
