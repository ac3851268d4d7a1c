#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/layout_convolution.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_conv_op.hpp"
#include "caffe/library/native/byte_convolution.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

// Bytes of gathered rows that stay in a cache of the second level, and rows of a block.
constexpr int64_t kGathered = 96 << 10, kMostRows = 256, kShared = 1 << 20;
constexpr int64_t kSlack = 64;  // bytes after an array that copies of whole vectors read

constexpr int64_t kShort = 16;  // the bytes of a copy in one instruction

// Short runs of whole vectors are the usual ones.
void Copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  if (bytes % kShort != 0 || bytes > 16 * kShort) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (int64_t i = 0; i < bytes; i += kShort) std::memcpy(to + i, from + i, kShort);
}

void Fill(uint8_t* to, int32_t zero, int64_t element, int64_t bytes) {
  if (element == 1) {
    std::memset(to, zero, bytes);
  } else {
    std::fill_n(reinterpret_cast<uint16_t*>(to), bytes / 2, static_cast<uint16_t>(zero));
  }
}

constexpr int64_t kPixel = 4;  // channels that are interleaved

// Whether channels may come first in x: pixels are interleaved.
bool InterleavesPixels(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  return g.axes() <= 2 && d.group == 1 && d.in_channels <= kPixel && g.dilation.back() == 1;
}

// Rows of activations are gathered from the image, block by block, and multiplied with all weights;
// or, if weights are larger than all rows, each thread multiplies all rows with its channels. If
// steps read windows, and lines of outputs are long enough, nothing is gathered: a row of a window
// is a run of codes in the image with its padding. Runs are rounded up to groups of products: the
// weights of the codes behind a row are 0.
class ByteProductConvOp final : public ByteConvOp {
 public:
  ByteProductConvOp(Device* device, const ConvDescriptor& d)
      : ByteConvOp(device, d),
        element_(static_cast<int64_t>(d.in.bytes())),
        group_in_(d.in_channels / d.group),
        group_out_(d.out_channels / d.group),
        positions_(d.geometry.output_count()),
        steps_(StepsForDepth(d.depth())),
        direct_(element_ == 1 && d.geometry.pointwise() && d.group == 1 &&
                d.x_layout == Layout::kNHWC && ReadsRowsOf(steps_, d.in_channels)),
        pixels_(d.x_layout == Layout::kNCHW),
        windows_(!direct_ && ReadsWindows()),
        run_(RoundUp(window_.kernel[1] * d.in_channels, 4)),
        weights_(d.out_channels, windows_ ? window_.kernel[0] * run_ : d.depth(), d.group,
                 TypedSteps().form) {
    const int threads = omp_get_max_threads();
    const int64_t depth = weights_.row_bytes(), rows = d.batch * positions_;
    // The rows of a thread are in its cache if it has written them: of 8 bits without matrix units,
    // that is worth up to 4 times as many weights.
    const int64_t worth = steps_.reads_windows && element_ == 1 ? 4 : 1;
    shares_ = rows * depth <= kShared && weights_.group_bytes() > worth * rows * depth;
    // Lines are divided more evenly than few channels.
    if (windows_ && Ceil(group_out_, kPair) % threads != 0) shares_ = false;
    plane_height_ = window_.input[0];
    plane_width_ = window_.input[1];
    const bool reads_beyond = run_ != window_.kernel[1] * d.in_channels;
    const bool pads = window_.pad[0] > 0 || window_.pad[1] > 0;
    if (pixels_ || (windows_ && (pads || reads_beyond || element_ == 2))) {
      plane_height_ = (window_.output[0] - 1) * window_.stride[0] +
                      (window_.kernel[0] - 1) * window_.dilation[0] + 1;
      plane_width_ = (window_.output[1] - 1) * window_.stride[1] +
                     (window_.kernel[1] - 1) * window_.dilation[1] + 1;
      plane_codes_ = RoundUp(d.batch * d.in_channels * plane_height_ * plane_width_, kSlack);
      // Windows of 16 bits read codes and their upper bytes.
      planes_at_ = layout_.Add(plane_codes_ * (element_ == 2 && windows_ ? 3 : element_) + kSlack);
    }
    if (windows_) {
      // Blocks of lines.
      const int64_t lines = window_.output[0];
      const int64_t bytes = plane_height_ * plane_width_ * d.in_channels * (element_ == 2 ? 3 : 1);
      const int64_t blocks = RoundUp(Ceil(bytes, kLines), d.batch % threads == 0 ? 1 : threads);
      block_ = Ceil(lines, std::min(blocks, lines));
    } else if (shares_) {
      if (!direct_) gathered_at_ = layout_.Add(d.group * rows * depth);
    } else {
      block_ = std::clamp<int64_t>(kGathered / depth / 32 * 32, 32, kMostRows);
      // As many blocks as threads, or a multiple.
      const int64_t blocks = RoundUp(Ceil(rows, block_), threads);
      const bool divides =
          element_ == 2 ? steps_.words.form == CodeForm::kWordParts : !steps_.matrix;
      const int64_t least = divides ? 1 : 16;
      block_ = std::max(std::min(block_, RoundUp(Ceil(rows, blocks), least)), least);
      if (!direct_) {
        for (int i = 0; i < threads; ++i) blocks_at_.push_back(layout_.Add(block_ * depth));
      }
    }
    for (int i = 0; element_ == 2 && i < threads; ++i) {
      const int64_t line = windows_ ? plane_width_ * d.in_channels : 0;
      raws_at_.push_back(layout_.Add(2 * std::max(weights_.depth(), line) + kSlack));
    }
    if (!direct_ && !pixels_ && !windows_) ListLines();
  }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    const ConvDescriptor& d = descriptor_;
    return Concat("byte windows ", d.in.name(), " ", d.out_channels, "x", d.depth(), " of ",
                  d.geometry.kernel_count(), " group ", d.group, " in runs of ",
                  windows_ ? run_ : 0);
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    const int64_t taps = descriptor_.geometry.kernel_count();
    PackedBytes::Order order;
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < group_in_; ++c) order.push_back(c * taps + t);
      if (!windows_ || (t + 1) % window_.kernel[1] != 0) continue;
      order.resize((t + 1) / window_.kernel[1] * run_, PackedBytes::kNone);
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
    const int64_t rows = d.batch * positions_, depth = weights_.row_bytes();
    const int32_t zero = quant.zero_x;
