#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace caffe {

// Text for a person: control characters and bytes that are not UTF-8 are written as `\x1b`, except
// line ends and tabs. Names that come from files cannot change a terminal or forge lines of a log.
std::string Printable(std::string_view text);

// The exception of every failure of the library. The message names the layer, the blob and the
// values, and is Printable.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string_view text) : std::runtime_error(Printable(text)) {}
};

// Joins the arguments to a string, each formatted as by an output stream of the locale "C".
template <class... Arguments> std::string Concat(const Arguments&... arguments) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << arguments);
  return out.str();
}

}  // namespace caffe

#define CAFFE_THROW(...) throw ::caffe::Error(::caffe::Concat(__VA_ARGS__))

#define CAFFE_CHECK(condition, ...)  \
  do {                               \
    if (!(condition)) [[unlikely]] { \
      CAFFE_THROW(__VA_ARGS__);      \
    }                                \
  } while (false)
