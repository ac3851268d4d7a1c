#pragma once

#include <string>
#include <string_view>

namespace caffe {

// The text as a JSON string, quotes included.
std::string JsonString(std::string_view text);

// The number with the digits that a float has; null if it is not finite, which JSON cannot write.
std::string JsonNumber(double value);

}  // namespace caffe
