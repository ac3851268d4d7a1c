#pragma once

#include <functional>
#include <string>
#include <vector>

namespace caffe {

class SolverParameter;

// How a step follows from a gradient: one kernel, kernels/solver/<body>.h with <body>_update, that
// takes the number of items and the elements of an item, the parameters, the gradients, `states`
// state arrays, StepState's reals, the multipliers of each block, and then the numbers l2, l1,
// normalize and `constants`.
struct UpdateRule {
  std::string name;  // SolverParameter.type
  std::string body;
  int states = 1;
  // The last numbers of the argument list.
  std::function<std::vector<double>(const SolverParameter&)> constants;
  // Throws if parameters do not fit the rule; may be empty.
  std::function<void(const SolverParameter&)> check;
  // True if StepState's kCorrection is Adam's sqrt(1 - beta2^t) / (1 - beta1^t).
  bool bias_correction = false;
};

// SGD, Nesterov, AdaGrad, RMSProp, AdaDelta, Adam. Throws for other names.
const UpdateRule& FindUpdateRule(const std::string& name);
std::vector<std::string> UpdateRuleNames();

}  // namespace caffe
