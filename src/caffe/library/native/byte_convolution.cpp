#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/library/native/byte_convolution.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

constexpr int64_t kParallelProducts = 1 << 17;
// Bytes of gathered rows that stay in a cache of the second level, and rows of a block.
constexpr int64_t kGathered = 96 << 10, kMostRows = 256, kShared = 1 << 20;
constexpr int64_t kSlack = 64;  // bytes after an array that copies of whole vectors read

int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
int64_t RoundUp(int64_t value, int64_t unit) { return Ceil(value, unit) * unit; }

// A convolution over two axes; one axis is an image of one row.
struct Window {
  explicit Window(const ConvGeometry& g) {
    const auto at = [&g](const Shape& values, int axis, int64_t otherwise) {
      const int from = axis - 2 + g.axes();
      return from < 0 ? otherwise : values[from];
    };
    const Shape out = g.output();
    for (int a = 0; a < 2; ++a) {
      input[a] = at(g.input, a, 1);
      output[a] = at(out, a, 1);
      kernel[a] = at(g.kernel, a, 1);
      stride[a] = at(g.stride, a, 1);
      pad[a] = at(g.pad, a, 0);
      dilation[a] = at(g.dilation, a, 1);
    }
  }
  int64_t input[2], output[2], kernel[2], stride[2], pad[2], dilation[2];
};

constexpr int64_t kShort = 16;  // the bytes of a copy in one instruction

void Fill(uint8_t* to, int32_t zero, int64_t element, int64_t bytes) {
  if (element == 1) {
    std::memset(to, zero, bytes);
  } else {
    std::fill_n(reinterpret_cast<uint16_t*>(to), bytes / 2, static_cast<uint16_t>(zero));
  }
}

// Low and high bytes of u16, `depth` bytes apart.
void SplitPlanes(const uint8_t* from, int64_t count, int64_t depth, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[2 * i];
    to[depth + i] = from[2 * i + 1];
  }
  std::memset(to + count, 0, depth - count);
  std::memset(to + depth + count, 0, depth - count);
}

// The common part: channels last in y.
class ByteConvOp : public ConvOp {
 public:
  ByteConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d), device_(device), window_(d.geometry) {}
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

 protected:
  bool Parallel() const {
    const ConvDescriptor& d = descriptor_;
    return d.batch * d.out_channels * d.geometry.output_count() * d.depth() >= kParallelProducts &&
           !omp_in_parallel();
  }

  Device* device_;
  const Window window_;
  WorkspaceLayout layout_;
};

// Rows of activations are gathered from the image, block by block, and multiplied with all weights;
// or, if weights are larger than all rows, each thread multiplies all rows with its channels.
class ByteProductConvOp final : public ByteConvOp {
 public:
  ByteProductConvOp(Device* device, const ConvDescriptor& d)
      : ByteConvOp(device, d),
        element_(static_cast<int64_t>(d.in.bytes())),
        group_in_(d.in_channels / d.group),
        group_out_(d.out_channels / d.group),
        positions_(d.geometry.output_count()),
        weights_(d.out_channels, d.depth(), d.group, static_cast<int64_t>(d.in.bytes())) {
    const int threads = omp_get_max_threads();
    const int64_t depth = RowBytes(), rows = d.batch * positions_;
    direct_ = element_ == 1 && d.geometry.pointwise() && d.group == 1 &&
              d.x_layout == Layout::kNHWC && depth == d.in_channels;
    shares_ = rows * depth <= kShared && weights_.group_bytes() > rows * depth;
    if (shares_) {
      if (!direct_) gathered_at_ = layout_.Add(d.group * rows * depth);
    } else {
      block_ = std::clamp<int64_t>(kGathered / depth / 32 * 32, 32, kMostRows);
      // As many blocks as threads, or a multiple.
      const int64_t blocks = RoundUp(Ceil(rows, block_), threads);
      block_ = std::max<int64_t>(std::min(block_, RoundUp(Ceil(rows, blocks), 16)), 16);
      if (!direct_) {
        for (int i = 0; i < threads; ++i) blocks_at_.push_back(layout_.Add(block_ * depth));
      }
    }
    if (d.x_layout == Layout::kNCHW) {
      plane_height_ = (window_.output[0] - 1) * window_.stride[0] +
                      (window_.kernel[0] - 1) * window_.dilation[0] + 1;
      plane_width_ = (window_.output[1] - 1) * window_.stride[1] +
                     (window_.kernel[1] - 1) * window_.dilation[1] + 1;
      planes_at_ =
          layout_.Add(d.batch * d.in_channels * plane_height_ * plane_width_ * element_ + kSlack);
    }
    for (int i = 0; element_ == 2 && i < threads; ++i) raws_at_.push_back(layout_.Add(depth));
  }
  int64_t prepared_bytes() const override { return weights_.bytes(); }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    const int64_t taps = descriptor_.geometry.kernel_count();
    PackedBytes::Order order;
    if (descriptor_.x_layout == Layout::kNCHW) {
      for (int64_t i = 0; i < descriptor_.depth(); ++i) order.push_back(i);
    } else {
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < group_in_; ++c) order.push_back(c * taps + t);
      }
    }
    weights_.Pack(codes.address(), order, prepared.address());
  }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckMemory(arguments.prepared, arguments.workspace);
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *arguments.quant;
    const uint8_t* x = reinterpret_cast<const uint8_t*>(arguments.x.address());
    char* const workspace = layout_.bytes() > 0 ? arguments.workspace.address() : nullptr;
    const ByteSteps& steps = HostByteSteps();
    const int64_t rows = d.batch * positions_, depth = RowBytes();
    const int32_t zero = quant.zero_x;
