#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/lstm.hpp"
#include "caffe/library/pooling.hpp"
#include "caffe/library/table.hpp"

namespace caffe {

struct HostGemms;

using GemmLibrary = Library<GemmDescriptor, GemmOp>;
using ConvLibrary = Library<ConvDescriptor, ConvOp>;
using PoolLibrary = Library<PoolDescriptor, PoolOp>;
using LstmLibrary = Library<LstmDescriptor, LstmOp>;

// Adds a row to the front of its table. A library for products also computes convolutions on
// devices, on columns of images. Must not be called while operators are made.
void AddLibrary(const GemmLibrary& library);
void AddLibrary(const ConvLibrary& library);
void AddLibrary(const PoolLibrary& library);
// Removes the rows of this name that were added.
void RemoveLibrary(const std::string& name);

// Whether a row of the table of convolutions supports the descriptor without conversions.
bool HasRow(Device* device, const ConvDescriptor& descriptor);

// Products. Those of quantized types are separate rows.
GemmLibrary OpenBlasLibrary();
// On the CPU, for few rows of A, whose time is that of reading B.
GemmLibrary RowsLibrary();
// On the CPU, in float, for weights that many products of few rows use.
GemmLibrary PackedLibrary();
GemmLibrary NativeLibrary();
GemmLibrary NativeQuantizedLibrary();
// On the CPU, for codes of 8 bits; preferred where there are no instructions for them.
GemmLibrary GemmlowpLibrary();
GemmLibrary CublasLtLibrary();
GemmLibrary CublasLibrary();
GemmLibrary ClBlastLibrary();
// Its sums are half, too, so that long ones lose digits and overflow: only if a setting names it.
GemmLibrary ClBlastHalfLibrary();
GemmLibrary GeneratedLibrary();
// On OpenCL devices that compute in half: short sums of products in half, which are added in float.
// It is never preferred, but measured.
GemmLibrary GeneratedHalfLibrary();
GemmLibrary GeneratedQuantizedLibrary();
// On devices, for activations times the transpose of weights, by matrix units.
GemmLibrary MatrixGemmLibrary();
// The same for tests: by loops where there are no matrix units.
std::unique_ptr<GemmOp> MakeMatrixGemm(Device* device, const GemmDescriptor& descriptor);

// Makes the products of a convolution on a device.
using GemmFactory = std::function<std::unique_ptr<GemmOp>(const GemmDescriptor& descriptor)>;

// Convolutions. On every device, if each channel is a group, over one or two axes:
ConvLibrary DepthwiseLibrary();
// On the CPU, for windows of 3x3 and 5x5; useful if images are small and batches large.
ConvLibrary WinogradLibrary();
// On the CPU, with arrays in kNHWC; those in kNCHW are converted. `widens`: operands of bfloat16
// are widened although the processor multiplies them.
ConvLibrary OneDnnLibrary(bool widens);
// On the CPU, image by image, with the products of `gemms`, which is called at the first use.
ConvLibrary HostConvolutionLibrary(const char* name, const HostGemms& (*gemms)());
ConvLibrary HostQuantizedConvolutionLibrary();
ConvLibrary GemmlowpConvolutionLibrary();
// On CUDA devices, in both layouts.
ConvLibrary CudnnLibrary();
// On devices, through columns and products. On OpenCL in pieces of as many images as `caffe tune`
// found to be the fastest, otherwise of as many as the workspace may hold.
std::unique_ptr<ConvOp> MakeDeviceConvolution(Device* device, const ConvDescriptor& descriptor,
                                              const GemmFactory& products);
ConvLibrary DeviceQuantizedConvolutionLibrary();
// On devices, with channels last, by matrix units.
ConvLibrary MatrixConvolutionLibrary();
std::unique_ptr<ConvOp> MakeMatrixConvolution(Device* device, const ConvDescriptor& descriptor);

// Rows that compute a descriptor by the operator that `make` makes for another one.
using ConvFactory =
    std::function<std::unique_ptr<ConvOp>(Device* device, const ConvDescriptor& descriptor)>;
// Descriptors with other layouts than kNCHW, and outputs with a pitch, by conversions and kNCHW.
ConvLibrary ConvertingLibrary(const ConvFactory& make);
// The reverse: descriptors in kNCHW by conversions and kNHWC.
ConvLibrary ChannelsLastLibrary(const ConvFactory& make);
// On devices, in float, forward only: larger windows, and those with strides, as windows of 3x3
// with stride 1 over more channels. Images are computed in pieces, whose new form has at most
// `most_bytes`. It is never preferred, but measured.
ConvLibrary SmallWindowsLibrary(const ConvFactory& make);
ConvLibrary SmallWindowsLibrary(const ConvFactory& make, int64_t most_bytes);
// The same row; forward passes that need more workspace than that compute the batch in pieces.
ConvLibrary InPieces(ConvLibrary row, int64_t most_workspace);
// The name of the one of `rows` that computes a forward pass fastest: known from earlier, otherwise
// measured, or, unless it `measures`, the first one.
std::string FastestForward(Device* device, const ConvDescriptor& descriptor,
                           const std::vector<ConvLibrary>& rows, bool measures = true);
// An operator that computes each pass by the one of `rows` that is fastest for it; if that refuses,
// by the first of `all` that does not. What is measured is kept in the table of tuning results.
std::unique_ptr<ConvOp> MakeMeasured(Device* device, const ConvDescriptor& descriptor,
                                     const std::vector<ConvLibrary>& rows,
                                     const std::vector<ConvLibrary>& all);

// Pooling: the same bodies, except for some that only the CPU or only devices have.
PoolLibrary NativePoolingLibrary();
// On the CPU, codes and maxima of half kinds, with channels last.
PoolLibrary NativeChannelsLastPoolingLibrary();
PoolLibrary GeneratedPoolingLibrary();

// LSTM: all steps in one launch, on devices; a product and a kernel for each step, everywhere.
LstmLibrary LstmStepsLibrary();
LstmLibrary LstmProductsLibrary();

}  // namespace caffe
