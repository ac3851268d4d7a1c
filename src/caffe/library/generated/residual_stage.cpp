#include "caffe/library/generated/residual_stage.hpp"

namespace caffe {

ResidualStage::ResidualStage(const Epilogue& epilogue, DataType type, const QuantArguments& quant)
    : adds_(epilogue.sum() != nullptr),
      relu_(adds_ && epilogue.activation().kind == ElementFunction::Kind::kReLU),
      sum_(quant.sum),
      zero_(quant.zero_y),
      most_(type.info().code_max) {
  const CodeBounds bounds(epilogue, quant.scale_y);
  // The sum adds codes, which are never beyond their type.
  low_ = adds_ ? -quant.zero_y : bounds.low;
  high_ = adds_ ? most_ - quant.zero_y : bounds.high;
  if (adds_) zero_ = relu_ ? sum_.zero_result : sum_.zero_sum;
}

void ResidualStage::AddArguments(DevicePtr residual, DevicePtr y,
                                 KernelArguments* arguments) const {
  arguments->append({KernelArgument(adds_ ? residual : y, sum_.zero_residual), sum_.own,
                     sum_.residual, sum_.shift, -sum_.zero_sum, most_ - sum_.zero_sum,
                     relu_ ? 1 : 0, sum_.rescale});
}

}  // namespace caffe
