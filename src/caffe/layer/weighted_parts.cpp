#include "caffe/layer/weighted_parts.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/out_of_memory.hpp"

namespace caffe {

WeightedParts::WeightedParts(RowParts rows, const JointWeights::Groups& weights, int64_t x_row,
                             int64_t y_row, const Make& make)
    : rows_(std::move(rows)), x_row_(x_row), y_row_(y_row), ops_(weights.size()) {
  for (size_t group = 0; group < weights.size(); ++group) {
    for (const int64_t size : rows_.sizes()) ops_[group].push_back(make(size, {weights[group]}));
  }
}

int64_t WeightedParts::workspace_bytes() const {
  int64_t bytes = 0;
  for (const auto& ops : ops_) {
    for (const auto& op : ops) bytes = std::max(bytes, op->workspace_bytes());
  }
  return bytes;
}

int64_t WeightedParts::parameter_bytes() const {
  return std::min<int64_t>(rows_.rows(), rows_.groups()) * ops_[0][0]->parameter_bytes();
}

void WeightedParts::CountMemory(WorkMemory* memory) const {
  for (const auto& ops : ops_) {
    for (const auto& op : ops) op->CountMemory(memory);
  }
}

void WeightedParts::Prepare() {
  for (size_t group = 0; group < ops_.size(); ++group) {
    try {
      for (const auto& op : ops_[group]) op->Prepare();
    } catch (...) {
      RethrowIn(Concat("expert ", group));
    }
  }
}

void WeightedParts::Run(const Operands& operands) {
  Operands own = operands;
  for (const RowParts::Part& part : rows_.Find(*operands.offsets)) {
    own.x = operands.x + part.begin * x_row_;
    own.y = operands.y + part.begin * y_row_;
    if (operands.epilogue.residual) {
      own.epilogue.residual = operands.epilogue.residual + part.begin * y_row_;
    }
    Of(part).Run(own);
  }
}

}  // namespace caffe
