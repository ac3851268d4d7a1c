#pragma once

#include <cstdint>
#include <string>

namespace caffe {

// The most that a file of data may make the library take: a few bytes can announce an image of
// gigabytes, or unpack to them. Each limit is a variable of the environment, read at its first use.
struct DataLimit {
  int64_t most;
  const char* unit;
  const char* variable;

  // "the limit is 268435456 pixels; CAFFE_MAX_PIXELS changes it"
  std::string ToString() const;
};

const DataLimit& MostPixels();    // of an image
const DataLimit& MostScans();     // of a JPEG file
const DataLimit& MostUnpacked();  // of a gzip file, in MiB

}  // namespace caffe
