#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace caffe {

// What every failure of the library throws. The message names the layer, the blob and the values.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The arguments, written one after another as an output stream would.
template <class... Arguments> std::string Concat(const Arguments&... arguments) {
  std::ostringstream out;
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
