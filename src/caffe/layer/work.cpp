#include "caffe/layer/work.hpp"

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

void Work::Backward(DevicePtr) { CAFFE_THROW("this work has no backward pass"); }

int64_t LayerWork::parameter_bytes() const {
  int64_t bytes = 0;
  for (const auto& blob : layer_->blobs()) bytes += blob->bytes();
  return bytes;
}

void LayerWork::CountMemory(WorkMemory* memory) const { layer_->CountMemory(memory); }

void LayerWork::Prepare() { layer_->PrepareParameters(); }

void LayerWork::Run(DevicePtr) { layer_->Forward(bottom_, top_); }

void LayerWork::Repeat(DevicePtr) { layer_->RepeatForward(bottom_, top_); }

void LayerWork::Backward(DevicePtr workspace) {
  if (gradients_.empty()) return Work::Backward(workspace);
  layer_->Backward(top_, gradients_, bottom_);
}

void LayerBase::NoteHostParameters(WorkMemory* memory) const {
  if (device()->host_accessible()) return;
  for (const auto& blob : blobs_) memory->absent.insert(blob.get());
}

std::unique_ptr<Work> LayerBase::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                          const BlobVec& top) {
  CAFFE_CHECK(request.empty(), Where(), ": this layer cannot compute later layers");
  return std::make_unique<LayerWork>(this, bottom, top, request.gradients);
}

}  // namespace caffe
