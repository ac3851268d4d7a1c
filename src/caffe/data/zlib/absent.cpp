#include "caffe/core/error.hpp"
#include "caffe/data/zlib/inflate.hpp"

namespace caffe {

std::string Inflate(const std::string&, const std::string& path,
                    const std::function<uint64_t(std::string_view)>&) {
  CAFFE_THROW("cannot read ", path, ": built without zlib; unpack it first: gunzip ", path);
}

std::optional<int64_t> DeflatedSize(std::string_view) { return std::nullopt; }

}  // namespace caffe
