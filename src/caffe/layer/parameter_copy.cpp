#include "caffe/layer/parameter_copy.hpp"

#include <cmath>

#include "caffe/device/program_builder.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {

ParameterCopy::ParameterCopy(const BlobBase* source, DataType type, Device* device)
    : Derived({source}), source_(source) {
  if (source->type() == type) return;
  copy_ = MakeBlob(type, device, source->shape(), source->name() + " as " + type.name());
  const DataType compute = source->type() == kDouble || type == kDouble ? kDouble : kFloat;
  convert_ = ProgramBuilder(device, "convert")
                 .Types({compute, source->type(), type})
                 .Body("quant/convert")
                 .Build()
                 ->CreateKernel("convert");
}

std::shared_ptr<const PackedParameter> ParameterCopy::Stored() const {
  auto stored = copy_ ? PackedParameter::Of(*source_) : nullptr;
  const bool takes = stored && stored->type() == copy_->type() && !copy_->type().is_packed();
  return takes ? stored : nullptr;
}

// The scale that fits the values.
QuantRange ParameterCopy::RangeOfSource() const {
  Range range{0, 0};
  for (const double value : source_->DataAsDouble()) {
    if (std::isfinite(value)) range.Unite({value, value});
  }
  return ScaledRange(range, copy_->type());
}

void ParameterCopy::Build() {
  if (!copy_) {
    source_->device_data();  // uploads a stale device copy now, not in the forward
    return;
  }
  if (copy_->shape() != source_->shape()) copy_->Reshape(source_->shape());
  const auto stored = Stored();
  if (copy_->type().is_scaled()) copy_->set_range(stored ? stored->channels()[0] : RangeOfSource());
  if (stored) {
    copy_->data_memory()->Adopt(stored->elements());
    copy_->device_data();  // uploaded now, not in the forward that follows
    return;
  }
  convert_->Launch(source_->count(),
                   {source_->count(), source_->Data(), copy_->OverwriteData(), 1.0, 1.0, 0.0, 0.0});
}

}  // namespace caffe
