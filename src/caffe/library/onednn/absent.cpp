#include "caffe/library/libraries.hpp"
#include "caffe/library/onednn/bfloat16_time.hpp"

namespace caffe {

ConvLibrary OneDnnLibrary(bool widens) {
  return {widens ? "onednn_float" : "onednn", &OnHost,
          [](Device*, const ConvDescriptor&) { return false; }, nullptr};
}

double onednn::Bfloat16Time() { return 1; }

}  // namespace caffe
