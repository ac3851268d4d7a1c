#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/folded_weights.hpp"
#include "caffe/layer/parameter_copy.hpp"
#include "caffe/layer/quantized_parameters.hpp"

namespace caffe {

// Weights and bias of a layer in the type that an operator multiplies: the parameters themselves, or
// copies, with affine maps folded in first if there are any. Quantized types have codes.
class OperatorWeights {
 public:
  struct Source {
    const BlobBase* weights = nullptr;
    const BlobBase* bias = nullptr;  // null if there is none
    FoldedWeights::Layout layout;
    std::vector<Affine> maps;
    // Quantized types, see QuantizedParameters. Maps that are folded in void the limits.
    QuantizedParameters::Options quantizer;
    // The activation behind the operator, which has factors of its own for quantized types.
    Activation activation;
    const BlobBase* slopes = nullptr;  // of PReLU
  };
  // The blobs, and those of the maps, must outlive this.
  OperatorWeights(Source source, DataType type, Device* device);
  OperatorWeights(const OperatorWeights&) = delete;

  // Quantized types: the ranges of bottom and top, before Refresh.
  void SetRanges(const QuantRange& in, const QuantRange& out);
  // Brings all up to date, before a forward.
  void Refresh();

  bool quantized() const { return type_.is_quantized(); }
  // False if nothing is added. Codes always have a bias, which holds the bottom's zero point.
  bool has_bias() const { return source_.bias || folded_ || quantized(); }
  // What the operator reads, or Prepare.
  const BlobBase& weights() const { return quantized() ? codes_.codes() : copy_.blob(); }
  // Null if there is none, and for quantized types.
  DevicePtr bias() const { return has_bias() && !quantized() ? bias_.data() : DevicePtr{}; }
  QuantArguments quant() const { return codes_.arguments(); }
  // The scale of each channel's codes.
  const std::vector<double>& scales() const { return codes_.scales(); }

 private:
  Source source_;
  DataType type_;
  std::unique_ptr<FoldedWeights> folded_;
  ParameterCopy copy_, bias_;
  QuantizedParameters codes_;
};

}  // namespace caffe
