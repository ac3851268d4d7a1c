#include "caffe/core/environment_number.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {

std::optional<int64_t> NumberOfEnvironment(const char* variable, int64_t least, int64_t most,
                                           const char* unit) {
  const char* const value = std::getenv(variable);
  if (!value || !*value) return std::nullopt;
  int64_t number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error == std::errc() && stop == end && number >= least && number <= most) return number;
  log::WarnOnce(Concat(variable, " is ", value, ", which is not a number of ", unit, " from ",
                       least, " to ", most, "; ignored"));
  return std::nullopt;
}

}  // namespace caffe
