#pragma once

#include <cstdint>
#include <optional>

namespace caffe {

// The whole number in a variable of the environment; nothing if the variable is not set or is
// empty. Another value than a number from `least` to `most` is left out, with one warning that
// names `unit`, the plural of what is counted.
std::optional<int64_t> NumberOfEnvironment(const char* variable, int64_t least, int64_t most,
                                           const char* unit);

}  // namespace caffe
