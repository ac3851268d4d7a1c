#pragma once

#include <functional>
#include <string>
#include <vector>

#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

class ProgramBuilder;

// The text of functions, one after the other, of v. `operand` gives the texts of u, a, b and c of a
// function, by its index.
std::string StagesText(const std::vector<ElementFunction::Kind>& functions,
                       const std::function<std::string(size_t, char)>& operand);
// Adds the files that the text needs.
void AddStageFiles(const std::vector<ElementFunction::Kind>& functions, ProgramBuilder* builder);
// The same for host kernels (kernels/epilogue/stages.h): 5 bits for each function, at most 12.
uint64_t PackedKinds(const std::vector<ElementFunction::Kind>& functions);

// The stages of an epilogue for kernels. Device kernels have them in their text: EPILOGUE(v, row,
// column, at). Host kernels apply bounds inline; other stages are arguments.
class EpilogueStages {
 public:
  explicit EpilogueStages(const Epilogue& epilogue);
  // Bounds and no sum.
  bool bounds() const { return clips() && !sums_; }
  // The stages clip: Clip, ReLU without a slope, and no activation at all are bounds.
  bool clips() const { return activation_.kind == ElementFunction::Kind::kClip; }
  // Neither stages nor finite bounds.
  bool none() const;
  // The first stage is the sum with the residual.
  bool sums_first() const { return stages_[0] == ElementFunction::Kind::kSum; }
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
  // slope_axis, the number of stages, their functions: kernels/epilogue/stages.h.
  void AddHostArguments(KernelArguments* arguments) const;

 private:
  ElementFunction activation_;
  // kSum and the activation in order. An activation that changes nothing is there only alone.
  std::vector<ElementFunction::Kind> stages_;
  bool sums_ = false;
  double coefficient_ = 0;
  Epilogue::Bias slopes_;
};

}  // namespace caffe
