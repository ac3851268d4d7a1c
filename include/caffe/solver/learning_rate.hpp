#pragma once

#include <cstdint>

namespace caffe {

class SolverParameter;

enum class RatePolicy { kFixed, kStep, kExp, kInv, kMultistep, kPoly, kSigmoid };

// lr_policy. Throws for an unknown or missing policy, and for missing parameters of the policy.
RatePolicy ReadRatePolicy(const SolverParameter& parameter);

// Throws for a base_lr that is negative or not finite; warns if it is 0 or missing.
void CheckBaseRate(const SolverParameter& parameter);

// The learning rate of an iteration, before a parameter's lr_mult. With b = base_lr, g = gamma,
// i = iteration, by lr_policy:
//   fixed      b
//   step       b g^floor(i / stepsize)
//   exp        b g^i
//   inv        b (1 + g i)^-power
//   multistep  b g^(number of stepvalues <= i)
//   poly       b (1 - i / max_iter)^power
//   sigmoid    b / (1 + exp(-g (i - stepsize)))
// `policy` is that of the parameter: solvers read it once.
double LearningRate(const SolverParameter& parameter, RatePolicy policy, int64_t iteration);
double LearningRate(const SolverParameter& parameter, int64_t iteration);

// The number of drops of the rate so far under the policies step and multistep; 0 for the others.
int LearningRateStep(const SolverParameter& parameter, RatePolicy policy, int64_t iteration);

}  // namespace caffe
