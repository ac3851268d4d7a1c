#include "caffe/device/device_ptr.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

void DevicePtr::RefuseToWrite() {
  CAFFE_THROW(
      "cannot write to a read-only device pointer: pass mutable_device_data() or "
      "mutable_device_diff() instead of device_data() or device_diff()");
}

}  // namespace caffe
