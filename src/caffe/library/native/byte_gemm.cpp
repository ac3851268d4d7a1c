#include <omp.h>

#include <algorithm>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/native/byte_gemm.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "caffe/library/native/code_sum.hpp"

namespace caffe {
namespace {

constexpr int64_t kParallelProducts = 1 << 17;
constexpr int64_t kChannels = 2 * kByteChannels, kRows = 64;  // of a task
// Packed weights of 16 bits have 3 bytes. More of them than the caches hold are read faster with 2 bytes.
constexpr int64_t kMostWords = 1 << 19;

// The rows of B are weights. Rows of A are copied unless their length is a multiple of kByteDepth; codes
// of 16 bits are divided into the operands of ByteSteps::words.
class ByteGemmOp final : public GemmOp {
 public:
  ByteGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        device_(device),
        steps_(HostByteSteps()),
        words_(d.in == kQuant16),
        weights_(d.n, d.k, 1, words_ ? steps_.word_form : CodeForm::kBytes),
        copies_(words_ || d.k % kByteDepth != 0) {}
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override {
    return copies_ ? descriptor_.m * weights_.row_bytes() : 0;
  }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    return Concat(words_ ? "word parts " : "bytes ", descriptor_.n, "x", descriptor_.k);
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    PackedBytes::Order order(descriptor_.k);
    for (int64_t i = 0; i < descriptor_.k; ++i) order[i] = i;
    weights_.Pack(codes.address(), order, prepared.address());
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    CheckMemory(g);
    const GemmDescriptor& d = descriptor_;
    const int64_t columns = (d.n + kChannels - 1) / kChannels, rows = (d.m + kRows - 1) / kRows;
    const bool parallel = d.m * d.n * d.k >= kParallelProducts && !omp_in_parallel();
    const ResidualCodes residual(d.epilogue, d.in, *g.quant, g.epilogue.residual, g.c);
    const int64_t element = static_cast<int64_t>(d.in.bytes());
    const int64_t stride = copies_ ? weights_.row_bytes() : d.row_a();
    for (int64_t i = 0; i < d.batch; ++i) {
      const uint8_t* a =
          reinterpret_cast<const uint8_t*>(g.a.address()) + i * d.batch_stride_a() * element;
      uint8_t* c = reinterpret_cast<uint8_t*>(g.c.address()) + i * d.batch_stride_c() * element;
      const uint8_t* source = a;
      if (copies_) {
        uint8_t* copy = reinterpret_cast<uint8_t*>(g.workspace.address());
        for (int64_t r = 0; r < d.m; ++r) {
          CopyRow(a + r * d.row_a() * element, copy + r * stride);
        }
        source = copy;
      }
#pragma omp parallel if (parallel)
      {
        if (steps_.begin) steps_.begin();
#pragma omp for schedule(static)
        for (int64_t task = 0; task < columns * rows; ++task) {
          const int64_t channel = task / rows * kChannels, row = task % rows * kRows;
          const int64_t count = std::min(kRows, d.m - row);
          const int64_t channels = std::min(kChannels, d.n - channel);
          const int64_t first = i * d.batch_stride_c() + row * d.row_c() + channel;
          Multiply(g, channel, channels, count, source + row * stride, stride,
                   c + (row * d.row_c() + channel) * element);
          residual.Add(count, channels, first, d.row_c(), first, d.row_c());
        }
        if (steps_.end) steps_.end();
      }
    }
    device_->CountLibraryCall();
  }

 private:
  void CopyRow(const uint8_t* from, uint8_t* to) const {
    const int64_t depth = weights_.depth(), k = descriptor_.k;
    if (words_) {
      steps_.split(reinterpret_cast<const uint16_t*>(from), k, 0, depth, depth, to);
      return;
    }
    std::memcpy(to, from, k);
    std::memset(to + k, 0, depth - k);
  }

  void Multiply(const GemmArguments& g, int64_t channel, int64_t channels, int64_t rows,
                const uint8_t* a, int64_t stride, uint8_t* c) const {
    const GemmDescriptor& d = descriptor_;
    const char* b = g.prepared.address() + channel * weights_.weight_row_bytes();
    if (words_) {
      WordTile tile{};
      tile.rows = rows;
      tile.depth = weights_.depth();
      tile.a = a;
      tile.a_stride = stride;
      tile.b = reinterpret_cast<const uint8_t*>(b);
      tile.output = MakeByteOutput(d.epilogue, *g.quant, channel, channels, 65535);
      tile.y = reinterpret_cast<uint16_t*>(c);
      tile.y_stride = d.row_c();
      steps_.words(tile);
      return;
    }
    ByteTile tile{};
    tile.rows = rows;
    tile.depth = weights_.depth();
    tile.used = UsedDepth(steps_, d.k);
    tile.a = a;
    tile.a_stride = stride;
    tile.b = reinterpret_cast<const signed char*>(b);
    tile.output = MakeByteOutput(d.epilogue, *g.quant, channel, channels);
    tile.output.y = c;
    tile.output.y_stride = d.row_c();
    steps_.tile(tile);
  }

  Device* device_;
  const ByteSteps& steps_;
  const bool words_;
  const PackedBytes weights_;
  const bool copies_;
};

}  // namespace

bool SupportsByteProduct(const GemmDescriptor& d) {
  const bool weights_are_rows =
      d.trans_b && d.row_b() == d.k && (d.batch == 1 || d.batch_stride_b() == 0);
  const bool words = d.in == kQuant16 && HasFastWordSteps() &&
                     HostByteSteps().word_form == CodeForm::kWordParts && d.n * d.k <= kMostWords;
  const bool type = d.in == kQuant8 ? HasFastByteSteps() : words;
  return type && !d.trans_a && d.k <= kNarrowDepth &&
         d.epilogue.bias == Epilogue::Bias::kPerColumn && weights_are_rows;
}

std::unique_ptr<GemmOp> MakeByteProduct(Device* device, const GemmDescriptor& d) {
  return std::make_unique<ByteGemmOp>(device, d);
}

}  // namespace caffe
