#include "joint_iteration.hpp"

#include <algorithm>

namespace caffe {

JointIteration::JointIteration() = default;
JointIteration::~JointIteration() = default;

void JointIteration::Iterate(std::span<Passes* const> replicas, IterationEnd end) {
  bool in_parts = false;
  for (Passes* one : replicas) in_parts = one->BeginIteration() || in_parts;
  if (!in_parts) {
    members_.clear();
    return RunAll(replicas, end);
  }
  for (Passes* one : replicas) one->ForwardBackward();
  if (end == IterationEnd::kBackward) return;
  for (size_t i = 0; i < replicas[0]->tail().reductions.size(); ++i) {
    for (Passes* one : replicas) one->tail().reductions[i].enqueue();
  }
  for (Passes* one : replicas) one->ShowReduced();
  if (end == IterationEnd::kReductions) return;
  for (Passes* one : replicas) one->RunTail();
}

void JointIteration::RunAll(std::span<Passes* const> rest, IterationEnd end) {
  if (rest.empty()) return RunList(end);
  const RunAsMember run = [&](const ListMember& member) {
    members_.push_back(member);
    RunAll(rest.subspan(1), end);
  };
  rest[0]->IterateInOneList(end, static_cast<int>(members_.size()), &run);
}

void JointIteration::RunList(IterationEnd end) {
  List& list = lists_[static_cast<int>(end)];
  const auto same = [](const auto& schedule, const ListMember& member) {
    return schedule == member.schedule;
  };
  if (!std::equal(list.schedules.begin(), list.schedules.end(), members_.begin(), members_.end(),
                  same)) {
    std::vector<const Schedule*> schedules;
    list.replay.reset();
    list.schedules.clear();
    for (const ListMember& member : members_) {
      list.schedules.push_back(member.schedule);
      schedules.push_back(member.schedule.get());
    }
    list.actions = TakeTurns(schedules);
    list.replay = std::make_unique<Replay>(list.actions);
  }
  if (std::all_of(members_.begin(), members_.end(),
                  [](const ListMember& member) { return member.replays; })) {
    list.replay->Run(members_[0].device, this);
  } else {
    list.replay->RunNormally(this);
  }
}

void JointIteration::Before(const Action& action) {
  members_[action.replica].runner->Before(action);
}
void JointIteration::After(const Action& action) { members_[action.replica].runner->After(action); }
void JointIteration::Run(const Action& action) { members_[action.replica].runner->Run(action); }
void JointIteration::Note(const Action& action) { members_[action.replica].runner->Note(action); }

void JointIteration::AddToEpoch(std::span<const Action> actions, GraphEpoch* epoch) {
  for (const ListMember& member : members_) member.runner->AddToEpoch(actions, epoch);
}

void JointIteration::BeforeRecord() {
  for (const ListMember& member : members_) member.runner->BeforeRecord();
}

void JointIteration::AfterUndo() {
  for (const ListMember& member : members_) member.runner->AfterUndo();
}

}  // namespace caffe
