#pragma once

#include <functional>
#include <memory>

#include "caffe/device/device.hpp"

namespace caffe {

// A stream for work beside that of the calling thread's stream, on the same device. In a record the
// events between them make branches of the graph. Where the order of recorded work follows from its
// buffers alone, the work is enqueued on the calling thread's stream.
class SideStream {
 public:
  // The work begins after what the calling thread's stream has now.
  void Run(Device* device, const std::function<void()>& work);
  // The work that the calling thread's stream gets from now on begins after all of that work.
  void Join(Device* device);

 private:
  std::unique_ptr<Stream> stream_;
  bool open_ = false;
};

}  // namespace caffe
