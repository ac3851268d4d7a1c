#pragma once

#include <cstdint>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Which data a blob held when something was derived of it. Equal stamps mean equal data: versions
// of two memories differ, and views that are still written count as written (SyncedMemory).
struct DataStamp {
  DataStamp() = default;
  explicit DataStamp(const BlobBase& blob)
      : version(blob.data_version()), offset(blob.data_offset()), count(blob.count()) {}
  bool operator==(const DataStamp&) const = default;

  uint64_t version = 0;
  int64_t offset = 0;
  int64_t count = -1;  // of no blob
};

}  // namespace caffe
