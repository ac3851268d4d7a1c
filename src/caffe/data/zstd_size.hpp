#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace caffe {

// How many bytes `zstd` would store these bytes in, with its default level. Nothing if the machine
// has no libzstd, which is opened at run time.
std::optional<int64_t> ZstdSize(std::string_view bytes);

}  // namespace caffe