#pragma omp parallel if (Parallel())
    {
      if (steps_.begin) steps_.begin();
      uint8_t* raw = nullptr;
      if (element_ == 2) {
        raw = reinterpret_cast<uint8_t*>(workspace + raws_at_[omp_get_thread_num()]);
      }
      const uint8_t* source = x;
      if (planes_at_ >= 0) {
        uint8_t* planes = reinterpret_cast<uint8_t*>(workspace + planes_at_);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < d.batch * plane_height_; ++i) {
          const int64_t codes = plane_width_ * d.in_channels;
          const bool splits = windows_ && element_ == 2;
          uint8_t* row = splits ? raw : planes + i * codes * element_;
          if (!pixels_) {
            PadRow(x, i, zero, row);
          } else if (element_ == 2) {
            const uint16_t* from = reinterpret_cast<const uint16_t*>(x) + Image(i);
            InterleaveRow(from, i % plane_height_, zero, reinterpret_cast<uint16_t*>(row));
          } else if (windows_) {
            InterleavePixels(x + Image(i), i % plane_height_, zero, row);
          } else {
            InterleaveRow(x + Image(i), i % plane_height_, zero, row);
          }
          if (!splits) continue;
          steps_.split(reinterpret_cast<const uint16_t*>(raw), codes, i * codes, (i + 1) * codes,
                       plane_codes_, planes);
        }
        source = planes;
      }
      if (windows_) {
        const int64_t parts = shares_ ? omp_get_num_threads() : 1;
        const int64_t lines = window_.output[0], blocks = shares_ ? 1 : Ceil(lines, block_);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < parts * d.batch * blocks; ++task) {
          const int64_t part = task / (d.batch * blocks), rest = task % (d.batch * blocks);
          const int64_t image = rest / blocks, block = rest % blocks;
          const int64_t first = block * lines / blocks, last = (block + 1) * lines / blocks;
          const auto [channel, channels] = ChannelPart(part, parts);
          MultiplyWindows(arguments, channel, channels, image, first, last - first, source);
        }
      } else if (shares_) {
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
        // With 8 bits, a thread computes neighbouring channels, whose weights are fetched early.
        const int64_t parts =
            element_ == 2 ? Ceil(group_out_, kPair) : Ceil(omp_get_num_threads(), d.group);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < d.group * parts; ++task) {
          const int64_t group = task / parts;
          const auto [channel, channels] = ChannelPart(task % parts, parts);
          if (channels == 0) continue;
          Multiply(arguments, group, channel, channels, 0, rows, all + group * rows * AStride());
        }
      } else {
        const int64_t parts = Ceil(rows, block_);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < d.group * parts; ++task) {
          const int64_t group = task / parts, first = task % parts * block_;
          const int64_t count = std::min(block_, rows - first);
          const uint8_t* a = source + first * AStride();
          if (!direct_) {
            uint8_t* own = reinterpret_cast<uint8_t*>(workspace + blocks_at_[omp_get_thread_num()]);
            Gather(source, group, first, count, zero, raw, own);
            a = own;
          }
          Multiply(arguments, group, 0, group_out_, first, count, a);
        }
      }
      if (steps_.end) steps_.end();
    }
    device_->CountLibraryCall();
  }

 private:
  static constexpr int64_t kPart = 16;  // rows that are gathered at a time
  static constexpr int64_t kManyOutputs = 64;
  static constexpr int64_t kLeastWidth = 8;            // of lines that are read as windows
  static constexpr int64_t kLines = 256 << 10;         // bytes of a block of lines
  static constexpr int64_t kPair = 2 * kByteChannels;  // channels of a task

  // The first channel of a part of a group's outputs, and their number.
  std::pair<int64_t, int64_t> ChannelPart(int64_t part, int64_t parts) const {
    const int64_t pairs = Ceil(group_out_, kPair), first = part * pairs / parts * kPair;
    return {first, std::min((part + 1) * pairs / parts * kPair, group_out_) - first};
  }

  bool ReadsWindows() const {
    const ConvDescriptor& d = descriptor_;
    // With 16 bits, gathered rows of many channels have fuller tiles, and are gathered for many
    // products.
    const bool few = d.geometry.kernel_count() > 1 && (pixels_ || d.out_channels < kManyOutputs);
    const bool knows = element_ == 1 || (steps_.words.form == CodeForm::kWordParts && few);
    return steps_.reads_windows && knows && d.group == 1 && window_.dilation[1] == 1 &&
           d.geometry.axes() <= 2 && window_.output[1] >= kLeastWidth &&
           window_.kernel[0] * RoundUp(window_.kernel[1] * d.in_channels, 4) <= kNarrowDepth;
  }

  // Lines of an image are those of its last axis.
  void ListLines() {
    const ConvGeometry& g = descriptor_.geometry;
    const Shape out = g.output();
    const int last = g.axes() - 1;
    const int64_t taps = g.kernel_count() / g.kernel[last];
    lines_.resize(positions_ / out[last] * taps);
    for (int64_t i = 0; i < static_cast<int64_t>(lines_.size()); ++i) {
      int64_t line = 0, position = i / taps, tap = i % taps, stride = 1;
      for (int axis = last - 1; axis >= 0; --axis) {
        const int64_t at = position % out[axis] * g.stride[axis] - g.pad[axis] +
                           tap % g.kernel[axis] * g.dilation[axis];
        const bool inside = line >= 0 && at >= 0 && at < g.input[axis];
        line = inside ? line + at * stride : -1;
        position /= out[axis];
        tap /= g.kernel[axis];
        stride *= g.input[axis];
      }
      lines_[i] = line;
    }
  }

  // The first code of the image of row `row` of all planes.
  int64_t Image(int64_t row) const {
    return row / plane_height_ * descriptor_.in_channels * window_.input[0] * window_.input[1];
  }

  // Lines [line, line + lines) of the outputs of an image.
  void MultiplyWindows(const ConvArguments& arguments, int64_t channel, int64_t channels,
                       int64_t image, int64_t line, int64_t lines, const uint8_t* source) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t pitch = plane_width_ * d.in_channels;
    const int64_t first = (image * plane_height_ + line * window_.stride[0]) * pitch;
    const int64_t row = (image * window_.output[0] + line) * window_.output[1];
    const char* b = arguments.prepared.address() + channel * weights_.weight_row_bytes();
    char* y = arguments.y.address() + (row * d.y_row() + channel) * d.result_bytes();
    CodeTile tile = Tile(arguments, channel, channels, b, y);
    tile.rows = window_.output[1];
    tile.lines = lines;
    tile.runs = window_.kernel[0];
    tile.used = tile.runs * run_;
    tile.a = source + first * element_;
    tile.a_stride = window_.stride[1] * d.in_channels;
    tile.line_stride = window_.stride[0] * pitch;
    tile.run_stride = window_.dilation[0] * pitch;
    if (element_ == 2) tile.upper = source + 2 * plane_codes_ + first;
    TypedSteps().tile(tile);
    AddResidual(arguments, row, lines * window_.output[1], channel, channels);
  }

  // Row `row` of all images with their padding.
  void PadRow(const uint8_t* x, int64_t row, int32_t zero, uint8_t* to) const {
    const int64_t pixel = descriptor_.in_channels * element_;
    const int64_t pad = window_.pad[1] * pixel, bytes = plane_width_ * pixel;
    const int64_t image = row / plane_height_, in = row % plane_height_ - window_.pad[0];
    const int64_t width = std::min(window_.input[1] * pixel, bytes - pad);
    if (in < 0 || in >= window_.input[0] || width <= 0) {
      Fill(to, zero, element_, bytes);
      return;
    }
    Fill(to, zero, element_, pad);
    std::memcpy(to + pad, x + (image * window_.input[0] + in) * window_.input[1] * pixel, width);
    Fill(to + pad + width, zero, element_, bytes - pad - width);
  }

  // InterleaveRow of bytes, a pixel at a time.
  void InterleavePixels(const uint8_t* image, int64_t row, int32_t zero, uint8_t* to) const {
    const int64_t channels = descriptor_.in_channels, pad = window_.pad[1];
    const int64_t in = row - window_.pad[0], plane = window_.input[0] * window_.input[1];
    const bool inside = in >= 0 && in < window_.input[0];
    const int64_t begin = inside ? std::min(pad, plane_width_) : plane_width_;
    const int64_t end = std::clamp(pad + window_.input[1], begin, plane_width_);
    std::memset(to, zero, begin * channels);
    if (begin < end && channels == 1) {
      std::memcpy(to + begin, image + in * window_.input[1], end - begin);
    } else if (begin < end) {
      const uint8_t* from[kPixel];
      for (int64_t c = 0; c < kPixel; ++c) {
        from[c] = image + (c < channels ? c : 0) * plane + in * window_.input[1];
      }
      for (int64_t w = 0; w < end - begin; ++w) {
        const uint32_t pixel = from[0][w] | uint32_t{from[1][w]} << 8 | uint32_t{from[2][w]} << 16 |
                               uint32_t{from[3][w]} << 24;
        // The next pixel overwrites what is more than one. The last one must stay in its row,
        // because the next row may belong to another thread.
        if (w + 1 < end - begin) {
          std::memcpy(to + (begin + w) * channels, &pixel, kPixel);
        } else {
          std::memcpy(to + (begin + w) * channels, &pixel, channels);
        }
      }
    }
    std::memset(to + end * channels, zero, (plane_width_ - end) * channels);
  }

  void Multiply(const ConvArguments& arguments, int64_t group, int64_t channel, int64_t channels,
                int64_t row, int64_t rows, const uint8_t* a) const {
    const ConvDescriptor& d = descriptor_;
    const int64_t to = group * group_out_ + channel;
    const char* b = arguments.prepared.address() + group * weights_.group_bytes() +
                    channel * weights_.weight_row_bytes();
    char* y = arguments.y.address() + (row * d.y_row() + to) * d.result_bytes();
    CodeTile tile = Tile(arguments, to, channels, b, y);
    tile.rows = rows;
    tile.used = UsedDepth(steps_, d.depth());
    tile.a = a;
    tile.a_stride = AStride();
    TypedSteps().tile(tile);
    AddResidual(arguments, row, rows, to, channels);
  }

  const TypeSteps& TypedSteps() const { return element_ == 2 ? steps_.words : steps_.bytes; }

  // Without its rows.
  CodeTile Tile(const ConvArguments& arguments, int64_t channel, int64_t channels, const char* b,
                char* y) const {
    const ConvDescriptor& d = descriptor_;
    CodeTile tile{};
    tile.depth = weights_.depth();
    tile.b = b;
    tile.output = MakeByteOutput(d.epilogue, *arguments.quant, channel, channels, d.in);
    tile.output.y = y;
    tile.output.y_stride = d.y_row();
    return tile;
  }

  // Bytes from one row of activations to the next.
  int64_t AStride() const { return direct_ ? descriptor_.in_channels : weights_.row_bytes(); }

  // A row of the padded image with all channels of a position side by side: patches have longer
  // runs then.
  template <class Code>
  void InterleaveRow(const Code* image, int64_t row, int32_t zero, Code* to) const {
    const int64_t channels = descriptor_.in_channels, pad = window_.pad[1];
    const int64_t in = row - window_.pad[0], plane = window_.input[0] * window_.input[1];
    const bool inside = in >= 0 && in < window_.input[0];
    const int64_t begin = inside ? std::min(pad, plane_width_) : plane_width_;
    const int64_t end = std::clamp(pad + window_.input[1], begin, plane_width_);
    std::fill(to, to + begin * channels, static_cast<Code>(zero));
    for (int64_t c = 0; c < channels && begin < end; ++c) {
      const Code* from = image + c * plane + in * window_.input[1] - pad;
      for (int64_t w = begin; w < end; ++w) to[w * channels + c] = from[w];
    }
    std::fill(to + end * channels, to + plane_width_ * channels, static_cast<Code>(zero));
  }

  // Rows of activations from position `first` on, in the order of the packed weights. Codes of 16
  // bits are divided run by run; `raw` has codes of the padding, or a row of short runs.
  void Gather(const uint8_t* x, int64_t group, int64_t first, int64_t count, int32_t zero,
              uint8_t* raw, uint8_t* to) const {
    const int64_t depth = weights_.depth(), used = descriptor_.depth();
    const bool words = element_ == 2;
    if (words && !pixels_) Fill(raw, zero, element_, used * element_);
    int64_t image = first / positions_, row = first % positions_ / window_.output[1];
    int64_t column = first % positions_ % window_.output[1];
    for (int64_t i = 0; i < count; ++i, to += weights_.row_bytes()) {
      const int64_t w = column * window_.stride[1];
      uint8_t* const target = words ? raw : to;
      int64_t at = 0;
      // The codes of a run; of the padding, if `from` is null.
      const auto divide = [&](const uint8_t* from, int64_t bytes) {
        const int64_t begin = at / element_, end = (at += bytes) / element_;
        steps_.split(reinterpret_cast<const uint16_t*>(from ? from : raw), bytes / element_, begin,
                     end == used ? depth : end, depth, to);
      };
      const auto copy = [&](const uint8_t* from, int64_t bytes) {
        from ? Copy(to + at, from, bytes) : Fill(to + at, zero, element_, bytes);
        at += bytes;
      };
      if (pixels_) {
        GatherRows(x + image * plane_height_ * plane_width_ * descriptor_.in_channels * element_,
                   row * window_.stride[0], w, target);
      } else if (words) {
        GatherPixels(x, image, group, row, w - window_.pad[1], divide);
      } else {
        GatherPixels(x, image, group, row, w - window_.pad[1], copy);
      }
      if (words && pixels_) divide(raw, used * element_);
      if (!words && used < depth) std::memset(to + used, 0, depth - used);
      if (++column < window_.output[1]) continue;
      column = 0;
      if (++row < positions_ / window_.output[1]) continue;
      row = 0;
      ++image;
    }
  }

  // From an image of InterleaveRow.
  void GatherRows(const uint8_t* image, int64_t h, int64_t w, uint8_t* to) const {
    const int64_t pixel = descriptor_.in_channels * element_, run = window_.kernel[1] * pixel;
    // A copy of whole vectors must stay in its row: the next row may belong to another thread.
    const uint8_t* const end = to + element_ * weights_.depth();
    for (int64_t kh = 0; kh < window_.kernel[0]; ++kh, to += run) {
      const uint8_t* from = image + ((h + kh * window_.dilation[0]) * plane_width_ + w) * pixel;
      const int64_t whole = RoundUp(run, kShort);
      Copy(to, from, to + whole <= end ? whole : run);
    }
  }

  // `put` gets runs of codes, or null for the padding.
  template <class Put>
  void GatherPixels(const uint8_t* x, int64_t image, int64_t group, int64_t row, int64_t w,
                    const Put& put) const {
    const int64_t pixel = descriptor_.in_channels * element_, width = window_.kernel[1];
    const int64_t part = group_in_ * element_, run = width * part;
    const bool inside =
        part == pixel && window_.dilation[1] == 1 && w >= 0 && w + width <= window_.input[1];
    const int64_t taps = descriptor_.geometry.kernel_count() / width;
    const uint8_t* const images = x + image * descriptor_.geometry.input_count() * pixel;
    for (int64_t t = row * taps; t < (row + 1) * taps; ++t) {
      if (lines_[t] < 0) {
        put(nullptr, run);
        continue;
      }
      const uint8_t* source = images + lines_[t] * window_.input[1] * pixel + group * part;
      if (inside) {
        put(source + w * pixel, run);
        continue;
      }
      for (int64_t kw = 0; kw < width; ++kw) {
        const int64_t column = w + kw * window_.dilation[1];
        const bool within = column >= 0 && column < window_.input[1];
        put(within ? source + column * pixel : nullptr, part);
      }
    }
  }

  const int64_t element_;  // bytes of a code
  const int64_t group_in_, group_out_, positions_;
  const ByteSteps& steps_;
  const bool direct_, pixels_, windows_;
  const int64_t run_;  // products of a row of a window, if windows_
  PackedBytes weights_;
  bool shares_;
  int64_t block_ = 0, plane_height_ = 0, plane_width_ = 0, gathered_at_ = -1, planes_at_ = -1;
  int64_t plane_codes_ = 0;
  std::vector<int64_t> blocks_at_, raws_at_;  // of each thread
  // The line of an image that each line of taps reads, for each line of outputs; -1: padding.
  std::vector<int64_t> lines_;
};

