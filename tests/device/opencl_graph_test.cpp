// How recorded commands become the work of queues. Commands are numbers here: nothing is enqueued.
#include "caffe/device/opencl/opencl_graph.hpp"

#include <gtest/gtest.h>

#include <random>

#include "caffe/device/stream.hpp"

namespace caffe {
namespace {

using opencl::Command;
using opencl::Record;

const Stream* StreamNumber(uintptr_t number) { return reinterpret_cast<const Stream*>(number); }

void Add(Record* record, uintptr_t stream = 1) {
  record->Add(StreamNumber(stream), opencl::CopyWork{}, "test", nullptr);
}

std::vector<std::vector<int>> After(const std::vector<Command>& commands) {
  std::vector<std::vector<int>> after;
  for (const Command& one : commands) after.push_back(one.after);
  return after;
}

using Lists = std::vector<std::vector<int>>;

TEST(OpenClRecordTest, CommandsOfAStreamFollowOneAnother) {
  Record record;
  for (int i = 0; i < 3; ++i) Add(&record);
  EXPECT_EQ(After(record.Take()), (Lists{{}, {0}, {1}}));
}

TEST(OpenClRecordTest, StreamsWaitForEachOther) {
  Record record;
  Add(&record, 1);
  record.WaitFor(StreamNumber(2), record.Ends(StreamNumber(1)));
  Add(&record, 2);
  Add(&record, 1);
  record.WaitFor(StreamNumber(1), record.Ends(StreamNumber(2)));
  Add(&record, 1);
  EXPECT_EQ(After(record.Take()), (Lists{{}, {0}, {0}, {1, 2}}));
}

TEST(OpenClRecordTest, PiecesFollowThoseThatTheyName) {
  Record record;
  record.OrderAfter({});
  Add(&record);
  Add(&record);  // of the same piece
  record.OrderAfter({});
  Add(&record);
  const int both[] = {0, 1};
  record.OrderAfter(both);
  Add(&record);
  EXPECT_EQ(After(record.Take()), (Lists{{}, {0}, {}, {1, 2}}));
}

// The next command belongs to a piece that has none, too.
TEST(OpenClRecordTest, PiecesWithoutCommands) {
  Record record;
  record.OrderAfter({});
  Add(&record);
  record.OrderAfter({});
  Add(&record);
  const int first[] = {0}, second[] = {1}, third[] = {2};
  record.OrderAfter(first);
  record.OrderAfter(second);
  Add(&record);
  record.OrderAfter(third);
  Add(&record);
  EXPECT_EQ(After(record.Take()), (Lists{{}, {}, {0, 1}, {2}}));
}

std::vector<Command> Commands(const Lists& after) {
  std::vector<Command> commands;
  for (const std::vector<int>& one : after) {
    commands.push_back({opencl::CopyWork{}, "test", nullptr, one});
  }
  return commands;
}

std::vector<int> Queues(const QueuePlan& plan) {
  std::vector<int> queues;
  for (const QueuePlan::Place& place : plan.places()) queues.push_back(place.queue);
  return queues;
}

TEST(QueuePlanTest, AChainHasOneQueue) {
  const QueuePlan plan(Commands({{}, {0}, {1}, {0, 2}}), 8);
  EXPECT_EQ(Queues(plan), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(plan.tails(), std::vector<int>{3});
  for (const QueuePlan::Place& place : plan.places()) {
    EXPECT_TRUE(place.waits.empty());
    EXPECT_FALSE(place.signals);
  }
}

// Two modules of two branches use two queues.
TEST(QueuePlanTest, BranchesUseAQueueThatHasEnded) {
  const QueuePlan plan(Commands({{}, {0}, {0}, {1, 2}, {3}, {3}, {4, 5}}), 8);
  EXPECT_EQ(plan.tails().size(), 2u);
  EXPECT_NE(plan.places()[1].queue, plan.places()[2].queue);
  EXPECT_NE(plan.places()[4].queue, plan.places()[5].queue);
}

TEST(QueuePlanTest, MoreBranchesThanQueuesShareThem) {
  const QueuePlan plan(Commands({{}, {}, {}, {}, {}}), 2);
  EXPECT_EQ(plan.tails().size(), 2u);
}

// Whatever runs first: a command begins after all that it must follow. A queue runs in order, a
// wait is for a command of another queue, and what is waited for signals.
TEST(QueuePlanTest, RandomOrdersAreKept) {
  std::minstd_rand random(3);
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + static_cast<int>(random() % 40);
    Lists after(count);
    for (int i = 1; i < count; ++i) {
      for (int j = 0; j < i; ++j) {
        if (random() % static_cast<unsigned>(1 + i) < 2) after[i].push_back(j);
      }
    }
    const QueuePlan plan(Commands(after), 1 + static_cast<int>(random() % 5));
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
    std::vector<int> last(plan.tails().size(), -1);
    for (int i = 0; i < count; ++i) {
      const QueuePlan::Place& place = plan.places()[i];
      std::vector<int> direct = place.waits;
      for (const int wait : place.waits) {
        EXPECT_LT(wait, i);
        EXPECT_NE(plan.places()[wait].queue, place.queue);
        EXPECT_TRUE(plan.places()[wait].signals);
      }
      if (last[place.queue] >= 0) direct.push_back(last[place.queue]);
      last[place.queue] = i;
      for (const int one : direct) {
        before[i][one] = true;
        for (int j = 0; j < one; ++j) before[i][j] = before[i][j] || before[one][j];
      }
      for (const int one : after[i]) EXPECT_TRUE(before[i][one]) << one << " before " << i;
    }
    EXPECT_EQ(last, plan.tails());
    for (size_t q = 1; q < last.size(); ++q) EXPECT_TRUE(plan.places()[last[q]].signals);
  }
}

}  // namespace
}  // namespace caffe
