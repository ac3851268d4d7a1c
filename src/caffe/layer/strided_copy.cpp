#include "caffe/layer/strided_copy.hpp"

#include <cstring>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {

StridedCopy::StridedCopy(Device* device, const TypeTriple& types)
    : device_(device), element_bytes_(static_cast<int64_t>(types.in.bytes())) {
  copy_ = ProgramBuilder(device, "strided_copy")
              .Types(types)
              .Body("blas/strided_copy")
              .Build()
              ->CreateKernel("strided_copy");
  table_ = MakeBlob(kDouble, device, {0}, "strides");
}

std::vector<int64_t> StridedCopy::Strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void StridedCopy::Reshape(const std::vector<Axis>& axes) {
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!merged.empty() && merged.back().x_stride == axis.extent * axis.x_stride &&
        merged.back().y_stride == axis.extent * axis.y_stride) {
      merged.back() = {merged.back().extent * axis.extent, axis.x_stride, axis.y_stride};
    } else {
      merged.push_back(axis);
    }
  }
  inner_ = {1, 1, 1};
  if (!merged.empty()) {
    inner_ = merged.back();
    merged.pop_back();
  }
  rows_ = 1;
  std::vector<int64_t> outer;
  for (const Axis& axis : merged) {
    rows_ *= axis.extent;
    outer.insert(outer.end(), {axis.extent, axis.x_stride, axis.y_stride});
  }
  // Without outer axes the table is not read, but its argument needs memory.
  if (outer.empty()) outer = {1, 0, 0};
  if (outer == outer_) return;
  outer_ = outer;
  const int64_t size = static_cast<int64_t>(outer_.size());
  table_->Reshape({size});
  std::memcpy(table_->mutable_host_data(), outer_.data(), outer_.size() * sizeof(int64_t));
  table_->device_data();  // uploaded now, not in the forward
}

void StridedCopy::Launch(KernelArgument x, KernelArgument y) {
  const int64_t count = rows_ * inner_.extent;
  if (count == 0) return;
  if (rows_ == 1 && inner_.x_stride == 1 && inner_.y_stride == 1 && !x.pointer.packed) {
    device_->Copy(y.pointer, x.pointer, count * element_bytes_);
    return;
  }
  const int64_t lanes = device_->has_groups() ? inner_.extent : 1;
  const int axes = rows_ == 1 ? 0 : static_cast<int>(outer_.size() / 3);
  const auto range = LaunchRange::WithCost(rows_ * lanes, inner_.extent);
  copy_->Launch(range, {rows_, inner_.extent, lanes, axes, table_->Data(), inner_.x_stride,
                        inner_.y_stride, x, y});
}

}  // namespace caffe
