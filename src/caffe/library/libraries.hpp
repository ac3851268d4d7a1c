#pragma once

#include <functional>
#include <memory>
#include <string>

#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/pooling.hpp"
#include "caffe/library/table.hpp"

namespace caffe {

struct HostGemms;

using GemmLibrary = Library<GemmDescriptor, GemmOp>;
using ConvLibrary = Library<ConvDescriptor, ConvOp>;
using PoolLibrary = Library<PoolDescriptor, PoolOp>;

// Puts a row in front of its table. A library for products computes convolutions on devices, too, on
// columns of images. Not to be called while operators are made.
void AddLibrary(const GemmLibrary& library);
void AddLibrary(const ConvLibrary& library);
void AddLibrary(const PoolLibrary& library);
// Removes the rows of this name that were added.
void RemoveLibrary(const std::string& name);

// Products. Those of quantized types are rows of their own.
GemmLibrary OpenBlasLibrary();
GemmLibrary NativeLibrary();
GemmLibrary NativeQuantizedLibrary();
GemmLibrary CublasLibrary();
GemmLibrary ClBlastLibrary();
GemmLibrary GeneratedLibrary();
GemmLibrary GeneratedQuantizedLibrary();

// Makes the products that a convolution on a device consists of.
using GemmFactory = std::function<std::unique_ptr<GemmOp>(const GemmDescriptor& descriptor)>;

// Convolutions. Where each channel is a group, over one or two axes, on every device:
ConvLibrary DepthwiseLibrary();
// On the CPU, windows of 3x3 and 5x5; it pays where images are small and batches large.
ConvLibrary WinogradLibrary();
// On the CPU, image by image, by the products of `gemms`; called when it is first asked.
ConvLibrary HostConvolutionLibrary(const char* name, const HostGemms& (*gemms)());
ConvLibrary HostQuantizedConvolutionLibrary();
// On devices, by columns and products.
std::unique_ptr<ConvOp> MakeDeviceConvolution(Device* device, const ConvDescriptor& descriptor,
                                              const GemmFactory& products);
ConvLibrary DeviceQuantizedConvolutionLibrary();

// Pooling: the same bodies, with those that only the CPU or only devices have.
PoolLibrary NativePoolingLibrary();
PoolLibrary GeneratedPoolingLibrary();

}  // namespace caffe
