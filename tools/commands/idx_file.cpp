#include "commands/idx_file.hpp"

#include "caffe/core/error.hpp"
#include "caffe/data/gzip_file.hpp"

namespace caffe {
namespace {

uint32_t BigEndian(const std::string& bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

}  // namespace

IdxFile ReadIdx(const std::string& path, IdxKind kind) {
  const bool images = kind == IdxKind::kImages;
  const char* what = images ? "images" : "labels";
  IdxFile idx{{}, ReadGzipFile(path), 0};
  const auto magic = static_cast<uint32_t>(kind);
  const size_t axes = magic & 0xff;
  idx.begin = 4 + 4 * axes;
  CAFFE_CHECK(idx.bytes.size() >= 4, path, ": ", idx.bytes.size(),
              " bytes are too few for an IDX file");
  const uint32_t found = BigEndian(idx.bytes, 0);
  const bool swapped = found == static_cast<uint32_t>(images ? IdxKind::kLabels : IdxKind::kImages);
  CAFFE_CHECK(found == magic, path, ": not an IDX file of ", what, ": it begins with ", found,
              ", not with ", magic, swapped ? "; the order is images, labels, database" : "");
  CAFFE_CHECK(idx.bytes.size() >= idx.begin, path, ": its header is cut off");
  double count = 1;
  for (size_t i = 0; i < axes; ++i) {
    idx.shape.push_back(BigEndian(idx.bytes, 4 + 4 * i));
    count *= static_cast<double>(idx.shape.back());
  }
  const auto have = static_cast<double>(idx.bytes.size() - idx.begin);
  CAFFE_CHECK(have == count, path, ": its header announces ", count, " bytes of ", what,
              ", but has ", have, have < count ? "; it is cut off" : "");
  return idx;
}

}  // namespace caffe
