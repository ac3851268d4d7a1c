#include "caffe/memory/device_buffer.hpp"

namespace caffe {

DeviceBuffer::DeviceBuffer(Device* device, int64_t bytes, std::string purpose)
    : device_(device),
      bytes_(bytes),
      purpose_(std::move(purpose)),
      pointer_(device->Allocate(bytes, purpose_)) {}

DeviceBuffer::~DeviceBuffer() { device_->Free(pointer_); }

}  // namespace caffe
