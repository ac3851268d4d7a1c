#pragma once

#include <memory>
#include <span>
#include <vector>

#include "passes.hpp"

namespace caffe {

// An iteration of several replicas: their actions are one list, which is run, recorded and replayed
// as that of one net is.
class JointIteration final : private ActionRunner {
 public:
  JointIteration();
  ~JointIteration() override;
  // Passes::Iterate of each. If one of them needs a forward and a backward of their own, all do.
  void Iterate(std::span<Passes* const> replicas, IterationEnd end);

 private:
  // The list of the schedules from which it was made.
  struct List {
    std::vector<std::shared_ptr<const Schedule>> schedules;
    std::vector<Action> actions;
    std::unique_ptr<Replay> replay;
  };
  // Begins the iteration of each of `rest`, runs the list, and ends the iterations.
  void RunAll(std::span<Passes* const> rest, IterationEnd end);
  void RunList(IterationEnd end);

  void Before(const Action& action) override;
  void After(const Action& action) override;
  void Run(const Action& action) override;
  void Note(const Action& action) override;
  void AddToEpoch(std::span<const Action> actions, GraphEpoch* epoch) override;
  void BeforeRecord() override;
  void AfterUndo() override;

  List lists_[3];                    // of each IterationEnd
  std::vector<ListMember> members_;  // of the iteration that runs
};

}  // namespace caffe
