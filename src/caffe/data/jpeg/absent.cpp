#include "caffe/core/error.hpp"
#include "caffe/data/jpeg/jpeg.hpp"

namespace caffe {

Image DecodeJpeg(std::string_view, const std::string& name, std::optional<bool>, int*) {
  CAFFE_THROW("cannot decode ", name, ": built without libjpeg");
}

std::string EncodeJpeg(const Image&) { CAFFE_THROW("cannot write JPEG: built without libjpeg"); }

}  // namespace caffe
