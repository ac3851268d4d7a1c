#include "caffe/core/error.hpp"
#include "caffe/data/png/png.hpp"

namespace caffe {

Image DecodePng(std::string_view, const std::string& name, bool) {
  CAFFE_THROW("cannot decode ", name, ": built without libpng");
}

}  // namespace caffe
