#include "caffe/layer/code_affine.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "caffe/core/common_shift.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

CodeAffine::CodeAffine(std::vector<const BlobBase*> sources, Function function, int64_t channels,
                       DataType type, Device* device, const std::string& name)
    : Codes(std::move(sources)), function_(std::move(function)), channels_(channels), name_(name) {
  numbers_ = MakeBlob(kQuant8, device, {16 * channels}, name + ": factors of channels");
  const auto program =
      ProgramBuilder(device, "affine").Types(TypeTriple::Equal(type)).Body("quant/affine").Build();
  rows_ = program->CreateKernel("affine_codes_rows");
  columns_ = program->CreateKernel("affine_codes_columns");
}

void CodeAffine::Build() {
  std::vector<double> scale, shift;
  function_(&scale, &shift);
  CAFFE_CHECK(static_cast<int64_t>(scale.size()) == channels_ &&
                  static_cast<int64_t>(shift.size()) == channels_,
              name_, ": ", scale.size(), " scales and ", shift.size(), " shifts for ", channels_,
              " channels");
  std::vector<int64_t> addends(channels_);
  std::vector<int32_t> multipliers(channels_), shifts(channels_);
  for (int64_t c = 0; c < channels_; ++c) {
    CAFFE_CHECK(std::isfinite(scale[c]) && std::isfinite(shift[c]), name_, ": the scale ", scale[c],
                " and the shift ", shift[c], " of channel ", c,
                " must be finite in a quantized net");
    const double factor = scale[c] * (x_.scale / y_.scale), addend = shift[c] / y_.scale;
    const CommonShift common =
        CommonShift::For(std::max(std::abs(factor), std::abs(addend) / 0x1p16));
    multipliers[c] = static_cast<int32_t>(common.Integer(factor));
    addends[c] = common.Integer(addend);
    shifts[c] = common.shift;
  }
  char* bytes = static_cast<char*>(numbers_->mutable_host_data());
  std::memcpy(bytes, addends.data(), 8 * channels_);
  std::memcpy(bytes + 8 * channels_, multipliers.data(), 4 * channels_);
  std::memcpy(bytes + 12 * channels_, shifts.data(), 4 * channels_);
  numbers_->device_data();  // uploaded now, not in the forward that follows
}

void CodeAffine::Launch(const Broadcast& shape, KernelArgument x, KernelArgument y,
                        bool relu) const {
  const DevicePtr addends = numbers_->device_data(), multipliers = addends + 8 * channels_,
                  shifts = addends + 12 * channels_;
  const int32_t low = relu ? 0 : -CodeBounds::kNone;
  if (shape.columns()) {
    columns_->Launch({shape.outer, shape.channels},
                     {shape.outer, shape.channels, low, x, addends, multipliers, shifts, y});
    return;
  }
  const int64_t rows = shape.outer * shape.channels;
  rows_->Launch({rows, shape.inner},
                {rows, shape.inner, shape.channels, low, x, addends, multipliers, shifts, y});
}

CodeSlopes::CodeSlopes(const BlobBase* slopes, DataType type, Device* device,
                       const std::string& name)
    : Codes({slopes}), slopes_(slopes), name_(name) {
  numbers_ = MakeBlob(kQuant8, device, {8 * slopes->count()}, name + ": factors of channels");
  const auto program =
      ProgramBuilder(device, "slopes").Types(TypeTriple::Equal(type)).Body("quant/slopes").Build();
  rows_ = program->CreateKernel("slope_codes_rows");
  columns_ = program->CreateKernel("slope_codes_columns");
}

void CodeSlopes::Build() {
  const std::vector<double> slopes = slopes_->DataAsDouble();
  std::vector<int32_t> multipliers, shifts;
  for (size_t c = 0; c < slopes.size(); ++c) {
    CAFFE_CHECK(std::isfinite(slopes[c]), name_, ": the slope ", slopes[c], " of channel ", c,
                " must be finite in a quantized net");
    const Requant factor = Requant::FromReal(std::abs(slopes[c]) * (x_.scale / y_.scale));
    multipliers.push_back(slopes[c] < 0 ? -factor.multiplier : factor.multiplier);
    shifts.push_back(factor.shift);
  }
  char* bytes = static_cast<char*>(numbers_->mutable_host_data());
  std::memcpy(bytes, multipliers.data(), 4 * slopes.size());
  std::memcpy(bytes + 4 * slopes.size(), shifts.data(), 4 * slopes.size());
  numbers_->device_data();  // uploaded now, not in the forward that follows
}

void CodeSlopes::Launch(const Broadcast& shape, KernelArgument x, KernelArgument y) const {
  const DevicePtr multipliers = numbers_->device_data(),
                  shifts = multipliers + 4 * slopes_->count();
  const Requant positive = Requant::FromReal(x_.scale / y_.scale);
  if (shape.columns()) {
    columns_->Launch({shape.outer, shape.channels},
                     {shape.outer, shape.channels, positive, x, multipliers, shifts, y});
    return;
  }
  const int64_t rows = shape.outer * shape.channels;
  rows_->Launch({rows, shape.inner},
                {rows, shape.inner, shape.channels, positive, x, multipliers, shifts, y});
}

}  // namespace caffe
