#include <cstdio>
#include <string>
#include <string_view>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// The bytes of the UTF-8 character at the beginning of the text; 0 if there is none, or if it is a
// control character.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first == '\n' || first == '\t' || (first >= 32 && first != 127) ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool c1_control = first == 0xc2 && second < 0xa0;
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond = first == 0xf4 && second >= 0x90;
  return c1_control || too_long || surrogate || beyond ? 0 : length;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    size_t length = CharacterLength(text);
    if (length > 0) {
      printable += text.substr(0, length);
    } else {
      length = 1;
      char code[8];
      std::snprintf(code, sizeof(code), "\\x%02x", static_cast<unsigned char>(text[0]));
      printable += code;
    }
    text.remove_prefix(length);
  }
  return printable;
}

}  // namespace caffe
