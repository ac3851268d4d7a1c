#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "caffe/memory/blob.hpp"
#include "support/layer_tester.hpp"

namespace caffe::test {

using Codes = std::vector<int64_t>;

inline Codes CodesOf(const BlobBase& blob) {
  Codes codes(blob.count());
  const char* data = static_cast<const char*>(blob.host_data());
  for (int64_t i = 0; i < blob.count(); ++i) {
    std::memcpy(&codes[i], data + i * blob.type().bytes(), blob.type().bytes());  // little endian
  }
  return codes;
}

inline void SetCodes(BlobBase* blob, const Codes& codes) {
  char* data = static_cast<char*>(blob->mutable_host_data());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(data + i * blob->type().bytes(), &codes[i], blob->type().bytes());
  }
}

// Codes of every size; both ends are among them if there are many.
inline Codes RandomCodes(int64_t count, DataType type, uint64_t seed) {
  const int64_t most = type.info().code_max;
  Codes codes;
  for (const double value : TestNumbers(count, seed)) {
    codes.push_back(std::clamp<int64_t>(
        std::llround((value + 1) / 2 * 1.1 * static_cast<double>(most)), 0, most));
  }
  return codes;
}

inline Codes EveryCode(DataType type) {
  Codes codes(type.info().code_max + 1);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int64_t>(i);
  return codes;
}

}  // namespace caffe::test
