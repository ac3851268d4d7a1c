#pragma once

#include <cstdint>
#include <memory>

#include "caffe/device/kernel.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {

class Device;

// The columns of images, [images, in_channels, taps, output positions], with which a convolution is
// a matrix product; of floats and of codes. For a pointwise convolution the images are the columns.
class Columns {
 public:
  // `gather` and `scatter` select the kernels to prepare.
  Columns(Device* device, const ConvDescriptor& descriptor, bool gather, bool scatter);

  // Elements and bytes of the columns of one image.
  int64_t elements() const { return d_.in_channels * taps_ * out_; }
  int64_t bytes() const { return elements() * static_cast<int64_t>(d_.in.bytes()); }
  // How many images fit into `limit` bytes, if each image needs `extra` bytes besides its columns;
  // at least 1, at most the batch and the limit of the kernels' index.
  int64_t ImagesIn(int64_t limit, int64_t extra = 0) const;
  // The limit of the descriptor, or the device's.
  int64_t WorkspaceLimit() const;

  // columns = the columns of x; padding holds `zero`. Returns their pointer: x itself if pointwise.
  DevicePtr Gather(DevicePtr x, int64_t images, DevicePtr columns, int32_t zero = 0);
  // The adjoint: each element of x is the sum of its copies in the columns. Not for pointwise
  // convolutions.
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
  DeviceArray geometry_;  // for numbers of axes other than two
};

}  // namespace caffe
