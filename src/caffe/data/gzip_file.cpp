#include "caffe/data/gzip_file.hpp"

#include "caffe/data/zlib/inflate.hpp"
#include "caffe/io/file.hpp"

namespace caffe {

std::string ReadGzipFile(const std::string& path) {
  std::string bytes = ReadFile(path);
  const bool gzip = bytes.starts_with("\x1f\x8b");
  return gzip ? Inflate(bytes, path) : bytes;
}

}  // namespace caffe
