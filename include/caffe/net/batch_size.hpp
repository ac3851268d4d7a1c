#pragma once

#include <cstdint>

#include "caffe/net/net.hpp"

namespace caffe {

// Items of the net's first blob, of any number of axes; 0 where there is none.
inline int64_t BatchSize(const Net& net) {
  if (net.blobs().empty()) return 0;
  const BlobBase& first = *net.blobs()[0];
  return first.num_axes() > 0 ? first.shape(0) : 1;
}

}  // namespace caffe
