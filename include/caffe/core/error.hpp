#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace caffe {

// The exception of every failure of the library. The message names the layer, the blob and the
// values.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
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
