#include <omp.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
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
      : ByteConvOp(device, d),
        by_line_(ReadsLines(window_, d.out_channels)),
        weights_(d.out_channels, by_line_ ? kLineTaps : d.geometry.kernel_count()) {
    // Several lines at once have the factors of their channels computed once.
    const int64_t all = d.batch * window_.output[0], threads = omp_get_max_threads();
    lines_ = std::clamp<int64_t>(kWindows / window_.output[1], 1,
                                 std::max<int64_t>(all / (2 * threads), 1));
    if (by_line_) {
      // Blocks of an image with their padding that stay in a cache of the second level.
      const int64_t height = window_.output[0], row = PaddedRow();
      const int64_t blocks = RoundUp(Ceil(height * window_.stride[0] * row * kBytes, kPadded),
                                     d.batch % threads == 0 ? 1 : threads);
      block_ = Ceil(height, std::min(blocks, height));
      for (int i = 0; i < threads && Copies(); ++i) {
        padded_at_.push_back(layout_.Add(PaddedRows(block_) * row * kBytes));
      }
    }
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
    const Code* const from = reinterpret_cast<const Code*>(codes.address());
    if (!by_line_) return weights_.Pack(from, prepared.address());
    const int64_t taps = descriptor_.geometry.kernel_count();
    std::vector<Code> ordered(descriptor_.out_channels * kLineTaps, kTop);
    for (int64_t i = 0; i < descriptor_.out_channels * taps; ++i) {
      ordered[i / taps * kLineTaps + LineTap(i % taps / 3, i % 3)] = from[i];
    }
    weights_.Pack(ordered.data(), prepared.address());
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckMemory(arguments.prepared, arguments.workspace);
    const ConvDescriptor& d = descriptor_;
    const Code* x = reinterpret_cast<const Code*>(arguments.x.address());
    char* const workspace = arguments.workspace.address();
    Code* zeros = reinterpret_cast<Code*>(workspace + zeros_at_);
    std::fill_n(zeros, ZeroCount(), static_cast<Code>(arguments.quant->zero_x));
    const int64_t height = window_.output[0], width = window_.output[1];
    if (by_line_ && RunLines(arguments)) return device_->CountLibraryCall();
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
      CodeWindows windows{};
      windows.positions = lines * width;
      windows.tap_stride = weights_.tap_stride();
      windows.taps = reinterpret_cast<const void* const*>(taps);
      windows.w = w;
      windows.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels, d.in);
      windows.output.y = y;
      windows.output.y_stride = d.y_row();
      Steps().windows(windows);
      AddResidual(arguments, line * width, lines * width, 0, d.out_channels);
    }
    device_->CountLibraryCall();
  }

 private:
  static constexpr int64_t kBytes = sizeof(Code);
  static constexpr Code kTop = static_cast<Code>(1 << (8 * kBytes - 1));
  static constexpr int64_t kWindows = 112;  // of a task, about
  static constexpr int64_t kLineTaps = 12;  // of 3 columns and 4 rows
  static constexpr int64_t kPadded = 128 << 10;

  static const TypeSteps& Steps() {
    return kBytes == 1 ? HostByteSteps().bytes : HostByteSteps().words;
  }
  // Whether TypeSteps::lines computes these windows.
  static bool ReadsLines(const ConvWindow2d& w, int64_t channels) {
    return channels % Steps().line_channels == 0 && w.kernel[0] == 3 && w.kernel[1] == 3 &&
           w.dilation[0] == 1 && w.dilation[1] == 1 && w.stride[1] <= 2;
  }
  static int64_t LineTap(int64_t row, int64_t column) { return column * 4 + row; }

  bool Pads() const { return window_.pad[0] > 0 || window_.pad[1] > 0; }
  // Codes of 16 bits are read as codes - 32768, with one more column.
  bool Copies() const { return Pads() || kBytes == 2; }
  // Codes of a row of pixels that windows read, and the rows that windows of `lines` lines read.
  int64_t PaddedRow() const {
    const int64_t width =
        Copies() ? (window_.output[1] - 1) * window_.stride[1] + 2 + kBytes : window_.input[1];
    return width * descriptor_.in_channels;
  }
  int64_t PaddedRows(int64_t lines) const { return (lines - 1) * window_.stride[0] + 3; }

  // Rows of an image from `first` on, with their padding.
  void Pad(const Code* image, int64_t first, int64_t rows, int32_t zero, Code* to) const {
    const int64_t channels = descriptor_.in_channels, row = PaddedRow();
    const int64_t left = std::min(window_.pad[1] * channels, row);
    const int64_t width = std::min(window_.input[1] * channels, row - left);
    const Code flips = kBytes == 2 ? kTop : 0, padding = static_cast<Code>(zero ^ flips);
    for (int64_t i = first; i < first + rows; ++i, to += row) {
      if (i < 0 || i >= window_.input[0]) {
        std::fill_n(to, row, padding);
        continue;
      }
      const Code* from = image + i * window_.input[1] * channels;
      std::fill_n(to, left, padding);
      for (int64_t c = 0; c < width; ++c) to[left + c] = static_cast<Code>(from[c] ^ flips);
      std::fill_n(to + left + width, row - left - width, padding);
    }
  }

  // Returns false if the factors need the windows one by one.
  bool RunLines(const ConvArguments& arguments) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t height = window_.output[0], width = window_.output[1];
    const int64_t blocks = Ceil(height, block_), row = PaddedRow();
    bool done = true;
