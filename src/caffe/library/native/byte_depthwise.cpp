#include <omp.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/library/native/byte_conv_op.hpp"
#include "caffe/library/native/byte_convolution.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

// Every channel is a group.
template <class Code> class DepthwiseConvOp final : public ByteConvOp {
 public:
  DepthwiseConvOp(Device* device, const ConvDescriptor& d)
      : ByteConvOp(device, d), weights_(d.out_channels, d.geometry.kernel_count()) {
    // Several lines at once have the factors of their channels computed once.
    const int64_t all = d.batch * window_.output[0], threads = omp_get_max_threads();
    lines_ = std::clamp<int64_t>(kWindows / window_.output[1], 1,
                                 std::max<int64_t>(all / (2 * threads), 1));
    zeros_at_ = layout_.Add(ZeroCount() * kBytes);
    for (int i = 0; i < threads; ++i) {
      taps_at_.push_back(layout_.Add(lines_ * window_.output[1] * weights_.tap_stride() *
                                     static_cast<int64_t>(sizeof(const Code*))));
    }
  }
  int64_t prepared_bytes() const override {
    return kBytes == 1 ? weights_.bytes() : weights_.word_bytes();
  }
  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    weights_.Pack(reinterpret_cast<const Code*>(codes.address()), prepared.address());
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckMemory(arguments.prepared, arguments.workspace);
    const ConvDescriptor& d = descriptor_;
    const Code* x = reinterpret_cast<const Code*>(arguments.x.address());
    char* const workspace = arguments.workspace.address();
    Code* zeros = reinterpret_cast<Code*>(workspace + zeros_at_);
    std::fill_n(zeros, ZeroCount(), static_cast<Code>(arguments.quant->zero_x));
    const ByteSteps& steps = HostByteSteps();
    const int64_t height = window_.output[0], width = window_.output[1];
#pragma omp parallel for schedule(static) if (Parallel())
    for (int64_t task = 0; task < Ceil(d.batch * height, lines_); ++task) {
      const int64_t line = task * lines_, lines = std::min(lines_, d.batch * height - line);
      const Code** taps =
          reinterpret_cast<const Code**>(workspace + taps_at_[omp_get_thread_num()]);
      for (int64_t i = 0; i < lines; ++i) {
        ListTaps(x, (line + i) / height, (line + i) % height, zeros,
                 taps + i * width * weights_.tap_stride());
      }
      Code* y = reinterpret_cast<Code*>(arguments.y.address()) + line * width * d.y_row();
      const char* w = arguments.prepared.address();
      if constexpr (kBytes == 1) {
        ByteWindows windows{};
        windows.positions = lines * width;
        windows.tap_stride = weights_.tap_stride();
        windows.taps = taps;
        windows.w = reinterpret_cast<const signed char*>(w);
        windows.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels);
        windows.output.y = y;
        windows.output.y_stride = d.y_row();
        steps.windows(windows);
      } else {
        WordWindows windows{};
        windows.positions = lines * width;
        windows.tap_stride = weights_.tap_stride();
        windows.taps = taps;
        windows.w = reinterpret_cast<const int16_t*>(w);
        windows.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels, 65535);
        windows.y = y;
        windows.y_stride = d.y_row();
        steps.word_windows(windows);
      }
      AddResidual(arguments, line * width, lines * width, 0, d.out_channels);
    }
    device_->CountLibraryCall();
  }

 private:
  static constexpr int64_t kBytes = sizeof(Code);
  static constexpr int64_t kWindows = 112;  // of a task, about

  int64_t ZeroCount() const { return Ceil(descriptor_.in_channels, kByteLanes) * kByteLanes; }

  // The pixels that the windows of a row of positions read.
  void ListTaps(const Code* x, int64_t image, int64_t h, const Code* zeros,
                const Code** taps) const {
    const int64_t channels = descriptor_.in_channels, stride = weights_.tap_stride();
    for (int64_t w = 0; w < window_.output[1]; ++w, taps += stride) {
      int64_t t = 0;
      for (int64_t kh = 0; kh < window_.kernel[0]; ++kh) {
        const int64_t row = h * window_.stride[0] - window_.pad[0] + kh * window_.dilation[0];
        const bool inside = row >= 0 && row < window_.input[0];
        const Code* source =
            x + (image * window_.input[0] + (inside ? row : 0)) * window_.input[1] * channels;
        for (int64_t kw = 0; kw < window_.kernel[1]; ++kw, ++t) {
          const int64_t column = w * window_.stride[1] - window_.pad[1] + kw * window_.dilation[1];
          const bool within = inside && column >= 0 && column < window_.input[1];
          taps[t] = within ? source + column * channels : zeros;
        }
      }
      for (; t < stride; ++t) taps[t] = zeros;
    }
  }

  PackedWindows weights_;
  int64_t zeros_at_, lines_ = 1;
  std::vector<int64_t> taps_at_;
};

}  // namespace

std::unique_ptr<ConvOp> MakeByteDepthwise(Device* device, const ConvDescriptor& d) {
  if (d.in == kQuant16) return std::make_unique<DepthwiseConvOp<uint16_t>>(device, d);
  return std::make_unique<DepthwiseConvOp<uint8_t>>(device, d);
}

}  // namespace caffe
