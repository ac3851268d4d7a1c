#include "caffe/layer/coded_layer.hpp"

#include "caffe/layer/work.hpp"

namespace caffe {

void CodedLayer::Codes::SetRanges(const QuantRange& x, const QuantRange& y) {
  x_ = x;
  y_ = y;
  const double key[] = {x.scale, static_cast<double>(x.zero), y.scale, static_cast<double>(y.zero)};
  SetKey({reinterpret_cast<const char*>(key), sizeof(key)});
}

void CodedLayer::PrepareParameters() {
  if (codes_in_use_) {
    codes_in_use_->SetRanges(BottomRange(0), TopRange(0));
    codes_in_use_->Refresh();
    return;
  }
  for (auto& blob : blobs_) blob->device_data();
}

void CodedLayer::CountMemory(WorkMemory* memory) const {
  if (!codes_in_use_) return;
  memory->derived += codes_in_use_->bytes();
  NoteHostParameters(memory);
}

}  // namespace caffe
