#pragma once

#include <string>

namespace caffe {

// The content of a gzip file whose bytes these are; `path` is for messages.
std::string Inflate(const std::string& bytes, const std::string& path);

}  // namespace caffe
