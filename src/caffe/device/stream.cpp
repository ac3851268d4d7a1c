#include "caffe/device/stream.hpp"

#include "caffe/core/error.hpp"
#include "caffe/device/buffer_pool.hpp"

namespace caffe {
namespace {

thread_local const StreamScope* innermost = nullptr;

}  // namespace

Event::Event(const Stream& stream) : owner_(stream.owner_) {}

Stream::Stream(Device* device) : owner_(device->self_) {}
Stream::~Stream() = default;

void Stream::WaitFor(Event& event) {
  CAFFE_CHECK(event.owner_ == owner_, *owner_ ? (*owner_)->info().id : "a stream",
              " cannot wait for an event of another device");
  DoWaitFor(event);
  if (Device* device = *owner_) ++device->stream_waits_;
}

void Stream::Retire() noexcept {
  if (Device* device = *owner_) device->buffers_->Retire(this);
}

StreamScope::StreamScope(Device* device, Stream* stream)
    : device_(device), stream_(stream), outer_(innermost) {
  CAFFE_CHECK(!stream || stream->device() == device, device->info().id,
              ": the stream belongs to another device");
  innermost = this;
}

StreamScope::~StreamScope() {
  innermost = outer_;
  if (stream_) stream_->Flush();
}

const StreamScope* StreamScope::Innermost() { return innermost; }

}  // namespace caffe
