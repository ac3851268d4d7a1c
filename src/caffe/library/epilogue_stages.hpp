#pragma once

#include <string>
#include <vector>

#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

class ProgramBuilder;

// Activations by number, as in kernels/epilogue/activate.h. None, ReLU without a slope and Clip are
// bounds; kSlopes is PReLU.
enum class ActivationFormula { kBounds, kLeaky, kReLU6, kELU, kSigmoid, kTanH, kSwish, kSlopes };

// The stages of an epilogue for kernels. Device kernels have them in their text: EPILOGUE(v, row,
// column, at). Host kernels apply bounds inline; other stages are arguments.
class EpilogueStages {
 public:
  // The position of the residual sum among the stages.
  enum class Sum { kNone, kBefore, kAfter };

  explicit EpilogueStages(const Epilogue& epilogue);
  // Bounds and no sum.
  bool bounds() const { return formula_ == ActivationFormula::kBounds && sum_ == Sum::kNone; }
  // Neither stages nor finite bounds.
  bool none() const;
  ActivationFormula formula() const { return formula_; }
  Sum sum() const { return sum_; }
  // 0: one slope for all, 1: one for each row, 2: one for each column.
  int slope_axis() const { return static_cast<int>(slopes_); }
  double a() const { return a_; }
  double b() const { return b_; }

  // Defines EPILOGUE for the bodies that follow. `residual` is the text of its element.
  void Define(ProgramBuilder* builder,
              const std::string& residual = "LOAD(MOtype, residual, at)") const;
  // Adds activation_a, activation_b, coefficient, residual, slopes. `y` replaces arrays that are
  // not read.
  void AddArguments(const EpilogueOperands& operands, DevicePtr y,
                    KernelArguments* arguments) const;
  // slope_axis, sum, formula.
  void AddHostArguments(KernelArguments* arguments) const;

 private:
  ActivationFormula formula_ = ActivationFormula::kBounds;
  double a_, b_;
  Sum sum_ = Sum::kNone;
  double coefficient_ = 0;
  Epilogue::Bias slopes_;
};

}  // namespace caffe
