#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kParallelProducts = 1 << 17;
constexpr int64_t kChannels = 2 * kByteChannels, kRows = 64;  // of a task
// Packed weights of 16 bits have 3 bytes. More of them than the caches hold are read faster with 2
// bytes.
constexpr int64_t kMostWords = 1 << 19;

// Rows of activations are copied unless their codes are neighbours and their length is a multiple
// of kByteDepth; codes of 16 bits are divided into the operands of ByteSteps::words. If the rows of
// the result are those of the weights, each task transposes its part.
class ByteGemmOp final : public GemmOp {
 public:
  ByteGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        device_(device),
        steps_(StepsFor(d)),
        words_(d.in == kQuant16),
        rows_are_weights_(d.epilogue.bias == Epilogue::Bias::kPerRow),
        channels_(rows_are_weights_ ? d.m : d.n),
        rows_(rows_are_weights_ ? d.n : d.m),
        x_(Operand(!rows_are_weights_)),
        w_(Operand(rows_are_weights_)),
        weights_(channels_, d.k, 1, (words_ ? steps_.words : steps_.bytes).form),
        copies_(words_ || d.k % kByteDepth != 0 || x_.k_stride != 1) {}
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override { return copies_ ? rows_ * weights_.row_bytes() : 0; }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    return Concat(words_ ? "words " : "bytes ", static_cast<int>(steps_.words.form), " ", channels_,
                  "x", descriptor_.k, w_.k_stride == 1 ? "" : " by columns");
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    const int64_t k = descriptor_.k, element = static_cast<int64_t>(descriptor_.in.bytes());
    PackedBytes::Order order(k);
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    if (w_.k_stride == 1 && w_.row_stride == k) {
      return weights_.Pack(codes.address(), order, prepared.address());
    }
    std::vector<char> rows(channels_ * k * element);
    for (int64_t r = 0; r < channels_; ++r) {
      Collect(codes.address() + r * w_.row_stride * element, w_.k_stride, k,
              &rows[r * k * element]);
    }
    weights_.Pack(rows.data(), order, prepared.address());
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    CheckMemory(g);
    const GemmDescriptor& d = descriptor_;
    const int64_t columns = Ceil(channels_, kChannels), rows = Ceil(rows_, kRows);
    const bool parallel = d.m * d.n * d.k >= kParallelProducts && !omp_in_parallel();
    const int64_t element = static_cast<int64_t>(d.in.bytes());
    const int64_t stride = copies_ ? weights_.row_bytes() : x_.row_stride * element;
    for (int64_t i = 0; i < d.batch; ++i) {
      const char* x = rows_are_weights_ ? g.b.address() + i * d.batch_stride_b() * element
                                        : g.a.address() + i * d.batch_stride_a() * element;
#pragma omp parallel if (parallel)
      {
        const char* source = x;
        if (copies_) {
          char* const copy = g.workspace.address();
#pragma omp for schedule(static)
          for (int64_t r = 0; r < rows_; ++r) {
            CopyRow(x + r * x_.row_stride * element, copy + r * stride);
          }
          source = copy;
        }
        if (steps_.begin) steps_.begin();
#pragma omp for schedule(static)
        for (int64_t task = 0; task < columns * rows; ++task) {
          const int64_t channel = task / rows * kChannels, row = task % rows * kRows;
          Part part{i, channel, std::min(kChannels, channels_ - channel), row,
                    std::min(kRows, rows_ - row)};
          Multiply(g, part, source + row * stride, stride);
        }
        if (steps_.end) steps_.end();
      }
    }
    device_->CountLibraryCall();
  }

 private:
  // The elements from row to row of an operand, and from product to product.
  struct Strides {
    int64_t row_stride, k_stride;
  };
  // The part that a task computes, in an item of the batch.
  struct Part {
    int64_t item, channel, channels, row, rows;
  };

  // The functions that read 2 bytes for each of many weights of 16 bits.
  static const ByteSteps& StepsFor(const GemmDescriptor& d) {
    const ByteSteps* steps = &StepsForDepth(d.k);
    const int64_t channels = d.epilogue.bias == Epilogue::Bias::kPerRow ? d.m : d.n;
    const bool many = d.in == kQuant16 && channels * d.k > kMostWords;
    if (!many || steps->words.form != CodeForm::kWordParts) return *steps;
    for (const ByteSteps* other : AllByteSteps()) {
      if (other->words.form == CodeForm::kWords) steps = other;
    }
    return *steps;
  }

  Strides Operand(bool a) const {
    const GemmDescriptor& d = descriptor_;
    const int64_t row = a ? d.row_a() : d.row_b();
    return (a ? !d.trans_a : d.trans_b) ? Strides{row, 1} : Strides{1, row};
  }

  // Codes that are `stride` elements apart.
  void Collect(const char* from, int64_t stride, int64_t count, char* to) const {
    Collect(static_cast<int64_t>(descriptor_.in.bytes()), from, stride, count, to);
  }
  // Elements of so many bytes.
  static void Collect(int64_t element, const char* from, int64_t stride, int64_t count, char* to) {
    if (stride == 1) {
      std::memcpy(to, from, count * element);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * element, from + i * stride * element, element);
    }
  }

  void CopyRow(const char* from, char* to) const {
    const int64_t depth = weights_.depth(), k = descriptor_.k;
    if (!words_) {
      Collect(from, x_.k_stride, k, to);
      std::memset(to + k, 0, depth - k);
      return;
    }
    constexpr int64_t kPart = 64;
    uint16_t codes[kPart];
    const int64_t step = x_.k_stride == 1 ? k : kPart;
    for (int64_t begin = 0; begin < k; begin += step) {
      const int64_t count = std::min(step, k - begin);
      const char* part = from + begin * x_.k_stride * 2;
      if (x_.k_stride != 1) Collect(part, x_.k_stride, count, reinterpret_cast<char*>(codes));
      steps_.split(x_.k_stride == 1 ? reinterpret_cast<const uint16_t*>(part) : codes, count, begin,
                   begin + count == k ? depth : begin + count, depth, to);
    }
  }

  void Multiply(const GemmArguments& g, const Part& p, const char* x, int64_t stride) const {
    const GemmDescriptor& d = descriptor_;
    const int64_t element = static_cast<int64_t>(d.out.bytes()), item = p.item * d.batch_stride_c();
    const ResidualCodes residual(d.epilogue, d.in, *g.quant, g.epilogue.residual, g.c);
    if (!rows_are_weights_) {
      const int64_t first = item + p.row * d.row_c() + p.channel;
      Multiply(g, p, x, stride, g.c.address() + first * d.result_bytes(), d.row_c());
      residual.Add(p.rows, p.channels, first, d.row_c(), first, d.row_c());
      return;
    }
    alignas(float) char results[kRows * kChannels * sizeof(float)];
    Multiply(g, p, x, stride, results, kChannels);
    const int64_t first = item + p.channel * d.row_c() + p.row;
    for (int64_t c = 0; c < p.channels; ++c) {
      Collect(element, results + c * element, kChannels, p.rows,
              g.c.address() + (first + c * d.row_c()) * element);
    }
    residual.Add(p.channels, p.rows, first, d.row_c(), first, d.row_c());
  }

  void Multiply(const GemmArguments& g, const Part& p, const char* x, int64_t stride, char* y,
                int64_t y_stride) const {
    const GemmDescriptor& d = descriptor_;
    const char* b = g.prepared.address() + p.channel * weights_.weight_row_bytes();
    CodeTile tile{};
    tile.rows = p.rows;
    tile.depth = weights_.depth();
    tile.used = UsedDepth(steps_, d.k);
    tile.a = reinterpret_cast<const uint8_t*>(x);
    tile.a_stride = stride;
    tile.b = b;
    tile.output = MakeByteOutput(d.epilogue, *g.quant, p.channel, p.channels, d.out);
    tile.output.y = y;
    tile.output.y_stride = y_stride;
    (words_ ? steps_.words : steps_.bytes).tile(tile);
  }

  Device* device_;
  const ByteSteps& steps_;
  const bool words_, rows_are_weights_;
  const int64_t channels_, rows_;
  const Strides x_, w_;
  const PackedBytes weights_;
  const bool copies_;
};

}  // namespace

GemmLibrary NativeQuantizedLibrary() {
  GemmLibrary row{"native", &OnHost,
                  [](Device*, const GemmDescriptor& d) {
                    return d.quantized() && !(d.sums && d.weights() == GemmDescriptor::Weights::kA);
                  },
                  [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
                    return std::make_unique<ByteGemmOp>(device, d);
                  }};
  row.knows_sums = true;
  return row;
}

}  // namespace caffe
