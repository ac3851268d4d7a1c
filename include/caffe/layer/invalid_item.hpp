#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// The record of data that a layer cannot take, such as a region of an image that is not in the batch.
// A kernel writes 1, the number of the first such item and the value that is wrong; it leaves the
// record alone if it holds an item already. So nothing waits for the device until Take.
class InvalidItem {
 public:
  struct Item {
    int64_t index;
    double value;
  };
  // Makes it, or moves it to another device: called in LayerSetUp.
  void Place(Device* device, const std::string& name);
  KernelArgument MutableData() { return record_->MutableData(); }
  // The first item since the last call, if there was one. Waits for the device.
  std::optional<Item> Take();

 private:
  std::shared_ptr<BlobBase> record_;
};

}  // namespace caffe
