#include "caffe/solver/learning_rate.hpp"

#include <cmath>
#include <string>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"

namespace caffe {

void CheckLearningRate(const SolverParameter& parameter) {
  const std::string& policy = parameter.lr_policy();
  const bool known = policy == "fixed" || policy == "step" || policy == "exp" || policy == "inv" ||
                     policy == "multistep" || policy == "poly" || policy == "sigmoid";
  CAFFE_CHECK(known, "Unknown learning rate policy: ", policy,
              " (known: fixed, step, exp, inv, multistep, poly, sigmoid)");
  CAFFE_CHECK(policy != "step" || parameter.stepsize() > 0,
              "the learning rate policy step needs a positive stepsize");
  CAFFE_CHECK(policy != "poly" || parameter.max_iter() > 0,
              "the learning rate policy poly needs a positive max_iter");
}

int LearningRateStep(const SolverParameter& parameter, int64_t iteration) {
  if (parameter.lr_policy() == "step" && parameter.stepsize() > 0) {
    return static_cast<int>(iteration / parameter.stepsize());
  }
  int step = 0;
  if (parameter.lr_policy() == "multistep") {
    while (step < parameter.stepvalue_size() && iteration >= parameter.stepvalue(step)) ++step;
  }
  return step;
}

double LearningRate(const SolverParameter& parameter, int64_t iteration) {
  CheckLearningRate(parameter);
  const std::string& policy = parameter.lr_policy();
  const double base = parameter.base_lr(), gamma = parameter.gamma(), power = parameter.power();
  const double i = static_cast<double>(iteration);
  if (policy == "fixed") return base;
  if (policy == "exp") return base * std::pow(gamma, i);
  if (policy == "inv") return base * std::pow(1 + gamma * i, -power);
  if (policy == "poly") return base * std::pow(1 - i / parameter.max_iter(), power);
  if (policy == "sigmoid") return base / (1 + std::exp(-gamma * (i - parameter.stepsize())));
  return base * std::pow(gamma, LearningRateStep(parameter, iteration));
}

}  // namespace caffe
