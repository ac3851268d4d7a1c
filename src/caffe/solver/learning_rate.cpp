#include "caffe/solver/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/near_name.hpp"

namespace caffe {

RatePolicy ReadRatePolicy(const SolverParameter& parameter) {
  static constexpr std::pair<const char*, RatePolicy> kPolicies[] = {
      {"fixed", RatePolicy::kFixed},
      {"step", RatePolicy::kStep},
      {"exp", RatePolicy::kExp},
      {"inv", RatePolicy::kInv},
      {"multistep", RatePolicy::kMultistep},
      {"poly", RatePolicy::kPoly},
      {"sigmoid", RatePolicy::kSigmoid}};
  constexpr char kKnown[] = " (known: fixed, step, exp, inv, multistep, poly, sigmoid)";
  const std::string& name = parameter.lr_policy();
  CAFFE_CHECK(!name.empty(), "lr_policy is not set", kKnown);
  const auto* const found = std::find_if(std::begin(kPolicies), std::end(kPolicies),
                                         [&](const auto& one) { return name == one.first; });
  if (found == std::end(kPolicies)) {
    std::vector<std::string> names;
    for (const auto& one : kPolicies) names.emplace_back(one.first);
    CAFFE_THROW("Unknown learning rate policy: ", name, DidYouMean(name, names), kKnown);
  }
  const RatePolicy policy = found->second;
  CAFFE_CHECK(policy != RatePolicy::kStep || parameter.stepsize() > 0,
              "the learning rate policy step needs a positive stepsize");
  CAFFE_CHECK(policy != RatePolicy::kPoly || parameter.max_iter() > 0,
              "the learning rate policy poly needs a positive max_iter");
  return policy;
}

void CheckBaseRate(const SolverParameter& parameter) {
  const float rate = parameter.base_lr();
  CAFFE_CHECK(std::isfinite(rate) && rate >= 0, "base_lr is ", rate,
              "; a learning rate is a finite number of 0 or more");
  if (rate > 0) return;
  log::Warning(Concat(parameter.has_base_lr() ? "base_lr is 0" : "base_lr is not set, so it is 0",
                      ": training will not change any parameter"));
}

int LearningRateStep(const SolverParameter& parameter, RatePolicy policy, int64_t iteration) {
  if (policy == RatePolicy::kStep && parameter.stepsize() > 0) {
    return static_cast<int>(iteration / parameter.stepsize());
  }
  int step = 0;
  if (policy == RatePolicy::kMultistep) {
    while (step < parameter.stepvalue_size() && iteration >= parameter.stepvalue(step)) ++step;
  }
  return step;
}

double LearningRate(const SolverParameter& parameter, RatePolicy policy, int64_t iteration) {
  const double base = parameter.base_lr(), gamma = parameter.gamma(), power = parameter.power();
  const double i = static_cast<double>(iteration);
  switch (policy) {
    case RatePolicy::kFixed: return base;
    case RatePolicy::kExp: return base * std::pow(gamma, i);
    case RatePolicy::kInv: return base * std::pow(1 + gamma * i, -power);
    case RatePolicy::kPoly: return base * std::pow(1 - i / parameter.max_iter(), power);
    case RatePolicy::kSigmoid: return base / (1 + std::exp(-gamma * (i - parameter.stepsize())));
    case RatePolicy::kStep:
    case RatePolicy::kMultistep: break;
  }
  return base * std::pow(gamma, LearningRateStep(parameter, policy, iteration));
}

double LearningRate(const SolverParameter& parameter, int64_t iteration) {
  return LearningRate(parameter, ReadRatePolicy(parameter), iteration);
}

}  // namespace caffe
