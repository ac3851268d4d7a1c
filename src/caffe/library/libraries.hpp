#pragma once

#include <functional>
#include <memory>
#include <string>

#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"

namespace caffe {

class Device;
struct HostGemms;

// One row of the multiplexer's table. `supports` also says whether the library is there at all.
struct GemmLibrary {
  const char* name;
  bool (*supports)(Device* device, const GemmDescriptor& descriptor);
  std::unique_ptr<GemmOp> (*make)(Device* device, const GemmDescriptor& descriptor);
};

// The same for libraries that compute whole convolutions.
struct ConvLibrary {
  const char* name;
  bool (*supports)(Device* device, const ConvDescriptor& descriptor);
  std::function<std::unique_ptr<ConvOp>(Device* device, const ConvDescriptor& descriptor)> make;
};

// Puts a row in front of every table. Not to be called while operators are made.
void AddLibrary(const GemmLibrary& library);
void AddLibrary(const ConvLibrary& library);
// Takes rows of this name that were added out again.
void RemoveLibrary(const std::string& name);

GemmLibrary OpenBlasLibrary();
GemmLibrary NativeLibrary();
GemmLibrary ClBlastLibrary();
GemmLibrary CublasLibrary();
GemmLibrary GeneratedLibrary();

// The product on the CPU by `gemms`.
std::unique_ptr<GemmOp> MakeHostGemm(Device* device, const GemmDescriptor& descriptor,
                                     const HostGemms& gemms);
// Makes the products that a convolution on a device consists of.
using GemmFactory = std::function<std::unique_ptr<GemmOp>(const GemmDescriptor& descriptor)>;
// Convolutions: on the CPU image by image, on devices by im2col and products.
std::unique_ptr<ConvOp> MakeHostConvolution(Device* device, const ConvDescriptor& descriptor,
                                            const HostGemms& gemms);
std::unique_ptr<ConvOp> MakeDeviceConvolution(Device* device, const ConvDescriptor& descriptor,
                                              const GemmFactory& products);
// Of quantized types, alone on every device.
std::unique_ptr<GemmOp> MakeHostQuantizedGemm(Device* device, const GemmDescriptor& descriptor);
std::unique_ptr<ConvOp> MakeHostQuantizedConvolution(Device* device,
                                                     const ConvDescriptor& descriptor);
std::unique_ptr<GemmOp> MakeDeviceQuantizedGemm(Device* device, const GemmDescriptor& descriptor);
std::unique_ptr<ConvOp> MakeDeviceQuantizedConvolution(Device* device,
                                                       const ConvDescriptor& descriptor);
// On the CPU for windows of 3x3 and 5x5; it pays where images are small and batches large.
bool SupportsWinograd(Device* device, const ConvDescriptor& descriptor);
bool PrefersWinograd(const ConvDescriptor& descriptor);
std::unique_ptr<ConvOp> MakeWinogradConvolution(Device* device, const ConvDescriptor& descriptor);
// On every device where each channel is a group, over one or two axes.
bool SupportsDepthwise(Device* device, const ConvDescriptor& descriptor);
std::unique_ptr<ConvOp> MakeDepthwiseConvolution(Device* device, const ConvDescriptor& descriptor);

}  // namespace caffe
