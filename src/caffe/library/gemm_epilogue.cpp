#include "caffe/library/gemm_epilogue.hpp"

#include "caffe/device/program_builder.hpp"

namespace caffe {

GemmEpilogue::GemmEpilogue(Device* device, const GemmDescriptor& descriptor) : d_(descriptor) {
  if (d_.epilogue.empty()) return;
  const DataType compute = d_.out == kDouble ? kDouble : kFloat;
  auto program =
      ProgramBuilder(device, "bias").Types({compute, d_.out, compute}).Body("blas/bias").Build();
  const bool rows = d_.epilogue.bias == Epilogue::Bias::kPerRow;
  const bool none = d_.epilogue.bias == Epilogue::Bias::kNone;
  kernel_ = program->CreateKernel(none ? "bias_none" : rows ? "bias_rows" : "bias_columns");
}

void GemmEpilogue::Run(DevicePtr c, DevicePtr bias) {
  if (!kernel_) return;
  const int64_t rows = d_.batch * d_.m;
  const int relu = d_.epilogue.relu();
  if (d_.epilogue.bias == Epilogue::Bias::kNone) {
    kernel_->Launch(LaunchRange(rows, d_.n),
                    {rows, d_.n, d_.m, d_.step_c(), d_.row_c(), relu, c, c});
  } else {
    kernel_->Launch(LaunchRange(rows, d_.n),
                    {rows, d_.n, d_.m, d_.step_c(), d_.row_c(), relu, c, bias, c});
  }
}

}  // namespace caffe
