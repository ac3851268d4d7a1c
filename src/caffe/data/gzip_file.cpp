#include "caffe/data/gzip_file.hpp"

#include "caffe/data/zlib/inflate.hpp"
#include "caffe/io/file.hpp"

namespace caffe {

std::string ReadGzipFile(const std::string& path,
                         const std::function<uint64_t(std::string_view head)>& announced) {
  std::string bytes = ReadFile(path);
  const bool gzip = bytes.starts_with("\x1f\x8b");
  return gzip ? Inflate(bytes, path, announced) : bytes;
}

std::optional<int64_t> GzipSize(std::string_view bytes) { return DeflatedSize(bytes); }

}  // namespace caffe
