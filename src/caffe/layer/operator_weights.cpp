#include "caffe/layer/operator_weights.hpp"

#include <utility>

namespace caffe {

OperatorWeights::OperatorWeights(Source source, DataType type, Device* device)
    : source_(std::move(source)), type_(type) {
  const BlobBase *weights = source_.weights, *bias = source_.bias;
  QuantizedParameters::Options quantizer = source_.quantizer;
  if (!source_.maps.empty()) {
    folded_ = std::make_unique<FoldedWeights>(weights, bias, source_.layout, source_.maps);
    weights = &folded_->weights();
    bias = &folded_->bias();
    quantizer.limits.clear();
  }
  if (quantized()) {
    const bool transposed = source_.layout.outer > 1;
    codes_ = QuantizedParameters({weights, bias, source_.layout.channels, transposed, quantizer,
                                  source_.activation, source_.slopes},
                                 type, device);
    return;
  }
  copy_ = ParameterCopy(weights, type, device);
  if (bias) bias_ = ParameterCopy(bias, bias->type(), device);
}

void OperatorWeights::SetRanges(const QuantRange& in, const QuantRange& out) {
  codes_.SetRanges(in, out);
}

void OperatorWeights::Refresh() {
  if (folded_) folded_->Refresh();
  if (quantized()) {
    codes_.Refresh();
    return;
  }
  copy_.Refresh();
  if (has_bias()) bias_.Refresh();
}

}  // namespace caffe
