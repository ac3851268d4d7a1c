#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "caffe/layer/weighted_op.hpp"

namespace caffe {

// Computes each part of a group's rows by an operator that is made before, so that a forward needs
// none for a new number of rows. The host reads the offsets.
class WeightedParts final : public WeightedOp {
 public:
  // Makes an operator for so many rows of one group.
  using Make = std::function<std::unique_ptr<LibraryOp>(int64_t rows, JointWeights::Groups)>;
  // `weights` of each group; `x_row` and `y_row` are the bytes of a row.
  WeightedParts(RowParts rows, const JointWeights::Groups& weights, int64_t x_row, int64_t y_row,
                const Make& make);
  const char* library() const override { return ops_[0].back()->library(); }
  int64_t workspace_bytes() const override;
  int64_t products() const override { return rows_.rows() * ops_[0][0]->products(); }
  int64_t parameter_bytes() const override;
  void CountMemory(WorkMemory* memory) const override;
  void Prepare() override;
  void Run(const Operands& operands) override;
  const std::vector<RowParts::Part>& Find(const BlobBase* offsets) override {
    return rows_.Find(*offsets);
  }
  LibraryOp& Of(const RowParts::Part& part) override { return *ops_[part.group][part.size]; }

 private:
  RowParts rows_;
  int64_t x_row_, y_row_;
  std::vector<std::vector<std::unique_ptr<LibraryOp>>> ops_;  // of each group and size
};

}  // namespace caffe
