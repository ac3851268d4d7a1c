#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "caffe/net/pass_observer.hpp"
#include "net/net_support.hpp"

namespace caffe {

using Numbers = std::vector<double>;

// An observer of every layer: the layers run one by one.
class Looks final : public PassObserver {};

inline double Distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

inline void TrainingPass(Net* net) {
  net->Forward();
  net->ClearParamDiffs();
  net->Backward();
}

// All gradients of parameters, the statistics and the loss, of a pass.
inline std::vector<Numbers> TrainingResults(Net* net) {
  TrainingPass(net);
  std::vector<Numbers> results;
  for (size_t i = 0; i < net->learnable_params().size(); ++i) {
    const BlobBase& blob = *net->learnable_params()[i];
    results.push_back(net->params_lr()[i] == 0 ? blob.DataAsDouble() : blob.DiffAsDouble());
  }
  results.push_back(Values(*net, "loss"));
  return results;
}

// Compares the gradients of a pass, in random directions, with differences of the loss.
inline void ExpectGradientsAreDerivatives(Net* net, double step, double tolerance) {
  TrainingPass(net);
  std::vector<Numbers> gradients;
  for (const BlobBase* blob : net->learnable_params()) gradients.push_back(blob->DiffAsDouble());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (net->params_lr()[i] == 0) continue;  // statistics
    BlobBase& blob = *net->learnable_params()[i];
    const Numbers values = blob.DataAsDouble(), direction = TestNumbers(blob.count(), 20 + i);
    double expected = 0, losses[2];
    for (size_t j = 0; j < values.size(); ++j) expected += gradients[i][j] * direction[j];
    for (const int side : {0, 1}) {
      Numbers moved = values;
      for (size_t j = 0; j < values.size(); ++j) {
        moved[j] += (side == 0 ? -step : step) * direction[j];
      }
      blob.SetData(moved);
      net->Forward();
      losses[side] = Values(*net, "loss")[0];
    }
    blob.SetData(values);
    EXPECT_NEAR((losses[1] - losses[0]) / (2 * step), expected,
                tolerance * std::max(1.0, std::abs(expected)))
        << "parameter " << i;
  }
}

}  // namespace caffe