#pragma omp parallel if (Parallel())
    {
      if (steps.begin) steps.begin();
      uint8_t* raw = nullptr;
      if (element_ == 2) {
        raw = reinterpret_cast<uint8_t*>(workspace + raws_at_[omp_get_thread_num()]);
      }
      const uint8_t* source = x;
      if (planes_at_ >= 0) {
        uint8_t* planes = reinterpret_cast<uint8_t*>(workspace + planes_at_);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < d.batch * d.in_channels; ++i) {
          PadPlane(x + i * window_.input[0] * window_.input[1] * element_,
                   planes + i * plane_height_ * plane_width_ * element_, zero);
        }
        source = planes;
      }
      if (shares_) {
        const uint8_t* all = source;
        if (!direct_) {
          uint8_t* gathered = reinterpret_cast<uint8_t*>(workspace + gathered_at_);
          const int64_t parts = Ceil(rows, kPart);
#pragma omp for schedule(static)
          for (int64_t task = 0; task < d.group * parts; ++task) {
            const int64_t first = task % parts * kPart, group = task / parts;
            Gather(source, group, first, std::min(kPart, rows - first), zero, raw,
                   gathered + (group * rows + first) * depth);
          }
          all = gathered;
        }
        const int64_t columns = Ceil(group_out_, kPair);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < d.group * columns; ++task) {
          const int64_t group = task / columns, channel = task % columns * kPair;
          Multiply(steps, arguments, group, channel, std::min(kPair, group_out_ - channel), 0, rows,
                   all + group * rows * depth);
        }
      } else {
        const int64_t parts = Ceil(rows, block_);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < d.group * parts; ++task) {
          const int64_t group = task / parts, first = task % parts * block_;
          const int64_t count = std::min(block_, rows - first);
          const uint8_t* a = source + first * depth;
          if (!direct_) {
            uint8_t* own = reinterpret_cast<uint8_t*>(workspace + blocks_at_[omp_get_thread_num()]);
            Gather(source, group, first, count, zero, raw, own);
            a = own;
          }
          Multiply(steps, arguments, group, 0, group_out_, first, count, a);
        }
      }
      if (steps.end) steps.end();
    }
    device_->CountLibraryCall();
  }

 private:
  static constexpr int64_t kPart = 16;                 // rows that are gathered at a time
  static constexpr int64_t kPair = 2 * kByteChannels;  // channels of a task

  void Multiply(const ByteSteps& steps, const ConvArguments& arguments, int64_t group,
                int64_t channel, int64_t channels, int64_t row, int64_t rows,
                const uint8_t* a) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t to = group * group_out_ + channel, depth = weights_.depth();
    const char* b =
        arguments.prepared.address() + group * weights_.group_bytes() + channel * RowBytes();
    char* y = arguments.y.address() + (row * d.y_row() + to) * element_;
    if (element_ == 2) {
      WordTile tile{};
      tile.rows = rows;
      tile.depth = depth;
      tile.a = a;
      tile.a_stride = RowBytes();
      tile.b = reinterpret_cast<const uint8_t*>(b);
      tile.output = MakeByteOutput(d.epilogue, *arguments.quant, to, channels, 65535);
      tile.y = reinterpret_cast<uint16_t*>(y);
      tile.y_stride = d.y_row();
      steps.words(tile);
      return;
    }
    ByteTile tile{};
    tile.rows = rows;
    tile.depth = depth;
    tile.a = a;
    tile.a_stride = depth;
    tile.b = reinterpret_cast<const signed char*>(b);
    tile.output = MakeByteOutput(d.epilogue, *arguments.quant, to, channels);
    tile.output.y = reinterpret_cast<uint8_t*>(y);
    tile.output.y_stride = d.y_row();
    steps.tile(tile);
  }

  // The bytes of a row of activations, with all planes.
  int64_t RowBytes() const { return element_ * weights_.depth(); }

  // An image plane with its padding, cut at the last element that a window reads.
  void PadPlane(const uint8_t* from, uint8_t* to, int32_t zero) const {
    const int64_t pad = window_.pad[1] * element_, row = plane_width_ * element_;
    const int64_t width = std::min(window_.input[1] * element_, row - pad);
    for (int64_t h = 0; h < plane_height_; ++h, to += row) {
      const int64_t in = h - window_.pad[0];
      if (in < 0 || in >= window_.input[0] || width <= 0) {
        Fill(to, zero, element_, row);
        continue;
      }
      Fill(to, zero, element_, pad);
      std::memcpy(to + pad, from + in * window_.input[1] * element_, width);
      Fill(to + pad + width, zero, element_, row - pad - width);
    }
  }

  // Rows of activations from position `first` on, in the order of the packed weights. Codes of 16
  // bits are first gathered in `raw`.
  void Gather(const uint8_t* x, int64_t group, int64_t first, int64_t count, int32_t zero,
              uint8_t* raw, uint8_t* to) const {
    const int64_t depth = weights_.depth(), used = descriptor_.depth();
    for (int64_t i = 0; i < count; ++i, to += RowBytes()) {
      const int64_t image = (first + i) / positions_, position = (first + i) % positions_;
      const int64_t h = position / window_.output[1] * window_.stride[0];
      const int64_t w = position % window_.output[1] * window_.stride[1];
      uint8_t* target = element_ == 1 ? to : raw;
      if (planes_at_ >= 0) {
        GatherPlanes(x, image * descriptor_.in_channels + group * group_in_, h, w, target);
      } else {
        GatherPixels(x, image, group, h - window_.pad[0], w - window_.pad[1], zero, target);
      }
      if (element_ == 1) {
        std::memset(to + used, 0, depth - used);
      } else {
        SplitPlanes(raw, used, depth, to);
      }
    }
  }

  void GatherPlanes(const uint8_t* planes, int64_t plane, int64_t h, int64_t w, uint8_t* to) const {
    const int64_t width = window_.kernel[1] * element_, pitch = plane_width_ * element_;
    const bool runs = window_.dilation[1] == 1 && width <= kShort;
    // A copy of whole vectors must stay in its row: the next row may belong to another thread.
    const uint8_t* last = to + RowBytes() - kShort;
    for (int64_t c = 0; c < group_in_; ++c) {
      const uint8_t* source =
          planes + (plane + c) * plane_height_ * pitch + h * pitch + w * element_;
      for (int64_t kh = 0; kh < window_.kernel[0]; ++kh, to += width) {
        const uint8_t* row = source + kh * window_.dilation[0] * pitch;
        if (runs && to <= last) {
          std::memcpy(to, row, kShort);
        } else {
          for (int64_t kw = 0; kw < window_.kernel[1]; ++kw) {
            std::memcpy(to + kw * element_, row + kw * window_.dilation[1] * element_, element_);
          }
        }
      }
    }
  }

  void GatherPixels(const uint8_t* x, int64_t image, int64_t group, int64_t h, int64_t w,
                    int32_t zero, uint8_t* to) const {
    const int64_t pixel = descriptor_.in_channels * element_, width = window_.kernel[1];
    const int64_t part = group_in_ * element_, run = width * part;
    const bool inside =
        part == pixel && window_.dilation[1] == 1 && w >= 0 && w + width <= window_.input[1];
    for (int64_t kh = 0; kh < window_.kernel[0]; ++kh, to += run) {
      const int64_t row = h + kh * window_.dilation[0];
      if (row < 0 || row >= window_.input[0]) {
        Fill(to, zero, element_, run);
        continue;
      }
      const uint8_t* source =
          x + (image * window_.input[0] + row) * window_.input[1] * pixel + group * part;
      if (inside) {
        std::memcpy(to, source + w * pixel, run);
        continue;
      }
      for (int64_t kw = 0; kw < width; ++kw) {
        const int64_t column = w + kw * window_.dilation[1];
        if (column < 0 || column >= window_.input[1]) {
          Fill(to + kw * part, zero, element_, part);
        } else {
          std::memcpy(to + kw * part, source + column * pixel, part);
        }
      }
    }
  }

  const int64_t element_;  // bytes of a code
  const int64_t group_in_, group_out_, positions_;
  PackedBytes weights_;
  bool direct_, shares_;
  int64_t block_ = 0, plane_height_ = 0, plane_width_ = 0, gathered_at_ = -1, planes_at_ = -1;
  std::vector<int64_t> blocks_at_, raws_at_;  // of each thread
};

