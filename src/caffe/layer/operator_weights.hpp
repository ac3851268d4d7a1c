#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/layer/folded_weights.hpp"
#include "caffe/layer/parameter_copy.hpp"
#include "caffe/layer/pseudo_weights.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/library/prepared_weights.hpp"

namespace caffe {

// Weights and bias of a layer in the type in which an operator multiplies: the parameters
// themselves, or copies, into which affine maps may be folded. For quantized types they are codes.
class OperatorWeights : public std::enable_shared_from_this<OperatorWeights> {
 public:
  struct Source {
    const BlobBase* weights = nullptr;
    const BlobBase* bias = nullptr;  // null if there is none
    FoldedWeights::Layout layout;
    std::vector<Affine> maps;
    // For quantized types, see QuantizedParameters. Folding maps makes the limits invalid.
    QuantizedParameters::Options quantizer;
    // The activation after the operator, which has separate factors for quantized types.
    ElementFunction activation;
    const BlobBase* slopes = nullptr;  // of PReLU
    // For float kinds: the weights have the values of codes of this type.
    std::optional<DataType> pseudo;
    // For quant8, see QuantizedParameters.
    bool dynamic = false;
  };
  // The blobs, and those of the maps, must outlive this object.
  OperatorWeights(Source source, DataType type, Device* device);
  OperatorWeights(const OperatorWeights&) = delete;

  // For quantized types: sets the ranges of bottom and top; call it before Refresh.
  void SetRanges(const QuantRange& in, const QuantRange& out);
  // For quantized types: the sum behind the operator.
  void SetSum(const CodeSum& sum) { sum_ = sum; }
  // Brings all forms of the weights up to date, each from the one before it; call it before a
  // forward. `prepared`: what an operator makes of weights(), or null. With `forward_only`, a form
  // is freed when the next one was made from it: the device then holds no float master of half
  // weights, and no folded float weights of which there is a half copy. The next access makes it.
  void Refresh(bool forward_only = false, Derived* prepared = nullptr);
  // Adds what Refresh allocates and does not free, without `prepared`; may be called before it.
  void CountMemory(bool forward_only, bool prepared, WorkMemory* memory) const;

  // weights() in the form of the operator. Operators with equal prepared_form() share them; `key`
  // is that of the descriptor of an operator that has none.
  std::shared_ptr<PreparedWeights> Prepared(const Operator& op, const std::string& key);

  bool quantized() const { return type_.is_quantized(); }
  // False if nothing is added. Codes always have a bias, which includes the bottom's zero point.
  bool has_bias() const { return source_.bias || folded_ || quantized(); }
  // The argument of the operator, or of Prepare.
  const BlobBase& weights() const { return *forms_.back().blob; }
  // Null if there is none, and for quantized types.
  DevicePtr bias() const { return has_bias() && !quantized() ? bias_.data() : DevicePtr{}; }
  // The memory of the bias; for quantized types that of bias and factors (QuantizedParameters).
  // Null if nothing is added.
  const BlobBase* channel_blob() const {
    if (quantized()) return &codes_.channel_blob();
    return has_bias() ? &bias_.blob() : nullptr;
  }
  // Bytes of bias, and of the factors of codes.
  int64_t channel_bytes() const;
  QuantArguments quant() const {
    QuantArguments arguments = codes_.arguments();
    arguments.sum = sum_;
    return arguments;
  }
  SumArguments sum_arguments() const { return codes_.sum_arguments(); }
  // The scale of each channel's codes.
  const std::vector<double>& scales() const { return codes_.scales(); }

 private:
  // One form of the weights. Each is made from the one before it; the first one is the parameter.
  struct Form {
    const BlobBase* blob;
    Derived* made_by = nullptr;  // null for the parameter
    bool to_host = false;        // the next form is made on the host
    bool keep = false;           // it is not freed when the next form is there
    int64_t more = 0;            // bytes besides the blob, which are always kept: bias, factors
  };
  class Remake;
  // Whether Free frees memory of the form.
  bool Frees(const Form& form) const;
  void Free(const Form& form);

  Source source_;
  DataType type_;
  std::unique_ptr<FoldedWeights> folded_;
  std::unique_ptr<PseudoWeights> pseudo_;
  ParameterCopy copy_, bias_;
  QuantizedParameters codes_;
  std::vector<Form> forms_;
  CodeSum sum_;
  std::map<std::string, std::weak_ptr<PreparedWeights>> prepared_;  // by form
  std::shared_ptr<Remake> remake_;                                  // makes freed memory again
};

}  // namespace caffe
