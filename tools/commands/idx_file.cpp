#include "commands/idx_file.hpp"

#include <algorithm>
#include <string_view>

#include "caffe/core/error.hpp"
#include "caffe/data/gzip_file.hpp"

namespace caffe {
namespace {

uint32_t BigEndian(std::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

// Reads the header, and returns how many bytes of elements it announces.
double ReadHeader(std::string_view bytes, const std::string& path, IdxKind kind, IdxFile* idx) {
  const bool images = kind == IdxKind::kImages;
  const auto magic = static_cast<uint32_t>(kind);
  const size_t axes = magic & 0xff;
  CAFFE_CHECK(bytes.size() >= 4, path, ": ", bytes.size(), " bytes are too few for an IDX file");
  const uint32_t found = BigEndian(bytes, 0);
  const bool swapped = found == static_cast<uint32_t>(images ? IdxKind::kLabels : IdxKind::kImages);
  CAFFE_CHECK(found == magic, path, ": not an IDX file of ", images ? "images" : "labels",
              ": it begins with ", found, ", not with ", magic,
              swapped ? "; the order is images, labels, database" : "");
  idx->begin = 4 + 4 * axes;
  CAFFE_CHECK(bytes.size() >= idx->begin, path, ": its header is cut off");
  idx->shape.clear();
  double count = 1;
  for (size_t i = 0; i < axes; ++i) {
    idx->shape.push_back(BigEndian(bytes, 4 + 4 * i));
    count *= static_cast<double>(idx->shape.back());
  }
  return count;
}

}  // namespace

IdxFile ReadIdx(const std::string& path, IdxKind kind) {
  IdxFile idx;
  idx.bytes = ReadGzipFile(path, [&](std::string_view head) {
    constexpr double kMost = 1e18;
    const double count = ReadHeader(head, path, kind, &idx);
    return idx.begin + static_cast<uint64_t>(std::min(count, kMost));
  });
  const double count = ReadHeader(idx.bytes, path, kind, &idx);
  const auto have = static_cast<double>(idx.bytes.size() - idx.begin);
  CAFFE_CHECK(have == count, path, ": its header announces ", count, " bytes of ",
              kind == IdxKind::kImages ? "images" : "labels", ", but has ", have,
              have < count ? "; it is cut off" : "");
  return idx;
}

}  // namespace caffe
