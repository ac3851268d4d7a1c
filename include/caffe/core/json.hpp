#pragma once

#include <string>
#include <string_view>

namespace caffe {

// The text as a JSON string, quotes included. A byte that is not UTF-8 becomes the text `\xff`.
std::string JsonString(std::string_view text);

// The number with the digits of a float; null if it is not finite, which JSON cannot represent.
std::string JsonNumber(double value);

}  // namespace caffe
