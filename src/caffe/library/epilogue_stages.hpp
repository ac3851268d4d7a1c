#pragma once

#include <string>
#include <vector>

#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

class ProgramBuilder;

// The stages of an epilogue for kernels. Device kernels have them in their text: EPILOGUE(v, row,
// column, at). Host kernels apply bounds inline; other stages are arguments.
class EpilogueStages {
 public:
  // The position of the residual sum among the stages.
  enum class Sum { kNone, kBefore, kAfter };

  explicit EpilogueStages(const Epilogue& epilogue);
  // Bounds and no sum.
  bool bounds() const { return clips() && sum_ == Sum::kNone; }
  // The stages clip: Clip, ReLU without a slope, and no activation at all are bounds.
  bool clips() const { return activation_.kind == ElementFunction::Kind::kClip; }
  // Neither stages nor finite bounds.
  bool none() const;
  Sum sum() const { return sum_; }
  // 0: one slope for all, 1: one for each row, 2: one for each column.
  int slope_axis() const { return static_cast<int>(slopes_); }
  double a() const { return activation_.a; }
  double b() const { return activation_.b; }

  // Defines EPILOGUE for the bodies that follow. `residual` is the text of its element.
  void Define(ProgramBuilder* builder,
              const std::string& residual = "LOAD(MOtype, residual, at)") const;
  // Adds activation_a, activation_b, coefficient, residual, slopes. `y` replaces arrays that are
  // not read.
  void AddArguments(const EpilogueOperands& operands, DevicePtr y,
                    KernelArguments* arguments) const;
  // slope_axis, sum, function.
  void AddHostArguments(KernelArguments* arguments) const;

 private:
  ElementFunction activation_;
  Sum sum_ = Sum::kNone;
  double coefficient_ = 0;
  Epilogue::Bias slopes_;
};

}  // namespace caffe
