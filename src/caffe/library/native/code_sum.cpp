#include "caffe/library/native/code_sum.hpp"

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/native/code_sum_steps.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const CodeSumSteps code_sum_steps_v2, code_sum_steps_v3, code_sum_steps_v4;
#else
extern const CodeSumSteps code_sum_steps_neon;
#endif

namespace {

const CodeSumSteps& HostSteps() {
#if defined(__x86_64__)
  const InstructionLevel level = HostLevelNumber();
  return level == InstructionLevel::kV4   ? code_sum_steps_v4
         : level == InstructionLevel::kV3 ? code_sum_steps_v3
                                          : code_sum_steps_v2;
#else
  return code_sum_steps_neon;
#endif
}

}  // namespace

ResidualCodes::ResidualCodes(const Epilogue& epilogue, DataType type, const QuantArguments& quant,
                             DevicePtr residual, DevicePtr y)
    : adds_(epilogue.sum() != nullptr),
      relu_(epilogue.activation().kind == ElementFunction::Kind::kReLU),
      bytes_(static_cast<int64_t>(type.bytes())),
      sum_(quant.sum),
      zero_own_(quant.zero_y),
      y_(y.address()) {
  if (adds_) residual_ = residual.address();
}

void ResidualCodes::Add(int64_t rows, int64_t n, int64_t first_of_y, int64_t y_stride,
                        int64_t first_of_residual, int64_t residual_stride) const {
  if (!adds_) return;
  CodeSumRows r{};
  r.rows = rows;
  r.n = n;
  r.bytes = static_cast<int>(bytes_);
  r.residual = residual_ + first_of_residual * bytes_;
  r.residual_stride = residual_stride;
  r.y = y_ + first_of_y * bytes_;
  r.y_stride = y_stride;
  r.zero_own = zero_own_;
  r.own = sum_.own;
  r.factor = sum_.residual;
  r.shift = sum_.shift;
  r.zero_residual = sum_.zero_residual;
  r.zero_sum = sum_.zero_sum;
  r.relu = relu_;
  r.multiplier = sum_.rescale.multiplier;
  r.rescale_shift = sum_.rescale.shift;
  r.zero_result = sum_.zero_result;
  HostSteps().add(r);
}

}  // namespace caffe
