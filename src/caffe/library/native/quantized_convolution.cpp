#include <omp.h>

#include <algorithm>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_convolution.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/native/code_patches.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/native/quantized_product.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

constexpr int64_t kParallelProducts = 1 << 17;

// Images with padding around them. Each thread takes blocks of positions of one image, gathers
// their patches and multiplies them with all channels, writing NCHW directly.
class HostQuantizedConvOp final : public ConvOp {
 public:
  HostQuantizedConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        weights_(d.in, true, d.out_channels, d.depth()),
        wide_(d.in == kQuant16 || d.depth() > kNarrowDepth),
        gather_(d) {
    if (gather_.pads()) padded_at_ = layout_.Add(gather_.padded_bytes());
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
  template <class Code> void Run(const ConvArguments& arguments) {
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *arguments.quant;
    char* const workspace = arguments.workspace.address();
    const int64_t positions = gather_.positions();
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
      if (gather_.pads()) {
        Code* target = reinterpret_cast<Code*>(workspace + padded_at_);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < d.batch * d.in_channels; ++i) {
          gather_.Pad(i, images, target, static_cast<Code>(quant.zero_x));
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
        const Code* source = padded + (image * d.in_channels + group * group_in) * gather_.plane();
        for (int64_t i = 0; i < count; ++i) {
          gather_.Gather(source, first + i, group_in, patch.row(i), patch.high());
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

  Device* device_;
  PackedRows weights_;
  const bool wide_;
  const CodePatches gather_;
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
