#include "caffe/layer/input_copy.hpp"

#include "caffe/device/device.hpp"

namespace caffe {

BlobVec InputCopy::Arrays(const BlobBase& bottom, const BlobBase& top, bool wanted) {
  if (!wanted || &bottom != &top || bottom.count() == 0) return {};
  if (!copy_) {
    copy_ = MakeBlob(bottom.type(), bottom.device(), bottom.shape(), bottom.name() + " copy");
  }
  if (copy_->shape() != bottom.shape()) copy_->ReshapeLike(bottom);
  return {copy_.get()};
}

void InputCopy::Keep(const BlobBase& bottom, const BlobBase& top, bool wanted) {
  if (Arrays(bottom, top, wanted).empty()) return;
  bottom.device()->Copy(copy_->mutable_device_data(), bottom.device_data(), bottom.bytes());
}

KernelArgument InputCopy::Data(const BlobBase& bottom, const BlobBase& top) const {
  if (&bottom != &top || bottom.count() == 0) return bottom.Data();
  CAFFE_CHECK(copy_ && copy_->count() == bottom.count(), "blob ", bottom.name(),
              ": a layer that works in place needs a forward before its backward");
  return copy_->Data();
}

}  // namespace caffe
