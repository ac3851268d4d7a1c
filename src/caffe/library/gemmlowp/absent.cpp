#include "caffe/library/libraries.hpp"

namespace caffe {

GemmLibrary GemmlowpLibrary() {
  return {"gemmlowp", [](Device*, const GemmDescriptor&) { return false; }, nullptr};
}

ConvLibrary GemmlowpConvolutionLibrary() {
  return {"gemmlowp", [](Device*, const ConvDescriptor&) { return false; }, nullptr};
}

}  // namespace caffe
