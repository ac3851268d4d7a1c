#pragma once

#include "caffe/core/error.hpp"

namespace caffe {

// A device that has no room for a buffer. Who knows more than the device adds it: the layer that
// asked, and what the whole net needs.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace caffe
