#include "caffe/core/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {

namespace {

// The bytes of the character in UTF-8 at the beginning of the text, also of a control character; 0
// if there is none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return 1;
  if (text.size() > 1 && byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return 2;
  for (size_t length = 2; length <= 4 && length <= text.size(); ++length) {
    const std::string_view character = text.substr(0, length);
    if (Printable(character) == character) return length;
  }
  return 0;
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const char c = text[0];
    const int code = length == 2 ? static_cast<unsigned char>(text[1]) : c;
    const bool c1_control = length == 2 && c == '\xc2' && code < 0xa0;
    char escape[8];
    if (length == 0) {
      // JSON holds Unicode only: another byte is written as Printable writes it.
      std::snprintf(escape, sizeof(escape), "\\\\x%02x", static_cast<unsigned char>(c));
      out += escape;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c1_control || (length == 1 && (code < 0x20 || code == 0x7f))) {
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(code));
      out += escape;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + "\"";
}

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  return GeneralText(value, 9);
}

}  // namespace caffe
