#include "caffe/core/error.hpp"
#include "caffe/data/png/png.hpp"

namespace caffe {

Image DecodePng(std::string_view, const std::string& name, std::optional<bool>) {
  CAFFE_THROW("cannot decode ", name, ": built without libpng");
}

std::string EncodePng(const Image&) { CAFFE_THROW("cannot write PNG: built without libpng"); }

}  // namespace caffe
