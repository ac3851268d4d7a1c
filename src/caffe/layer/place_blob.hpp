#pragma once

#include <memory>
#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// For LayerSetUp: creates a blob in which a layer keeps data of its forward for its backward pass,
// or moves the blob with its content to another device.
void PlaceBlob(std::shared_ptr<BlobBase>* blob, DataType type, Device* device, const Shape& shape,
               const std::string& name);

}  // namespace caffe
