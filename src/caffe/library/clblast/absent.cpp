#include "caffe/library/libraries.hpp"

namespace caffe {

GemmLibrary ClBlastLibrary() {
  return {"clblast", &OnOpenCl, [](Device*, const GemmDescriptor&) { return false; }, nullptr};
}

GemmLibrary ClBlastHalfLibrary() {
  return {"clblast_half", &OnOpenCl, [](Device*, const GemmDescriptor&) { return false; }, nullptr};
}

}  // namespace caffe
