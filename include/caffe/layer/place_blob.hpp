#pragma once

#include <memory>
#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// For LayerSetUp: makes what a layer keeps from its forward for its backward pass, or moves it with
// what it holds to another device.
void PlaceBlob(std::shared_ptr<BlobBase>* blob, DataType type, Device* device, const Shape& shape,
               const std::string& name);

}  // namespace caffe
