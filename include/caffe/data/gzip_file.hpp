#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace caffe {

// The bytes of a file, decompressed if it is a gzip file. Throws if it is missing, cannot be read
// or is damaged, and for a gzip file if it unpacks to more than MostUnpacked() allows or if the
// library was built without zlib. `announced` gets the first 64 bytes or more of what a gzip file
// holds, before the rest is unpacked, and returns the most bytes that the whole may have.
std::string ReadGzipFile(const std::string& path,
                         const std::function<uint64_t(std::string_view head)>& announced = {});

// How many bytes `gzip` would store these bytes in, with its default level. Nothing if the library
// was built without zlib.
std::optional<int64_t> GzipSize(std::string_view bytes);

}  // namespace caffe
