#pragma once

#include <string>

namespace caffe {

// Unpacks the bytes of a gzip file; `path` is for messages.
std::string Inflate(const std::string& bytes, const std::string& path);

}  // namespace caffe
