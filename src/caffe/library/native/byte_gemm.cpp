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

// The rows of B are weights. Rows of A are copied unless their length is a multiple of kByteDepth.
class ByteGemmOp final : public GemmOp {
 public:
  ByteGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        device_(device),
        weights_(d.n, d.k, 1),
        copies_(d.k % kByteDepth != 0),
        steps_(HostByteSteps()) {}
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override {
    return copies_ ? descriptor_.m * weights_.depth() : 0;
  }
  int64_t prepared_bytes() const override { return weights_.bytes(); }
  std::string prepared_form() const override {
    return Concat("bytes ", descriptor_.n, "x", descriptor_.k);
  }

  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    PackedBytes::Order order(descriptor_.k);
    for (int64_t i = 0; i < descriptor_.k; ++i) order[i] = i;
    weights_.Pack(reinterpret_cast<const uint8_t*>(codes.address()), order, prepared.address());
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    CheckMemory(g);
    const GemmDescriptor& d = descriptor_;
    const int64_t columns = (d.n + kChannels - 1) / kChannels, rows = (d.m + kRows - 1) / kRows;
    const int64_t depth = weights_.depth();
    const bool parallel = d.m * d.n * d.k >= kParallelProducts && !omp_in_parallel();
    const ResidualCodes residual(d.epilogue, d.in, *g.quant, g.epilogue.residual, g.c);
    for (int64_t i = 0; i < d.batch; ++i) {
      const uint8_t* a = reinterpret_cast<const uint8_t*>(g.a.address()) + i * d.batch_stride_a();
      uint8_t* c = reinterpret_cast<uint8_t*>(g.c.address()) + i * d.batch_stride_c();
      const uint8_t* source = a;
      if (copies_) {
        uint8_t* copy = reinterpret_cast<uint8_t*>(g.workspace.address());
        for (int64_t r = 0; r < d.m; ++r) {
          std::memcpy(copy + r * depth, a + r * d.row_a(), d.k);
          std::memset(copy + r * depth + d.k, 0, depth - d.k);
        }
        source = copy;
      }
      const int64_t stride = copies_ ? depth : d.row_a();
#pragma omp parallel if (parallel)
      {
        if (steps_.begin) steps_.begin();
#pragma omp for schedule(static)
        for (int64_t task = 0; task < columns * rows; ++task) {
          const int64_t channel = task / rows * kChannels, row = task % rows * kRows;
          ByteTile tile{};
          tile.rows = std::min(kRows, d.m - row);
          tile.depth = depth;
          tile.used = UsedDepth(steps_, d.k);
          tile.a = source + row * stride;
          tile.a_stride = stride;
          tile.b = reinterpret_cast<const signed char*>(g.prepared.address()) + channel * depth;
          tile.output =
              MakeByteOutput(d.epilogue, *g.quant, channel, std::min(kChannels, d.n - channel));
          tile.output.y = c + row * d.row_c() + channel;
          tile.output.y_stride = d.row_c();
          steps_.tile(tile);
          const int64_t first = i * d.batch_stride_c() + row * d.row_c() + channel;
          residual.Add(tile.rows, tile.output.channels, first, d.row_c(), first, d.row_c());
        }
        if (steps_.end) steps_.end();
      }
    }
    device_->CountLibraryCall();
  }

 private:
  Device* device_;
  const PackedBytes weights_;
  const bool copies_;
  const ByteSteps& steps_;
};

}  // namespace

bool SupportsByteProduct(const GemmDescriptor& d) {
  const bool weights_are_rows =
      d.trans_b && d.row_b() == d.k && (d.batch == 1 || d.batch_stride_b() == 0);
  return HasFastByteSteps() && d.in == kQuant8 && !d.trans_a && d.k <= kNarrowDepth &&
         d.epilogue.bias == Epilogue::Bias::kPerColumn && weights_are_rows;
}

std::unique_ptr<GemmOp> MakeByteProduct(Device* device, const GemmDescriptor& d) {
  return std::make_unique<ByteGemmOp>(device, d);
}

}  // namespace caffe
