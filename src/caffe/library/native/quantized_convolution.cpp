#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_convolution.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/native/quantized_product.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

constexpr int64_t kParallelProducts = 1 << 17;

int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// The offset of index `number` (in C order over `extents`) in an array of shape `within`, if an
// index on axis a counts step[a] elements.
int64_t Offset(int64_t number, const Shape& extents, const Shape& step, const Shape& within) {
  int64_t at = 0, stride = 1;
  for (int axis = static_cast<int>(extents.size()) - 1; axis >= 0; --axis) {
    at += number % extents[axis] * step[axis] * stride;
    number /= extents[axis];
    stride *= within[axis];
  }
  return at;
}

// Images with padding around them. Each thread takes blocks of positions of one image, gathers
// their patches and multiplies them with all channels, writing NCHW directly.
class HostQuantizedConvOp final : public ConvOp {
 public:
  HostQuantizedConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        weights_(d.in, true, d.out_channels, d.depth()),
        wide_(d.in == kQuant16 || d.depth() > kNarrowDepth) {
    const ConvGeometry& g = d.geometry;
    const int last = g.axes() - 1;
    const Shape padded = g.padded();
    plane_ = ShapeCount(padded);
    const Shape ones(g.axes(), 1), out = g.output();
    for (int64_t i = 0; i < g.output_count(); ++i) {
      starts_.push_back(Offset(i, out, g.stride, padded));
    }
    // Taps in runs of neighbours, if the last axis is not dilated.
    run_ = g.dilation[last] == 1 ? g.kernel[last] : 1;
    for (int64_t i = 0; i < g.kernel_count(); i += run_) {
      taps_.push_back(Offset(i, g.kernel, g.dilation, padded));
    }
    if (padded != g.input) {
      image_width_ = g.input[last];
      for (int64_t i = 0; i < g.input_count(); i += image_width_) {
        image_rows_.push_back(PadOffset(g, padded) + Offset(i, g.input, ones, padded));
      }
      padded_at_ = layout_.Add(d.batch * d.in_channels * plane_ * d.in.bytes());
    }
    for (int i = 0; i < omp_get_max_threads(); ++i) {
      patches_.emplace_back(d.in, false, kQuantTile, d.depth());
      patches_at_.push_back(layout_.Add(patches_[i].bytes()));
    }
  }
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    const ConvDescriptor& d = descriptor_;
    return Concat("code windows ", d.in.name(), " ", d.out_channels, "x", d.depth());
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    weights_.Bind(prepared.address());
    weights_.Pack(codes.address(), descriptor_.depth(), 1, 0, descriptor_.out_channels);
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckMemory(arguments.prepared, arguments.workspace);
    weights_.Bind(arguments.prepared.address());
    if (descriptor_.in.bytes() == 1) {
      Run<uint8_t>(arguments);
    } else {
      Run<uint16_t>(arguments);
    }
    device_->CountLibraryCall();
  }

 private:
  static int64_t PadOffset(const ConvGeometry& g, const Shape& padded) {
    int64_t at = 0, stride = 1;
    for (int axis = g.axes() - 1; axis >= 0; --axis) {
      at += g.pad[axis] * stride;
      stride *= padded[axis];
    }
    return at;
  }

  template <class Code> void Run(const ConvArguments& arguments) {
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *arguments.quant;
    char* const workspace = arguments.workspace.address();
    const int64_t positions = static_cast<int64_t>(starts_.size());
    const int64_t blocks = Ceil(positions, kQuantTile), group_in = d.in_channels / d.group;
    const int64_t group_out = d.out_channels / d.group, tasks = d.batch * d.group * blocks;
    const Code* images = reinterpret_cast<const Code*>(arguments.x.address());
    Code* result = reinterpret_cast<Code*>(arguments.y.address());
    const ResidualCodes residual(d.epilogue, d.in, quant, arguments.epilogue.residual, arguments.y);
    const bool parallel =
        d.batch * d.out_channels * positions * d.depth() >= kParallelProducts && !omp_in_parallel();
#pragma omp parallel num_threads(static_cast <int>(patches_.size())) if (parallel)
    {
      const Code* padded = images;
      if (!image_rows_.empty()) {
        Code* target = reinterpret_cast<Code*>(workspace + padded_at_);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < d.batch * d.in_channels; ++i) {
          PadPlane(images + i * d.geometry.input_count(), target + i * plane_,
                   static_cast<Code>(quant.zero_x));
        }
        padded = target;
      }
      PackedRows& patch = patches_[omp_get_thread_num()];
      patch.Bind(workspace + patches_at_[omp_get_thread_num()]);
      patch.ClearEnds();
      const QuantizedTile common = MakeTile(weights_, patch, true, d.in, wide_, d.epilogue, quant);
#pragma omp for schedule(static)
      for (int64_t task = 0; task < tasks; ++task) {
        const int64_t first = task % blocks * kQuantTile, part = task / blocks;
        const int64_t count = std::min(kQuantTile, positions - first);
        const int64_t image = part / d.group, group = part % d.group;
        const Code* source = padded + (image * d.in_channels + group * group_in) * plane_;
        for (int64_t i = 0; i < count; ++i) {
          GatherPatch(source + starts_[first + i], group_in, patch.row(i), patch.high());
        }
        for (int64_t c = 0; c < group_out; c += kQuantTile) {
          const int64_t channel = group * group_out + c;
          QuantizedTile tile = common;
          tile.m = std::min(kQuantTile, group_out - c);
          tile.n = count;
          tile.a += channel * tile.a_stride;
          StartAtChannel(channel, &tile);
          tile.y = result + (image * d.out_channels + channel) * positions + first;
          tile.ldc = positions;
          HostQuantizedSteps().tile(tile);
          const int64_t at = (image * d.out_channels + channel) * positions + first;
          residual.Add(tile.m, tile.n, at, positions, at, positions);
        }
      }
    }
  }

  template <class Code> void PadPlane(const Code* source, Code* target, Code zero) const {
    std::fill(target, target + plane_, zero);
    for (const int64_t row : image_rows_) {
      std::memcpy(target + row, source, image_width_ * sizeof(Code));
      source += image_width_;
    }
  }

  template <class Code>
  void GatherPatch(const Code* source, int64_t channels, int16_t* target, int64_t high) const {
    for (int64_t c = 0; c < channels; ++c, source += plane_) {
      for (const int64_t tap : taps_) {
        for (int64_t i = 0; i < run_; ++i, ++target) {
          const int code = source[tap + i];
          if constexpr (sizeof(Code) == 1) {
            *target = static_cast<int16_t>(code);
          } else {
            target[0] = static_cast<int16_t>(code & 255);
            target[high] = static_cast<int16_t>(code >> 8);
          }
        }
      }
    }
  }

  Device* device_;
  PackedRows weights_;
  const bool wide_;
  int64_t plane_ = 0, run_ = 1, image_width_ = 0;
  std::vector<int64_t> starts_, taps_, image_rows_;
  std::vector<PackedRows> patches_;  // one for each thread
  WorkspaceLayout layout_;
  int64_t padded_at_ = 0;
  std::vector<int64_t> patches_at_;
};

}  // namespace

ConvLibrary HostQuantizedConvolutionLibrary() {
  ConvLibrary row;
  row.name = "native";
  row.supports = [](Device* device, const ConvDescriptor& d) {
    return device->host_accessible() && d.quantized() &&
           (!d.has_private_layout() || SupportsByteConvolution(d));
  };
  row.make = [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    if (d.has_private_layout()) return MakeByteConvolution(device, d);
    return std::make_unique<HostQuantizedConvOp>(device, d);
  };
  row.prefers_nhwc = [](Device*, const ConvDescriptor&) { return HasFastByteSteps(); };
  row.knows_pitch = true;
  return row;
}

}  // namespace caffe
