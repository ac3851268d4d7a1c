#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// A layer's bottom for its backward pass. If the top is another blob, it is the bottom itself; a
// layer that works in place overwrites its bottom, so a copy from before the forward is kept.
class InputCopy {
 public:
  // Call this before the launches of a forward. With `wanted` false nothing is copied.
  void Keep(const BlobBase& bottom, const BlobBase& top, bool wanted);
  // The copy that Keep with these arguments fills; none if it copies nothing. Allocates nothing.
  BlobVec Arrays(const BlobBase& bottom, const BlobBase& top, bool wanted);
  // The data of the bottom in the forward.
  KernelArgument Data(const BlobBase& bottom, const BlobBase& top) const;
  // Moves the copy to another device: called in LayerSetUp.
  void SetDevice(Device* device) {
    if (copy_) copy_->SetDevice(device);
  }

 private:
  std::shared_ptr<BlobBase> copy_;
};

}  // namespace caffe
