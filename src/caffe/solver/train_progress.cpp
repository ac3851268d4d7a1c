#include "caffe/solver/train_progress.hpp"

#include <iostream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/net/batch_size.hpp"

namespace caffe {

TrainProgress::TrainProgress(Solver* solver, int64_t last, std::chrono::milliseconds delay)
    : solver_(solver),
      due_(std::chrono::steady_clock::now() + delay),
      bar_(&std::cerr, solver->iter(), last,
           BatchSize(*solver->net()) * solver->param().iter_size()) {}

bool TrainProgress::IsDue() const { return std::chrono::steady_clock::now() >= due_; }

void TrainProgress::OnStart() {
  if (IsDue()) bar_.Show(solver_->iter());
}

void TrainProgress::OnTest(int, int done, int of) {
  if (IsDue()) bar_.Show(solver_->iter(), Concat("testing ", done, "/", of));
}

}  // namespace caffe
