#include "side_stream.hpp"

namespace caffe {

void SideStream::Run(Device* device, const std::function<void()>& work) {
  const Capture* const capture = Capture::Of(device);
  if (capture && capture->orders_by_memory()) return work();
  if (!stream_) stream_ = device->CreateStream();
  stream_->WaitFor(*device->current_stream()->Record(false));
  open_ = true;
  const StreamScope scope(device, stream_.get());
  work();
}

void SideStream::Join(Device* device) {
  if (!open_) return;
  open_ = false;
  device->current_stream()->WaitFor(*stream_->Record(false));
}

}  // namespace caffe
