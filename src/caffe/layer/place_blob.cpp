#include "caffe/layer/place_blob.hpp"

namespace caffe {

void PlaceBlob(std::shared_ptr<BlobBase>* blob, DataType type, Device* device, const Shape& shape,
               const std::string& name) {
  if (*blob) {
    (*blob)->SetDevice(device);
  } else {
    *blob = MakeBlob(type, device, shape, name);
  }
}

}  // namespace caffe
