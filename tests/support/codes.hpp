#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// The codes of a quantized blob, as they are stored (little endian).
inline std::vector<int64_t> CodesOf(const BlobBase& blob) {
  std::vector<int64_t> codes(blob.count());
  const char* data = static_cast<const char*>(blob.host_data());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(&codes[i], data + i * blob.type().bytes(), blob.type().bytes());
  }
  return codes;
}

inline void SetCodesOf(BlobBase* blob, const std::vector<int64_t>& codes) {
  char* data = static_cast<char*>(blob->mutable_host_data());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(data + i * blob->type().bytes(), &codes[i], blob->type().bytes());
  }
}

// `count` codes that differ from their neighbours, the first and the last of the type among them.
inline std::vector<int64_t> TestCodes(int64_t count, DataType type) {
  const int64_t codes = static_cast<int64_t>(type.info().code_max) + 1;
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = (i * 37 + codes - 1) % codes;
  if (count > 1) values[1] = 0;
  return values;
}

}  // namespace caffe
