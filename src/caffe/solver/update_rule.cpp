#include "caffe/solver/update_rule.hpp"

#include <map>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/near_name.hpp"

namespace caffe {
namespace {

void NoMomentum(const SolverParameter& parameter) {
  CAFFE_CHECK(parameter.momentum() == 0, "momentum cannot be used with ", parameter.type(),
              "; it is ", parameter.momentum());
}

const std::map<std::string, UpdateRule>& Rules() {
  static const std::map<std::string, UpdateRule> rules = [] {
    std::map<std::string, UpdateRule> all;
    const auto add = [&all](UpdateRule rule) { all[rule.name] = std::move(rule); };
    using Numbers = std::vector<double>;
    add({"SGD", "sgd", 1, [](const SolverParameter& p) { return Numbers{p.momentum()}; }});
    add({"Nesterov", "nesterov", 1,
         [](const SolverParameter& p) { return Numbers{p.momentum()}; }});
    add({"AdaGrad", "adagrad", 1, [](const SolverParameter& p) { return Numbers{p.delta()}; },
         NoMomentum});
    add({"RMSProp", "rmsprop", 1,
         [](const SolverParameter& p) {
           return Numbers{p.rms_decay(), p.delta()};
         },
         [](const SolverParameter& p) {
           NoMomentum(p);
           CAFFE_CHECK(p.rms_decay() >= 0 && p.rms_decay() < 1,
                       "rms_decay must lie in [0, 1); it is ", p.rms_decay());
         }});
    add({"AdaDelta", "adadelta", 2, [](const SolverParameter& p) {
           return Numbers{p.momentum(), p.delta()};
         }});
    add({"Adam", "adam", 2,
         [](const SolverParameter& p) {
           return Numbers{p.momentum(), p.momentum2(), p.delta()};
         },
         nullptr, true});
    return all;
  }();
  return rules;
}

}  // namespace

const UpdateRule& FindUpdateRule(const std::string& name) {
  const auto found = Rules().find(name);
  if (found != Rules().end()) return found->second;
  std::string known;
  for (const std::string& other : UpdateRuleNames()) known += (known.empty() ? "" : ", ") + other;
  CAFFE_THROW("Unknown solver type: ", name, DidYouMean(name, UpdateRuleNames()),
              " (known solver types: ", known, ")");
}

std::vector<std::string> UpdateRuleNames() {
  std::vector<std::string> names;
  for (const auto& [name, rule] : Rules()) names.push_back(name);
  return names;
}

}  // namespace caffe
