#include <algorithm>
#include <map>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/generated/columns.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

// Columns of codes for a chunk of images, padded with the zero point, then one batched product per
// group, requantized, which writes NCHW directly.
class DeviceQuantizedConvOp final : public ConvOp {
 public:
  DeviceQuantizedConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        columns_(device, d, true, false) {
    chunk_ = columns_.ImagesIn(columns_.WorkspaceLimit());
    for (const int64_t images : {chunk_, d.batch % chunk_}) {
      if (images > 0 && !products_[images]) products_[images] = Product(images);
    }
  }
  const char* library() const override { return "generated"; }
  int64_t workspace_bytes() const override {
    return descriptor_.geometry.pointwise() ? 0 : chunk_ * columns_.bytes();
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    const ConvDescriptor& d = descriptor_;
    CheckWorkspace(a.workspace);
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr columns = columns_.Gather(a.x + Bytes(i * d.in_channels * in_), images,
                                                a.workspace, a.quant->zero_x);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        const QuantArguments part = a.quant->From(channel);
        GemmArguments product;
        product.a = a.weights + Bytes(channel * d.depth());
        product.b = columns + Bytes(g * d.depth() * out_);
        product.c = a.y + (i * d.out_channels + channel) * out_ * d.result_bytes();
        product.quant = &part;
        if (a.epilogue.residual) {
          product.epilogue.residual =
              a.epilogue.residual + Bytes((i * d.out_channels + channel) * out_);
        }
        products_.at(images)->Run(product);
      }
    }
  }

 private:
  int64_t Bytes(int64_t elements) const {
    return elements * static_cast<int64_t>(descriptor_.in.bytes());
  }

  // y [out_channels / group, out] of each image = weights * columns.
  std::unique_ptr<GemmOp> Product(int64_t images) const {
    const ConvDescriptor& d = descriptor_;
    GemmDescriptor g;
    g.m = d.out_channels / d.group;
    g.n = out_;
    g.k = d.depth();
    g.batch = images;
    g.stride_a = GemmDescriptor::kShared;
    g.stride_b = d.group * d.depth() * out_;
    g.stride_c = d.out_channels * out_;
    g.in = g.out = d.in;
    g.sums = d.sums;
    g.epilogue = d.epilogue;
    g.epilogue.bias = Epilogue::Bias::kPerRow;
    g.Check();
    return GeneratedQuantizedLibrary().make(device_, g);
  }

  Device* device_;
  const int64_t in_, out_;
  Columns columns_;
  int64_t chunk_ = 1;                                    // images at a time
  std::map<int64_t, std::unique_ptr<GemmOp>> products_;  // by number of images
};

}  // namespace

ConvLibrary DeviceQuantizedConvolutionLibrary() {
  ConvLibrary row{"generated", &OnDevices,
                  [](Device*, const ConvDescriptor& d) { return d.quantized(); },
                  [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
                    return std::make_unique<DeviceQuantizedConvOp>(device, d);
                  }};
  row.knows_sums = true;
  return row;
}

}  // namespace caffe
