#pragma once

#include "caffe/core/error.hpp"

namespace caffe {

// A device does not have enough memory for a buffer. Callers add context: the layer that requested
// it, and the need of the whole net.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace caffe
