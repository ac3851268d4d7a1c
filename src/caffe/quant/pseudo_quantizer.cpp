#include "caffe/quant/pseudo_quantizer.hpp"

#include "caffe/device/program_builder.hpp"

namespace caffe {
PseudoQuantizer::PseudoQuantizer(DataType type, DataType target, const Range& range, Device* device)
    : type_(type), min_max_(type, device), codes_(target.info().code_max - target.info().code_min) {
  CAFFE_CHECK(target == kQuant8 || target == kQuant16, "pseudo-quantization to ", target.name(),
              " is not supported (known: ", kQuant8.name(), " and ", kQuant16.name(), ")");
  const DataType master = type == kDouble ? kDouble : kFloat;
  seen_ = MinMax::MakeRange(type, device);
  range_ = MakeBlob(master, device, {2}, "moving range");
  range_->SetData({INFINITY, -INFINITY});
  if (range.known()) SetRange(range);
  grid_ = MakeBlob(master, device, {4}, "grid of codes");
  inside_ = MakeBlob(type, device, {0}, "elements within the range");
  const auto pseudo = ProgramBuilder(device, "pseudo").Types(type).Body("quant/pseudo").Build();
  move_ = pseudo->CreateKernel("pseudo_move");
  quantize_ = pseudo->CreateKernel("pseudo_quantize");
  backward_ = pseudo->CreateKernel("pseudo_backward");
}

void PseudoQuantizer::SetRange(const Range& range) {
  range_->SetData({range.low, range.high});
  range_is_known_ = true;
  has_grid_ = false;
}

void PseudoQuantizer::Observe(const BlobBase& blob) {
  if (blob.count() == 0) return;
  min_max_.Add(blob, seen_.get());
  range_is_known_ = moved_ = true;
  MoveRange();
}

void PseudoQuantizer::MoveRange() {
  move_->Launch(
      1, {1, seen_->MutableData(), range_->MutableData(), grid_->MutableData(), kRate, codes_});
  has_grid_ = true;
}

void PseudoQuantizer::Quantize(BlobBase* blob) {
  CAFFE_CHECK(blob->type() == type_, "blob ", blob->name(), " holds ", blob->type().name(),
              ", its quantizer expects ", type_.name());
  CAFFE_CHECK(range_is_known_, "blob ", blob->name(), " has no range");
  const int64_t count = blob->count();
  if (count == 0) return;
  if (!has_grid_) MoveRange();
  if (inside_->count() != count) inside_->Reshape({count});
  quantize_->Launch(count, {count, blob->MutableData(), inside_->MutableData(), grid_->Data()});
}

void PseudoQuantizer::Backward(BlobBase* blob) {
  const int64_t count = blob->count();
  if (count == 0) return;
  CAFFE_CHECK(inside_->count() == count, "blob ", blob->name(),
              " was reshaped since it was quantized; run forward first");
  backward_->Launch(count, {count, inside_->Data(), blob->MutableDiff()});
}

Range PseudoQuantizer::Read() const {
  const std::vector<double> range = range_->DataAsDouble();
  return {range[0], range[1]};
}

}  // namespace caffe
