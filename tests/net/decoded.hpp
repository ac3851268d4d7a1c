#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// The values of a blob of any type; those of codes by the blob's range.
inline std::vector<double> Decoded(const BlobBase& blob) {
  if (blob.type().is_float()) return blob.DataAsDouble();
  std::vector<double> values(blob.count());
  const auto* data = static_cast<const char*>(blob.host_data());
  for (int64_t i = 0; i < blob.count(); ++i) {
    unsigned code = 0;
    std::memcpy(&code, data + i * blob.type().bytes(), blob.type().bytes());  // little endian
    values[i] = blob.range().scale * (static_cast<double>(code) - blob.range().zero);
  }
  return values;
}

}  // namespace caffe
