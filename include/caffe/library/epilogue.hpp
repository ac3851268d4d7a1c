#pragma once

#include <string>
#include <variant>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/element_function.hpp"

namespace caffe {

// v + coefficient * residual; the residual has the result's type and shape. Of codes: see CodeSum.
struct ResidualSum {
  float coefficient = 1;

  bool operator==(const ResidualSum&) const = default;
};

// The arrays that the stages read. The residual may not overlap the result.
struct EpilogueOperands {
  DevicePtr residual, slopes;
};

// The end of an operator, before it stores its result: it adds the bias, then applies the stages in
// order, at most one sum and at most one activation. All of it is computed in the type of the sums;
// the result is rounded once, when it is stored.
struct Epilogue {
  enum class Bias { kNone, kPerRow, kPerColumn };
  using Stage = std::variant<ResidualSum, ElementFunction>;

  Bias bias = Bias::kNone;
  DataType bias_type = kFloat;  // float or double: biases are masters
  std::vector<Stage> stages;
  // The axis of the result whose indices have separate slopes of PReLU; kNone: one slope for all.
  // Slopes have the bias' type.
  Bias slopes = Bias::kNone;

  bool empty() const { return bias == Bias::kNone && stages.empty(); }
  // kNone if no stage is an activation.
  ElementFunction activation() const;
  // Null if no stage is a sum.
  const ResidualSum* sum() const;
  // " +row bias +sum 0.5 +relu"; empty for an empty epilogue.
  std::string name() const;
  // Throws if the stages violate these rules; `what` names the operation.
  void Check(const std::string& what, DataType type) const;
  // The name of an array that a stage reads and that is not there; null if there are all. Quantized
  // types have `factors` for sums below 0 in place of slopes.
  const char* Missing(const EpilogueOperands& operands, bool quantized, bool factors) const;
};

}  // namespace caffe
