#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace caffe {

// Unpacks the bytes of a gzip file; `path` is for messages. See ReadGzipFile.
std::string Inflate(const std::string& bytes, const std::string& path,
                    const std::function<uint64_t(std::string_view head)>& announced);

// See GzipSize.
std::optional<int64_t> DeflatedSize(std::string_view bytes);

}  // namespace caffe
