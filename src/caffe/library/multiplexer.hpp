#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/lstm.hpp"
#include "caffe/library/pooling.hpp"

namespace caffe {

class Device;

// Chooses the library for an operation: the first of an ordered table that is there and supports
// the descriptor. `native` (CPU) and `generated` (OpenCL, CUDA) are always there and support
// everything. What a library refuses when it is made ready or called, the next one computes, with
// one warning. CAFFE_LIBRARY moves one to the front, by operation:
// "gemm=generated,conv=native,pool=native".
class Multiplexer {
 public:
  static std::unique_ptr<GemmOp> Gemm(Device* device, const GemmDescriptor& descriptor);
  static std::unique_ptr<ConvOp> Convolution(Device* device, const ConvDescriptor& descriptor);
  static std::unique_ptr<PoolOp> Pooling(Device* device, const PoolDescriptor& descriptor);
  static std::unique_ptr<LstmOp> Lstm(Device* device, const LstmDescriptor& descriptor);

  // The layout in which the preferred library computes the descriptor fastest: x and y have it, and
  // the descriptor's own layouts do not matter. Conversions of x and y do not count.
  static Layout PreferredLayout(Device* device, const ConvDescriptor& descriptor);
  // Whether a library computes the descriptor in its layouts itself. For other layouts Convolution
  // makes an operator that converts. `knows_pitch`: whether that library also knows outputs that
  // are parts of larger arrays.
  static bool KnowsLayouts(Device* device, const ConvDescriptor& descriptor,
                           bool* knows_pitch = nullptr);

  // Whether a library computes a descriptor with `row_groups`; without them there is always one.
  static bool KnowsRowGroups(Device* device, const GemmDescriptor& descriptor);
  static bool KnowsRowGroups(Device* device, const ConvDescriptor& descriptor);

  // The libraries that support the descriptor, in order of preference.
  static std::vector<std::string> GemmLibraries(Device* device, const GemmDescriptor& descriptor);
  static std::vector<std::string> ConvolutionLibraries(Device* device,
                                                       const ConvDescriptor& descriptor);
  static std::vector<std::string> PoolingLibraries(Device* device,
                                                   const PoolDescriptor& descriptor);
  static std::vector<std::string> LstmLibraries(Device* device, const LstmDescriptor& descriptor);
  // The same by a library of this name alone; throws if it is not there or does not support it.
  static std::unique_ptr<GemmOp> GemmBy(const std::string& library, Device* device,
                                        const GemmDescriptor& descriptor);
  static std::unique_ptr<ConvOp> ConvolutionBy(const std::string& library, Device* device,
                                               const ConvDescriptor& descriptor);
  static std::unique_ptr<PoolOp> PoolingBy(const std::string& library, Device* device,
                                           const PoolDescriptor& descriptor);
  static std::unique_ptr<LstmOp> LstmBy(const std::string& library, Device* device,
                                        const LstmDescriptor& descriptor);
};

}  // namespace caffe
