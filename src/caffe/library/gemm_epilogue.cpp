#include "caffe/library/gemm_epilogue.hpp"

namespace caffe {

GemmEpilogue::GemmEpilogue(Device* device, const GemmDescriptor& descriptor) : d_(descriptor) {
  if (d_.epilogue.empty()) return;
  pass_ = std::make_unique<EpiloguePass>(device, d_.out, d_.out, d_.epilogue);
}

void GemmEpilogue::Run(const GemmArguments& arguments) const {
  if (!pass_) return;
  const int64_t outer = d_.batch_stride_c(), stride = d_.row_c();
  pass_->Run({d_.batch * d_.m, d_.n, d_.m, outer, stride, outer, stride}, arguments.c, arguments.c,
             arguments.bias, arguments.epilogue);
}

}  // namespace caffe
