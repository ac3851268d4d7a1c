#include "caffe/device/device_ptr.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

void DevicePtr::RefuseOddElement(int64_t element) {
  CAFFE_THROW("an array whose type has two elements in a byte cannot begin at element ", element,
              " of another one: give images, groups of channels and parts of a Concat or Slice an ",
              "even number of elements, or register the type without packed");
}

void DevicePtr::RefuseToWrite() {
  CAFFE_THROW(
      "cannot write to a read-only device pointer: pass mutable_device_data() or "
      "mutable_device_diff() instead of device_data() or device_diff()");
}

}  // namespace caffe
