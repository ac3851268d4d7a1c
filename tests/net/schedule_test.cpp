// Schedules as text: pure functions of a plan, of the arrays of its arena, and of a tail.
#include <gtest/gtest.h>

#include <set>

#include "caffe/net/schedule/make_schedule.hpp"

namespace caffe {
namespace {

const std::vector<std::string> kNames = {"data", "conv", "relu", "ip", "loss"};

// A step of two layers, and steps of one.
Plan FusedPlan() {
  Plan plan;
  plan.steps.resize(4);
  plan.steps[0].nodes = {0};
  plan.steps[1].nodes = {1, 2};
  plan.steps[2].nodes = {3};
  plan.steps[3].nodes = {4};
  return plan;
}

Plan PlanByLayer() {
  Plan plan;
  for (int n = 0; n < 5; ++n) plan.steps.emplace_back().nodes = {n};
  return plan;
}

// The layer "data" does something else in each pass.
const std::vector<bool> kReplays = {false, true, true, true, true};

std::string Text(const Schedule& schedule) { return ToText(schedule.actions, kNames); }

TEST(ScheduleTest, AWholeForwardRunsTheStepsInTheirOrder) {
  const Plan plan = FusedPlan();
  EXPECT_EQ(Text(ScheduleMaker(plan, kReplays, nullptr).Forward({}, 0, 4)),
            "step 0 data, not replayed\n"
            "step 1 conv\n"
            "step 2 ip\n"
            "step 3 loss\n"
            "end of forward\n");
}

TEST(ScheduleTest, AStepAndItsConversionsAreOneToObservers) {
  Plan plan = FusedPlan();
  plan.steps.insert(plan.steps.begin() + 2, Step::Conversion(1, 5, 2));
  plan.steps.insert(plan.steps.begin() + 1, Step::Conversion(1, 0, 5));
  const Schedule schedule = ScheduleMaker(plan, kReplays, nullptr).Forward({}, 0, 4);
  EXPECT_EQ(Text(schedule),
            "step 0 data, not replayed\n"
            "convert 1 conv\n"
            "step 2 conv\n"
            "convert 3 conv\n"
            "step 4 ip\n"
            "step 5 loss\n"
            "end of forward\n");
  std::string seen;
  for (const Action& action : schedule.actions) {
    if (action.node < 0) continue;
    if (action.begins) seen += "(" + kNames[action.node];
    if (action.ends) seen += ")";
  }
  EXPECT_EQ(seen, "(data)(conv)(ip)(loss)");
}

TEST(ScheduleTest, APartOfAForwardIsPrecededByTheNodesFromWhichItReads) {
  const Plan plan = PlanByLayer();
  EXPECT_EQ(Text(ScheduleMaker(plan, kReplays, nullptr).Forward({0, 1}, 3, 3)),
            "step 0 data, not replayed\n"
            "step 1 conv\n"
            "step 3 ip\n"
            "end of forward\n");
}

TEST(ScheduleTest, APartBeginsWithNoStepOfWhichItHasOnlySomeNodes) {
  const Plan plan = FusedPlan();
  EXPECT_EQ(Text(ScheduleMaker(plan, kReplays, nullptr).Forward({}, 2, 3)),
            "step 2 ip\n"
            "end of forward\n");
}

TEST(ScheduleTest, ABackwardRunsTheNodesThatAreNeeded) {
  const Plan plan = PlanByLayer();
  const Schedule schedule = ScheduleMaker(plan, kReplays, nullptr)
                                .Backward({4, 3, 2, 1, 0}, {false, true, true, true, true});
  EXPECT_EQ(Text(schedule),
            "seed\n"
            "backward loss\n"
            "backward ip\n"
            "backward relu\n"
            "backward conv\n"
            "end of backward\n");
  EXPECT_EQ(schedule.backward, (std::vector<int>{4, 3, 2, 1, 0}));
}

TEST(ScheduleTest, AnIterationInAnArenaPlacesArraysAndRunsSegmentsAgain) {
  const Plan plan = FusedPlan();
  PassArrays arrays;
  arrays.training = true;
  arrays.backward = {4, 3, 2};
  RecomputedSegment segment;
  segment.before = 3;
  segment.nodes = {2};
  arrays.segments.push_back(segment);
  const Schedule schedule = ScheduleMaker(plan, kReplays, &arrays)
                                .Training({4, 3, 2, 1, 0}, {false, true, true, true, true}, {}, 2);
  EXPECT_EQ(Text(schedule),
            "step 0 data, not replayed\n"
            "step 1 conv\n"
            "step 2 ip\n"
            "step 3 loss\n"
            "end of forward\n"
            "seed\n"
            "begin of backward\n"
            "backward loss\n"
            "place again 0\n"
            "again relu\n"
            "backward ip\n"
            "backward relu\n"
            "end of backward\n"
            "tail 0\n"
            "tail 1\n");
  // All but the data layer is one graph.
  EXPECT_EQ(RecordableRanges(schedule.actions),
            (std::vector<ActionRange>{{1, schedule.actions.size()}}));
}

// Writers of two reductions: the last layer, and the first one, whose step the node 2 ends.
const std::vector<std::set<int>> kWriters = {{3}, {1}};
const std::vector<int> kRun = {4, 3, 2, 1, 0};
const std::vector<bool> kNeeded = {false, true, true, true, true};

std::string BackwardText(const Schedule& schedule) {
  const std::string text = Text(schedule);
  return text.substr(text.find("seed"));
}

TEST(ScheduleTest, AReductionFollowsTheLastWriterOfItsGradients) {
  const Plan plan = PlanByLayer();
  const ScheduleMaker maker(plan, kReplays, nullptr);
  EXPECT_EQ(BackwardText(maker.Training(kRun, kNeeded, kWriters, 1)),
            "seed\n"
            "backward loss\n"
            "backward ip\n"
            "reduce 0\n"
            "backward relu\n"
            "backward conv\n"
            "reduce 1\n"
            "end of backward\n"
            "join\n"
            "tail 0\n");
  // A parameter of two layers; a reduction never overtakes the one before it.
  EXPECT_EQ(BackwardText(maker.Training(kRun, kNeeded, {{1, 3}, {3}}, 0)),
            "seed\n"
            "backward loss\n"
            "backward ip\n"
            "backward relu\n"
            "backward conv\n"
            "reduce 0\n"
            "reduce 1\n"
            "end of backward\n"
            "join\n");
}

TEST(ScheduleTest, AReductionFollowsTheStepThatTrainsItsLayer) {
  Plan plan = FusedPlan();
  plan.steps[1].request.scale.emplace();
  PassArrays arrays;
  arrays.training = true;
  arrays.backward = {4, 3, 2};
  EXPECT_EQ(
      BackwardText(ScheduleMaker(plan, kReplays, &arrays).Training(kRun, kNeeded, kWriters, 0)),
      "seed\n"
      "begin of backward\n"
      "backward loss\n"
      "backward ip\n"
      "reduce 0\n"
      "backward relu\n"
      "reduce 1\n"
      "end of backward\n"
      "join\n");
}

TEST(ScheduleTest, ReductionsEndBeforeWorkThatIsNotReplayed) {
  const Plan plan = PlanByLayer();
  const ScheduleMaker maker(plan, {true, true, false, true, true}, nullptr);
  EXPECT_EQ(BackwardText(maker.Training(kRun, kNeeded, kWriters, 0)),
            "seed\n"
            "backward loss\n"
            "backward ip\n"
            "reduce 0\n"
            "join\n"
            "backward relu, not replayed\n"
            "backward conv\n"
            "reduce 1\n"
            "end of backward\n"
            "join\n");
}

TEST(ScheduleTest, ReplicasTakeTurnsAndReduceTheSameGradientsAfterEachOther) {
  const Plan plan = PlanByLayer();
  const ScheduleMaker maker(plan, kReplays, nullptr);
  const Schedule one = maker.Training({4, 3}, kNeeded, {{3}}, 1);
  // Its backward pass has one layer more before the reduction.
  const Schedule two = maker.Training({4, 3, 2}, kNeeded, {{2}}, 1);
  const Schedule* both[] = {&one, &two};
  const std::string text = ToText(TakeTurns(both), kNames);
  EXPECT_EQ(text.substr(text.find("seed")),
            "seed\n"
            "seed, replica 1\n"
            "backward loss\n"
            "backward loss, replica 1\n"
            "backward ip\n"
            "backward ip, replica 1\n"
            "backward relu, replica 1\n"
            "reduce 0\n"
            "reduce 0, replica 1\n"
            "end of backward\n"
            "end of backward, replica 1\n"
            "join\n"
            "join, replica 1\n"
            "tail 0\n"
            "tail 0, replica 1\n");
}

// Letters: w: work that can be recorded, n: work that cannot, h: on the host alone.
std::vector<ActionRange> RangesOf(const std::string& letters) {
  std::vector<Action> actions;
  for (const char letter : letters) {
    Action action;
    action.kind = letter == 'h' ? Action::Kind::kEndForward : Action::Kind::kStep;
    action.replays = letter == 'w';
    actions.push_back(action);
  }
  return RecordableRanges(actions);
}

TEST(RecordableRangesTest, FindsTheLongestRangesOfAtLeastTwoActionsThatEnqueueWork) {
  using Ranges = std::vector<ActionRange>;
  EXPECT_EQ(RangesOf(""), Ranges());
  EXPECT_EQ(RangesOf("w"), Ranges());
  EXPECT_EQ(RangesOf("ww"), (Ranges{{0, 2}}));
  EXPECT_EQ(RangesOf("nwwwnwnww"), (Ranges{{1, 4}, {7, 9}}));
  EXPECT_EQ(RangesOf("hwhhwh"), (Ranges{{1, 5}}));
  EXPECT_EQ(RangesOf("hwhnhw"), Ranges());
}

}  // namespace
}  // namespace caffe
