#include "caffe/layer/grouped_parts.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {

GroupedParts::GroupedParts(RowParts rows, Weights weights, const Make& make)
    : rows_(std::move(rows)), weights_(std::move(weights)), ops_(weights_.size()) {
  for (size_t group = 0; group < weights_.size(); ++group) {
    for (const int64_t size : rows_.sizes()) ops_[group].push_back(make(size, weights_[group]));
  }
}

const char* GroupedParts::library() const {
  return rows_.sizes().empty() ? "" : ops_[0].back()->op().library();
}

int64_t GroupedParts::workspace_bytes() const {
  int64_t bytes = 0;
  for (const auto& ops : ops_) {
    for (const auto& op : ops) bytes = std::max(bytes, op->workspace_bytes());
  }
  return bytes;
}

int64_t GroupedParts::products() const {
  return rows_.sizes().empty() ? 0 : rows_.rows() * ops_[0][0]->products();
}

int64_t GroupedParts::parameter_bytes() const {
  if (rows_.sizes().empty()) return 0;
  return std::min<int64_t>(rows_.rows(), rows_.groups()) * ops_[0][0]->parameter_bytes();
}

void GroupedParts::CountMemory(WorkMemory* memory) const {
  for (const auto& ops : ops_) {
    for (const auto& op : ops) op->CountMemory(memory);
  }
}

void GroupedParts::Prepare() {
  for (size_t group = 0; group < ops_.size(); ++group) {
    try {
      for (const auto& op : ops_[group]) op->Prepare();
      if (ops_[group].empty()) weights_[group]->Refresh();
    } catch (const Error& error) {
      CAFFE_THROW("expert ", group, ": ", error.what());
    }
  }
}

DevicePtr GroupedParts::Row(DevicePtr from, int64_t row, const BlobBase& blob) {
  return from + row * blob.count(1) * static_cast<int64_t>(blob.type().bytes());
}

void GroupedParts::Run(const Operands& operands) {
  const BlobBase &x = *operands.x, &y = *operands.y;
  WeightedOp::Operands part_of;
  part_of.workspace = operands.workspace;
  if (operands.slopes) part_of.epilogue.slopes = operands.slopes->device_data();
  const DevicePtr from = x.device_data(), to = operands.y->mutable_device_data();
  const DevicePtr residual = operands.residual ? operands.residual->device_data() : DevicePtr{};
  for (const RowParts::Part& part : rows_.Find(*operands.offsets)) {
    part_of.x = Row(from, part.begin, x);
    part_of.y = Row(to, part.begin, y);
    if (residual) part_of.epilogue.residual = Row(residual, part.begin, y);
    op(part).Run(part_of);
  }
}

}  // namespace caffe
