#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Records invalid data of a layer, such as a region of an image that is not in the batch. A kernel
// writes 1, the index of the first invalid item and its value, unless the record already has an
// item. So nothing waits for the device until Take.
class InvalidItem {
 public:
  struct Item {
    int64_t index;
    double value;
  };
  // Creates the record, or moves it to another device: called in LayerSetUp.
  void Place(Device* device, const std::string& name);
  KernelArgument MutableData() { return record_->MutableData(); }
  // The first invalid item since the last call, if there was one. Waits for the device.
  std::optional<Item> Take();

 private:
  std::shared_ptr<BlobBase> record_;
};

}  // namespace caffe
