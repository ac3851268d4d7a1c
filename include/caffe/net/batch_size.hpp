#pragma once

#include <cstdint>

#include "caffe/net/net.hpp"

namespace caffe {

// The number of items in the net's first blob, which may have any number of axes; 0 without a blob.
inline int64_t BatchSize(const Net& net) {
  if (net.blobs().empty()) return 0;
  const BlobBase& first = *net.blobs()[0];
  return first.num_axes() > 0 ? first.shape(0) : 1;
}

}  // namespace caffe
