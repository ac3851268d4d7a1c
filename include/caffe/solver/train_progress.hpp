#pragma once

#include <chrono>

#include "caffe/core/progress_bar.hpp"
#include "caffe/solver/solver.hpp"

namespace caffe {

// Shows a solver's iterations on standard error, and the batches of its tests.
class TrainProgress final : public Solver::Callback {
 public:
  // From the solver's current iteration to `last`. The bar appears after `delay`, so that scripts
  // that train iteration by iteration do not draw a bar for each.
  TrainProgress(Solver* solver, int64_t last, std::chrono::milliseconds delay = {});
  void OnStart() override;
  bool looks_at_gradients() const override { return false; }
  void OnTest(int test_net, int done, int of) override;

 private:
  bool IsDue() const;

  Solver* solver_;
  std::chrono::steady_clock::time_point due_;
  ProgressBar bar_;
};

}  // namespace caffe