#pragma omp parallel for schedule(static) reduction(&& : done) if (Parallel())
    for (int64_t task = 0; task < d.batch * blocks; ++task) {
      const int64_t image = task / blocks, block = task % blocks;
      const int64_t line = block * height / blocks, last = (block + 1) * height / blocks;
      const int64_t first = line * window_.stride[0] - window_.pad[0];
      const Code* source = reinterpret_cast<const Code*>(arguments.x.address()) +
                           image * window_.input[0] * window_.input[1] * d.in_channels;
      const Code* x = source + first * row;
      if (Copies()) {
        Code* padded = reinterpret_cast<Code*>(arguments.workspace.address() +
                                               padded_at_[omp_get_thread_num()]);
        Pad(source, first, PaddedRows(last - line), arguments.quant->zero_x, padded);
        x = padded;
      }
      CodeLines lines{};
      lines.lines = last - line;
      lines.width = width;
      lines.line_stride = window_.stride[0] * row;
      lines.stride = window_.stride[1];
      lines.pitch = row;
      lines.x = x;
      lines.w = arguments.prepared.address();
      lines.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels, d.in);
      const int64_t position = (image * height + line) * width;
      lines.output.y = reinterpret_cast<Code*>(arguments.y.address()) + position * d.y_row();
      lines.output.y_stride = d.y_row();
      if (!Steps().lines(lines)) {
        done = false;
        continue;
      }
      AddResidual(arguments, position, lines.lines * width, 0, d.out_channels);
    }
    return done;
  }

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
          taps[by_line_ ? LineTap(kh, kw) : t] = within ? source + column * channels : zeros;
        }
      }
      for (t = by_line_ ? 3 : t; t < stride; t += by_line_ ? 4 : 1) taps[t] = zeros;
    }
  }

  const bool by_line_;
  PackedWindows weights_;
  int64_t zeros_at_, lines_ = 1, block_ = 0;
  std::vector<int64_t> taps_at_, padded_at_;  // of each thread
};

}  // namespace

std::unique_ptr<ConvOp> MakeByteDepthwise(Device* device, const ConvDescriptor& d) {
  if (d.in == kQuant16) return std::make_unique<DepthwiseConvOp<uint16_t>>(device, d);
  return std::make_unique<DepthwiseConvOp<uint8_t>>(device, d);
}

}  // namespace caffe
