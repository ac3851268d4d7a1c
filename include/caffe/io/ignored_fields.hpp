#pragma once

#include <string_view>

namespace caffe {

// True for a field of a popular fork that this library does not have and that changes only speed,
// memory or logging, so that it can be skipped. `message` is a full name (caffe.LayerParameter). A
// field that changes results is not in the list: it is an error.
bool IsIgnoredField(std::string_view message, std::string_view field);

}  // namespace caffe
