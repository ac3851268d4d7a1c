#pragma once

#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"

namespace caffe {

class OpenClDevice;

// A second in-order queue. Its destructor waits for it, and gives the device its default stream
// back if this one was in use. The device must still be there.
class OpenClStream : public Stream {
 public:
  OpenClStream(OpenClDevice* device, opencl::Handle<cl_command_queue> queue);
  ~OpenClStream() override;
  cl_command_queue queue() const { return queue_.get(); }
  OpenClDevice* device() const { return device_; }

 private:
  OpenClDevice* device_;
  opencl::Handle<cl_command_queue> queue_;
};

}  // namespace caffe
