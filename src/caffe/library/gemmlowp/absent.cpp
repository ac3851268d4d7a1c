#include "caffe/library/libraries.hpp"

namespace caffe {

GemmLibrary GemmlowpLibrary() {
  return {"gemmlowp", &OnHost, [](Device*, const GemmDescriptor&) { return false; }, nullptr};
}

ConvLibrary GemmlowpConvolutionLibrary() {
  return {"gemmlowp", &OnHost, [](Device*, const ConvDescriptor&) { return false; }, nullptr};
}

}  // namespace caffe
