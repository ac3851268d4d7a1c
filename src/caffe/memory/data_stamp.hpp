#pragma once

#include <cstdint>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Which data a blob held when something was derived from it. Equal stamps mean equal data: two
// memories never have the same version, and memories with live views count as written before a
// forward (SyncedMemory).
struct DataStamp {
  DataStamp() = default;
  explicit DataStamp(const BlobBase& blob) : version(blob.data_version()), count(blob.count()) {}
  bool operator==(const DataStamp&) const = default;

  uint64_t version = 0;
  int64_t count = -1;  // of no blob
};

}  // namespace caffe