// Every channel is a group.
template <class Code> class DepthwiseConvOp final : public ByteConvOp {
 public:
  DepthwiseConvOp(Device* device, const ConvDescriptor& d)
      : ByteConvOp(device, d), weights_(d.out_channels, d.geometry.kernel_count()) {
    zeros_at_ = layout_.Add(ZeroCount() * kBytes);
    for (int i = 0; i < omp_get_max_threads(); ++i) {
      taps_at_.push_back(layout_.Add(window_.output[1] * weights_.tap_stride() *
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
    for (int64_t line = 0; line < d.batch * height; ++line) {
      const Code** taps =
          reinterpret_cast<const Code**>(workspace + taps_at_[omp_get_thread_num()]);
      ListTaps(x, line / height, line % height, zeros, taps);
      Code* y = reinterpret_cast<Code*>(arguments.y.address()) + line * width * d.y_row();
      const char* w = arguments.prepared.address();
      if constexpr (kBytes == 1) {
        ByteWindows windows{};
        windows.positions = width;
        windows.tap_stride = weights_.tap_stride();
        windows.taps = taps;
        windows.w = reinterpret_cast<const signed char*>(w);
        windows.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels);
        windows.output.y = y;
        windows.output.y_stride = d.y_row();
        steps.windows(windows);
      } else {
        WordWindows windows{};
        windows.positions = width;
        windows.tap_stride = weights_.tap_stride();
        windows.taps = taps;
        windows.w = reinterpret_cast<const int16_t*>(w);
        windows.output = MakeByteOutput(d.epilogue, *arguments.quant, 0, d.out_channels, 65535);
        windows.y = y;
        windows.y_stride = d.y_row();
        steps.word_windows(windows);
      }
    }
    device_->CountLibraryCall();
  }

 private:
  static constexpr int64_t kBytes = sizeof(Code);

  int64_t ZeroCount() const { return RoundUp(descriptor_.in_channels, kByteLanes); }

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
  int64_t zeros_at_;
  std::vector<int64_t> taps_at_;
};

bool IsDepthwise(const ConvDescriptor& d) {
  return d.group > 1 && d.group == d.in_channels && d.group == d.out_channels;
}

}  // namespace

bool SupportsByteConvolution(const ConvDescriptor& d) {
  const bool type = d.in == kQuant8 || HasFastWordSteps();
  return type && d.y_layout == Layout::kNHWC && d.geometry.axes() <= 2 && d.depth() <= kNarrowDepth;
}

std::unique_ptr<ConvOp> MakeByteConvolution(Device* device, const ConvDescriptor& d) {
  if (IsDepthwise(d) && d.x_layout == Layout::kNHWC) {
    if (d.in == kQuant16) return std::make_unique<DepthwiseConvOp<uint16_t>>(device, d);
    return std::make_unique<DepthwiseConvOp<uint8_t>>(device, d);
  }
  return std::make_unique<ByteProductConvOp>(device, d);
}

}  // namespace caffe
