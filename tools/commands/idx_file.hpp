#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

// The magic numbers of IDX files of bytes: in 3 axes, in 1 axis.
enum class IdxKind : uint32_t { kImages = 0x803, kLabels = 0x801 };

// A file of bytes in the IDX format, as MNIST has it: magic number, extents (big endian), elements.
struct IdxFile {
  std::vector<int64_t> shape;
  std::string bytes;
  size_t begin = 0;  // of the elements

  const char* item(int64_t index, int64_t size) const { return &bytes[begin + index * size]; }
};

// Reads a file, which may be gzipped. Throws if its kind is another one or if it does not have
// exactly the elements that its header announces.
IdxFile ReadIdx(const std::string& path, IdxKind kind);

}  // namespace caffe
