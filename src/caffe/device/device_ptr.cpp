#include "caffe/device/device_ptr.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

void DevicePtr::RefuseToWrite() {
  CAFFE_THROW(
      "a read-only device pointer was given to write to: give mutable_device_data() or "
      "mutable_device_diff() instead of device_data() or device_diff()");
}

}  // namespace caffe
