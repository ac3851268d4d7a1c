#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "caffe.pb.h"
#include "caffe/data/databases.hpp"

namespace caffe {

// A record of bytes: element i of record n is (7 n + i) % 256, its label n % 10.
inline Datum TestDatum(int64_t n, int channels, int height, int width) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(static_cast<int>(n % 10));
  std::string bytes(static_cast<size_t>(channels) * height * width, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(7 * n + i);
  datum.set_data(bytes);
  return datum;
}

// A record that holds the bytes of an image file.
inline Datum EncodedDatum(const std::string& bytes, int label = 0) {
  Datum datum;
  datum.set_data(bytes);
  datum.set_label(label);
  datum.set_encoded(true);
  return datum;
}

inline std::string TestKey(int64_t n) {
  char key[24];
  std::snprintf(key, sizeof(key), "%08lld", static_cast<long long>(n));
  return key;
}

// An LMDB of `count` such records; returns `path`.
inline std::string MakeDatabase(const std::string& path, int64_t count, int channels, int height,
                                int width) {
  const auto writer = CreateDatabase("lmdb", path);
  for (int64_t n = 0; n < count; ++n) {
    writer->Put(TestKey(n), TestDatum(n, channels, height, width));
  }
  writer->Finish();
  return path;
}

}  // namespace caffe
