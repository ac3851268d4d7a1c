#pragma once

#include <string_view>

namespace caffe {

// The text of a warning about a field of a popular fork that this library does not have and skips,
// because it changes only speed, memory, logging or the types of arithmetic; else "". `message` is
// a full name (caffe.LayerParameter). A field that changes what is computed is not in the list: it
// is an error.
std::string_view IgnoredFieldNote(std::string_view message, std::string_view field);

}  // namespace caffe