// Whether each channel is a group, in windows of one or two axes.
bool IsDepthwise(const ConvDescriptor& d) {
  return !d.sums && d.group > 1 && d.group == d.in_channels && d.group == d.out_channels &&
         d.geometry.axes() <= 2 && d.depth() <= kNarrowDepth && d.x_layout == Layout::kNHWC;
}

std::unique_ptr<ConvOp> MakeChannelsLast(Device* device, const ConvDescriptor& d) {
  if (IsDepthwise(d)) return MakeByteDepthwise(device, d);
  return std::make_unique<ByteProductConvOp>(device, d);
}

}  // namespace

ConvLibrary HostQuantizedConvolutionLibrary() {
  ConvLibrary row;
  row.name = "native";
  row.place = &OnHost;
  row.supports = [](Device*, const ConvDescriptor& d) {
    if (d.sums && d.y_layout != Layout::kNHWC) return false;
    return d.quantized() && (!d.has_private_layout() || d.geometry.axes() <= 2);
  };
  row.make = [](Device* device, const ConvDescriptor& d) {
    ConvDescriptor last = d;
    last.y_layout = Layout::kNHWC;
    if (!InterleavesPixels(d)) last.x_layout = last.y_layout;
    auto op = MakeChannelsLast(device, last);
    if (d.x_layout == last.x_layout && d.y_layout == last.y_layout) return op;
    return MakeConverted(device, d, std::move(op), "native");
  };
  // Unless gemmlowp, which knows kNCHW only, is faster.
  row.prefers_nhwc = [](Device* device, const ConvDescriptor& d) {
    const ConvLibrary other = GemmlowpConvolutionLibrary();
    return !other.Supports(device, d) || !other.prefers(device, d);
  };
  row.knows_pitch = row.knows_sums = true;
  return row;
}

}  // namespace caffe
