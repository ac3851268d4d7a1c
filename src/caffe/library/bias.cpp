#include "caffe/library/bias.hpp"

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {

BiasOp::BiasOp(Device* device, DataType type, DataType bias_type, int64_t outer, int64_t channels,
               int64_t inner)
    : device_(device), outer_(outer), channels_(channels), inner_(inner) {
  const DataType compute = type == kDouble ? kDouble : kFloat;
  CAFFE_CHECK(type.is_float() && bias_type == compute, "a bias of type ", bias_type.name(),
              " can not be added to ", type.name());
  const TypeTriple types{compute, type, bias_type};
  auto program = ProgramBuilder(device, "bias").Types(types).Body("blas/bias").Build();
  rows_ = program->CreateKernel("bias_rows");
  columns_ = program->CreateKernel("bias_columns");
  activate_ = program->CreateKernel("bias_none");
  if (inner == 1) {
    backward_ = program->CreateKernel("bias_backward_columns");
  } else if (device->host_accessible()) {
    backward_ = program->CreateKernel("bias_backward");
  } else {
    auto groups = ProgramBuilder(device, "bias gradient").Types(types).Body("blas/reduce").Build();
    backward_ = groups->CreateKernel("bias_backward_groups");
  }
}

void BiasOp::Forward(DevicePtr x, DevicePtr bias, DevicePtr y, Epilogue::Activation activation) {
  const int relu = activation == Epilogue::Activation::kRelu;
  if (!bias) {
    const int64_t columns = channels_ * inner_;
    activate_->Launch(LaunchRange(outer_, columns),
                      {outer_, columns, outer_, 0, columns, relu, x, y});
  } else if (inner_ == 1) {
    columns_->Launch(LaunchRange(outer_, channels_),
                     {outer_, channels_, outer_, 0, channels_, relu, x, bias, y});
  } else {
    rows_->Launch(
        LaunchRange(outer_ * channels_, inner_),
        {outer_ * channels_, inner_, channels_, channels_ * inner_, inner_, relu, x, bias, y});
  }
}

void BiasOp::Backward(DevicePtr y_diff, DevicePtr b_diff) {
  if (inner_ == 1) {
    backward_->Launch(channels_, {channels_, outer_, y_diff, b_diff});
  } else if (device_->host_accessible()) {
    backward_->Launch(LaunchRange(channels_, outer_ * inner_),
                      {channels_, outer_, inner_, y_diff, b_diff});
  } else {
    backward_->LaunchInGroups(LaunchGroups{{channels_, 1, 1}, {256, 1, 1}},
                              {channels_, outer_, inner_, y_diff, b_diff});
  }
}

}  // namespace caffe
