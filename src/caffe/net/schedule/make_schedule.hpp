#pragma once

#include <set>
#include <vector>

#include "action.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/plan/pass_arrays.hpp"

namespace caffe {

// The schedules of one plan, pure functions of it. Every pass is a range of them: whole or a part,
// of steps that cover several layers or layer by layer.
class ScheduleMaker {
 public:
  // `replays`: for each node, whether its layer enqueues the same work in each pass. `arrays`: of
  // the plan's arena; null if every blob has memory of its own.
  ScheduleMaker(const Plan& plan, std::vector<bool> replays, const PassArrays* arrays);

  // Runs the nodes `added`, in their order, then the steps whose nodes lie in [first, last].
  Schedule Forward(const std::vector<int>& added, int first, int last) const;
  // Runs those of the nodes `run` backward that `needed` names, from the diffs of the losses. A
  // pass in an arena has the order of PassArrays::backward.
  Schedule Backward(const std::vector<int>& run, const std::vector<bool>& needed) const;
  // A whole forward and backward, and a tail of so many entries. `writers`: of each reduction, the
  // nodes whose backward passes write what it sums. It follows the last of them, and the reduction
  // before it. All reductions end before the tail, and before work that is not replayed.
  Schedule Training(const std::vector<int>& run, const std::vector<bool>& needed,
                    const std::vector<std::set<int>>& writers, size_t tail) const;

 private:
  Action NodeAction(Action::Kind kind, int index, int node) const;
  void AddBackward(const std::vector<int>& run, const std::vector<bool>& needed,
                   Schedule* schedule) const;
  // Whether an action is the backward pass of one of the nodes.
  bool Writes(const Action& action, const std::set<int>& nodes) const;
  void AddReductions(const std::vector<std::set<int>>& writers, Schedule* schedule) const;

  const Plan& plan_;
  const std::vector<bool> replays_;
  const PassArrays* arrays_;
};

}  // namespace caffe
