#pragma once

#include <string>

namespace caffe {

// The bytes of a file, decompressed if it is a gzip file. Throws if it is missing, cannot be read
// or is damaged, and for a gzip file if it unpacks to more than MostUnpacked() allows or if the
// library was built without zlib.
std::string ReadGzipFile(const std::string& path);

}  // namespace caffe
