#include "caffe/core/number_text.hpp"

#include <charconv>
#include <limits>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

std::string Text(double value, std::chars_format format, int digits) {
  // The largest number has 309 digits before its point.
  char text[std::numeric_limits<double>::max_exponent10 + 64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value, format, digits);
  CAFFE_CHECK(error == std::errc(), "a number cannot be printed with ", digits, " digits");
  return {text, end};
}

}  // namespace

std::string GeneralText(double value, int digits) {
  return Text(value, std::chars_format::general, digits);
}

std::string FixedText(double value, int digits) {
  return Text(value, std::chars_format::fixed, digits);
}

}  // namespace caffe
