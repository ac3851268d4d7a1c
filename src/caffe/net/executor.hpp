#pragma once

#include <vector>

#include "caffe/net/pass_observer.hpp"
#include "caffe/net/plan.hpp"
#include "gradients.hpp"
#include "net_ranges.hpp"
#include "node_runner.hpp"

namespace caffe {

// Runs the steps of one plan. A net has one executor for whole passes, whose steps may cover several
// layers, and one that runs layer by layer.
class Executor {
 public:
  using Observers = std::vector<PassObserver*>;

  Executor(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Plan plan);
  const Plan& plan() const { return plan_; }

  // Runs the steps whose nodes lie in [first, last], and before them the added nodes from which these
  // read. Shapes and copies of parameters are brought up to date before the first step runs.
  // `per_layer`: observers may change parameters between the layers.
  void Forward(int first, int last, const Observers& observers, bool per_layer);
  // Runs these nodes backward in the order given, those of them that need it.
  void Backward(const std::vector<int>& nodes, const Gradients& gradients,
                const Observers& observers);

 private:
  void Prepare(const Step& step);
  void Run(const Step& step);

  const Wiring& wiring_;
  NodeRunner* runner_;
  NetRanges* ranges_;
  Plan plan_;
};

}  // namespace caffe
