#include "caffe/layer/pseudo_weights.hpp"

#include <algorithm>

#include "caffe/device/program_builder.hpp"

namespace caffe {

PseudoWeights::PseudoWeights(const BlobBase* source, const FoldedWeights::Layout& layout,
                             DataType target, DataType compute, Device* device)
    : Derived({source}),
      source_(source),
      layout_(layout),
      codes_((target.info().code_max - 1) / 2) {
  CAFFE_CHECK(target == kQuant8 || target == kQuant16, "pseudo-quantization to ", target.name(),
              " is not supported (known: ", kQuant8.name(), " and ", kQuant16.name(), ")");
  copy_ = MakeBlob(source->type(), device, source->shape(), source->name() + " of codes");
  scales_ = MakeBlob(source->type(), device, {layout.channels}, source->name() + " scales");
  const auto program = ProgramBuilder(device, "pseudo").Types(compute).Body("quant/pseudo").Build();
  find_scales_ = program->CreateKernel("pseudo_channel_scales");
  quantize_ = program->CreateKernel("pseudo_weights");
}

void PseudoWeights::Build() {
  if (copy_->shape() != source_->shape()) copy_->Reshape(source_->shape());
  const int64_t count = source_->count(), middle = layout_.channels / layout_.group;
  const int64_t inner = count / std::max<int64_t>(layout_.channels * layout_.outer, 1);
  find_scales_->Launch(layout_.channels, {layout_.channels, source_->Data(), scales_->MutableData(),
                                          middle, layout_.outer, inner, codes_});
  quantize_->Launch(count, {count, source_->Data(), scales_->Data(), copy_->MutableData(), middle,
                            layout_.outer, inner, codes_});
}

}  // namespace caffe
