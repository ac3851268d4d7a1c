#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// A layer's bottom for its backward pass. Apart from its top it is the bottom itself; a layer that
// works in place overwrites it, and keeps a copy from before its forward.
class InputCopy {
 public:
  // Before the launches of a forward. `wanted` false copies nothing.
  void Keep(const BlobBase& bottom, const BlobBase& top, bool wanted);
  // What the bottom held in the forward.
  KernelArgument Data(const BlobBase& bottom, const BlobBase& top) const;
  // Takes the copy along to another device: called in LayerSetUp.
  void SetDevice(Device* device) {
    if (copy_) copy_->SetDevice(device);
  }

 private:
  std::shared_ptr<BlobBase> copy_;
};

}  // namespace caffe
