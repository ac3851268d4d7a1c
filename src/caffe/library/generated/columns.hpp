#pragma once

#include <cstdint>
#include <memory>

#include "caffe/device/kernel.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {

class Device;

// The columns of images, [images, in_channels, taps, output positions], in which a convolution is a
// matrix product: of floats, and of codes. A pointwise convolution has none: its images are columns.
class Columns {
 public:
  // `gather` and `scatter` say which kernels to make ready.
  Columns(Device* device, const ConvDescriptor& descriptor, bool gather, bool scatter);

  // Elements and bytes of the columns of one image.
  int64_t elements() const { return d_.in_channels * taps_ * out_; }
  int64_t bytes() const { return elements() * static_cast<int64_t>(d_.in.bytes()); }
  // How many images fit into so many bytes, of which each image needs `extra` besides its columns;
  // at least 1, at most the batch and what kernels can count.
  int64_t ImagesIn(int64_t limit, int64_t extra = 0) const;
  // The limit that the descriptor sets, or the device's own.
  int64_t WorkspaceLimit() const;

  // columns = the columns of x; padding holds `zero`. Returns where they are: x itself if pointwise.
  DevicePtr Gather(DevicePtr x, int64_t images, DevicePtr columns, int32_t zero = 0);
  // x = the adjoint: for each element the sum of what its columns hold. Not for pointwise ones.
  void Scatter(DevicePtr columns, int64_t images, DevicePtr x);

 private:
  std::unique_ptr<Kernel> MakeKernel(const char* body) const;
  void UploadGeometry();
  void LaunchPlanar(Kernel& kernel, const LaunchRange& range, KernelArgument from,
                    KernelArgument to) const;

  Device* device_;
  const ConvDescriptor d_;
  const int64_t in_, out_, taps_;
  std::unique_ptr<Kernel> im2col_, col2im_;
  DeviceArray geometry_;  // for other numbers of axes than two
};

}  // namespace caffe
