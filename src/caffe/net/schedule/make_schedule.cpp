#include "make_schedule.hpp"

#include <algorithm>
#include <utility>

namespace caffe {
namespace {

using Kind = Action::Kind;

Action OnHost(Kind kind, int index = -1) {
  Action action;
  action.kind = kind;
  action.index = index;
  return action;
}

}  // namespace

ScheduleMaker::ScheduleMaker(const Plan& plan, std::vector<bool> replays, const PassArrays* arrays)
    : plan_(plan), replays_(std::move(replays)), arrays_(arrays) {}

Action ScheduleMaker::NodeAction(Kind kind, int index, int node) const {
  Action action;
  action.kind = kind;
  action.index = index;
  action.node = node;
  action.replays = replays_[node];
  return action;
}

Schedule ScheduleMaker::Forward(const std::vector<int>& added, int first, int last) const {
  Schedule schedule;
  const auto add = [&](int begin, int end) {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const std::vector<int>& nodes = plan_.steps[s].nodes;
      if (nodes.front() < begin || nodes.back() > end) continue;
      const Kind kind = plan_.steps[s].converts() ? Kind::kConvert : Kind::kStep;
      schedule.actions.push_back(NodeAction(kind, static_cast<int>(s), nodes[0]));
      schedule.actions.back().begins = plan_.begins(s);
      schedule.actions.back().ends = plan_.ends(s);
    }
  };
  for (const int node : added) add(node, node);
  add(first, last);
  schedule.actions.push_back(OnHost(Kind::kEndForward));
  return schedule;
}

void ScheduleMaker::AddBackward(const std::vector<int>& run, const std::vector<bool>& needed,
                                Schedule* schedule) const {
  std::vector<Action>& actions = schedule->actions;
  schedule->backward = run;
  actions.push_back({Kind::kSeed, -1, -1, true});
  if (!arrays_) {
    for (const int node : run) {
      if (needed[node]) actions.push_back(NodeAction(Kind::kBackward, node, node));
    }
    actions.push_back(OnHost(Kind::kEndBackward));
    return;
  }
  actions.push_back(OnHost(Kind::kBeginBackward));
  size_t segment = 0;  // in the order of their steps
  for (const int node : arrays_->backward) {
    for (; segment < arrays_->segments.size() && arrays_->segments[segment].before == node;
         ++segment) {
      actions.push_back(OnHost(Kind::kPlaceAgain, static_cast<int>(segment)));
      for (const int again : arrays_->segments[segment].nodes) {
        actions.push_back(NodeAction(Kind::kAgain, again, again));
        actions.back().node = -1;  // observers saw it in the forward
      }
    }
    actions.push_back(NodeAction(Kind::kBackward, node, node));
  }
  actions.push_back(OnHost(Kind::kEndBackward));
}

Schedule ScheduleMaker::Backward(const std::vector<int>& run,
                                 const std::vector<bool>& needed) const {
  Schedule schedule;
  AddBackward(run, needed, &schedule);
  return schedule;
}

// The last node of a step that trains stands for the step.
bool ScheduleMaker::Writes(const Action& action, const std::set<int>& nodes) const {
  if (action.kind != Kind::kBackward) return false;
  if (nodes.count(action.index)) return true;
  const auto step = std::find_if(plan_.steps.begin(), plan_.steps.end(), [&](const Step& one) {
    return one.trains() && one.nodes.back() == action.index;
  });
  return step != plan_.steps.end() && std::any_of(step->nodes.begin(), step->nodes.end(),
                                                  [&](int node) { return nodes.count(node) > 0; });
}

void ScheduleMaker::AddReductions(const std::vector<std::set<int>>& writers,
                                  Schedule* schedule) const {
  if (writers.empty()) return;
  const std::vector<Action> passes = std::move(schedule->actions);
  std::vector<size_t> after;  // of each reduction: it follows this action
  size_t least = 0;
  while (passes[least].kind != Kind::kSeed) ++least;
  for (const std::set<int>& nodes : writers) {
    for (size_t i = least; i < passes.size(); ++i) {
      if (Writes(passes[i], nodes)) least = i;
    }
    after.push_back(least);
  }
  std::vector<Action>& actions = schedule->actions;
  actions.clear();
  size_t next = 0;
  bool open = false;  // reductions may still run
  const auto join = [&] {
    if (open) actions.push_back({Kind::kJoin, -1, -1, true});
    open = false;
  };
  for (size_t i = 0; i < passes.size(); ++i) {
    if (!passes[i].on_host() && !passes[i].replays) join();
    actions.push_back(passes[i]);
    for (; next < after.size() && after[next] == i; ++next) {
      actions.push_back({Kind::kReduce, static_cast<int>(next), -1, true});
      open = true;
    }
  }
  join();
}

Schedule ScheduleMaker::Training(const std::vector<int>& run, const std::vector<bool>& needed,
                                 const std::vector<std::set<int>>& writers, size_t tail) const {
  Schedule schedule = Forward({}, 0, static_cast<int>(replays_.size()) - 1);
  AddBackward(run, needed, &schedule);
  AddReductions(writers, &schedule);
  for (size_t i = 0; i < tail; ++i) {
    schedule.actions.push_back({Kind::kTail, static_cast<int>(i), -1, true});
  }
  return schedule;
}

}  // namespace caffe
