#include "caffe/library/epilogue_pass.hpp"

#include <limits>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {

EpiloguePass::EpiloguePass(Device* device, DataType x, DataType y, const Epilogue& epilogue)
    : stages_(epilogue),
      bias_(epilogue.bias),
      by_arguments_(device->host_accessible() && !stages_.bounds()) {
  ProgramBuilder builder(device, "epilogue");
  builder.Types({x, x, y});
  if (by_arguments_) {
    kernel_ = builder.Body("blas/stages").Build()->CreateKernel("stages");
    return;
  }
  stages_.Define(&builder);
  const char* name = bias_ == Epilogue::Bias::kNone     ? "bias_none"
                     : bias_ == Epilogue::Bias::kPerRow ? "bias_rows"
                                                        : "bias_columns";
  kernel_ = builder.Body("blas/epilogue").Build()->CreateKernel(name);
}

void EpiloguePass::Run(const Layout& l, DevicePtr x, DevicePtr y, DevicePtr bias,
                       const EpilogueOperands& operands) const {
  KernelArguments arguments;
  arguments.append({l.rows, l.columns, l.per, l.x_outer, l.x_stride, l.y_outer, l.y_stride});
  stages_.AddArguments(operands, y, &arguments);
  if (by_arguments_) {
    stages_.AddHostArguments(&arguments);
    // No constants in the table but slopes, no last element, one summand.
    const DevicePtr none = BufferOf(y);
    arguments.append({int64_t{0}, std::numeric_limits<int64_t>::max(), none, none, none, x,
                      static_cast<int>(bias_), bias_ == Epilogue::Bias::kNone ? none : bias, y});
  } else {
    arguments.push_back(x);
    if (bias_ != Epilogue::Bias::kNone) arguments.push_back(bias);
    arguments.push_back(y);
  }
  kernel_->Launch(LaunchRange(l.rows, l.columns), arguments);
}

}  // namespace caffe
