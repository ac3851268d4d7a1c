#include "caffe/net/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "caffe/core/error.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Offsets = std::vector<int64_t>;
constexpr int64_t kOwn = MemoryPlan::kOwn;

// Step i reads buffer i - 1 and writes buffer i; step 0 reads nothing.
std::vector<MemoryPlan::Step> Chain(int steps) {
  std::vector<MemoryPlan::Step> chain;
  for (int i = 0; i < steps; ++i) {
    chain.push_back({i == 0 ? std::vector<int>{} : std::vector<int>{i - 1}, {i}});
  }
  return chain;
}

// The most bytes that two neighbours in a chain need together.
int64_t LargestPair(const std::vector<int64_t>& bytes) {
  int64_t most = bytes[0];
  for (size_t i = 1; i < bytes.size(); ++i) most = std::max(most, bytes[i - 1] + bytes[i]);
  return most;
}

TEST(MemoryPlanTest, NothingNeedsNothing) {
  EXPECT_EQ(MemoryPlan::Make({}, {}, {}).bytes, 0);
  const MemoryPlan unused = MemoryPlan::Make({}, {100, 100}, {});
  EXPECT_EQ(unused.bytes, 0);
  EXPECT_EQ(unused.offsets, Offsets({kOwn, kOwn}));
}

TEST(MemoryPlanTest, AChainAlternatesBetweenTwoBuffers) {
  const MemoryPlan plan = MemoryPlan::Make(Chain(5), {256, 256, 256, 256, 256}, {});
  EXPECT_EQ(plan.bytes, 512);
  EXPECT_EQ(plan.offsets, Offsets({0, 256, 0, 256, 0}));
}

TEST(MemoryPlanTest, OffsetsAndSizeAreAligned) {
  const MemoryPlan plan = MemoryPlan::Make(Chain(3), {1, 257, 100}, {}, 256);
  for (const int64_t offset : plan.offsets) EXPECT_EQ(offset % 256, 0);
  EXPECT_EQ(plan.bytes, 768);
  EXPECT_EQ(MemoryPlan::Make(Chain(2), {10, 20}, {}, 8).bytes, 16 + 24);
}

// data -> a -> b -> sum(a, b): a lives until the sum.
TEST(MemoryPlanTest, AShortcutIsAliveUntilItIsRead) {
  const std::vector<MemoryPlan::Step> steps{{{}, {0}}, {{0}, {1}}, {{1}, {2}}, {{1, 2}, {3}}};
  const MemoryPlan plan = MemoryPlan::Make(steps, {64, 64, 64, 64}, {}, 64);
  EXPECT_EQ(plan.bytes, 3 * 64);
  EXPECT_NE(plan.offsets[1], plan.offsets[2]);
  EXPECT_NE(plan.offsets[1], plan.offsets[3]);
  EXPECT_NE(plan.offsets[2], plan.offsets[3]);
}

TEST(MemoryPlanTest, InPlaceIsOneBuffer) {
  const std::vector<MemoryPlan::Step> steps{{{}, {0}}, {{0}, {0}}, {{0}, {1}}, {{1}, {2}}};
  const MemoryPlan plan = MemoryPlan::Make(steps, {128, 64, 128}, {}, 64);
  EXPECT_EQ(plan.bytes, 192);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

// A step that may write over its input, between steps with small buffers.
TEST(MemoryPlanTest, AStepWritesOverItsInput) {
  std::vector<MemoryPlan::Step> steps{{{}, {0}}, {{0}, {1}, 1, 0}, {{1}, {2}, 2, 1}, {{2}, {3}}};
  const std::vector<int64_t> bytes{64, 64, 64, 8};
  const MemoryPlan plan = MemoryPlan::Make(steps, bytes, {}, 8);
  EXPECT_EQ(plan.bytes, 72);
  EXPECT_EQ(plan.offsets[1], plan.offsets[0]);
  EXPECT_EQ(plan.offsets[2], plan.offsets[0]);
  EXPECT_NE(plan.offsets[3], plan.offsets[0]);
  // Kept buffers, another size, a later reader.
  EXPECT_EQ(MemoryPlan::Make(steps, bytes, {1}, 8).bytes, 72);
  EXPECT_EQ(MemoryPlan::Make(steps, {64, 64, 56, 8}, {}, 8).bytes, 64 + 56);
  steps[3].reads.push_back(0);
  const MemoryPlan longer = MemoryPlan::Make(steps, bytes, {}, 8);
  EXPECT_EQ(longer.bytes, 64 + 64 + 8);
  EXPECT_NE(longer.offsets[1], longer.offsets[0]);
  EXPECT_EQ(longer.offsets[2], longer.offsets[1]);
}

// A step writes two tops, of which one is never read: both are there while it runs.
TEST(MemoryPlanTest, ATopThatNobodyReadsLivesForItsStep) {
  const std::vector<MemoryPlan::Step> steps{{{}, {0, 1}}, {{0}, {2}}};
  const MemoryPlan plan = MemoryPlan::Make(steps, {64, 64, 64}, {}, 64);
  EXPECT_EQ(plan.bytes, 128);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.offsets[2], plan.offsets[1]);
}

TEST(MemoryPlanTest, KeptBuffersLieOutside) {
  const MemoryPlan plan = MemoryPlan::Make(Chain(4), {64, 64, 64, 64}, {1, 3}, 64);
  EXPECT_EQ(plan.offsets, Offsets({0, kOwn, 0, kOwn}));
  EXPECT_EQ(plan.bytes, 64);
}

TEST(MemoryPlanTest, ContentFromOutsideStaysOutside) {
  // No step writes 0; 1 is read as an earlier forward left it.
  const std::vector<MemoryPlan::Step> steps{{{0, 1}, {2}}, {{2}, {1}}};
  EXPECT_EQ(MemoryPlan::Make(steps, {64, 64, 64}, {}, 64).offsets, Offsets({kOwn, kOwn, 0}));
}

TEST(MemoryPlanTest, EmptyBuffersTakeNoRoom) {
  const MemoryPlan plan = MemoryPlan::Make(Chain(3), {0, 64, 0}, {}, 64);
  EXPECT_EQ(plan.bytes, 64);
  EXPECT_GE(*std::min_element(plan.offsets.begin(), plan.offsets.end()), 0);
}

// By size alone the second buffer would lie above all others: 23.
TEST(MemoryPlanTest, ASmallBufferBetweenLargeOnesFits) {
  EXPECT_EQ(MemoryPlan::Make(Chain(4), {10, 5, 8, 10}, {}, 1).bytes, 18);
}

TEST(MemoryPlanTest, ChainsAreOptimal) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> bytes(1 + random() % 30);
    for (int64_t& size : bytes) size = 1 + random() % 1000;
    const MemoryPlan plan = MemoryPlan::Make(Chain(static_cast<int>(bytes.size())), bytes, {}, 1);
    EXPECT_EQ(plan.bytes, LargestPair(bytes)) << "round " << round;
  }
}

// Runs the steps on an array that stands for the arena: every byte says which buffer wrote it last.
class PlanChecker {
 public:
  PlanChecker(const MemoryPlan& plan, const std::vector<int64_t>& bytes)
      : plan_(plan), bytes_(bytes), owner_(plan.bytes, -1), written_(bytes.size(), false) {}

  void Run(const std::vector<MemoryPlan::Step>& steps) {
    for (const MemoryPlan::Step& step : steps) {
      for (int b : step.reads) Expect(b);
      for (int b : step.writes) {
        if (plan_.offsets[b] == kOwn) continue;
        ASSERT_LE(plan_.offsets[b] + bytes_[b], plan_.bytes);
        std::fill_n(owner_.begin() + plan_.offsets[b], bytes_[b], b);
        written_[b] = true;
      }
      // Kernels read while they write.
      for (int b : step.reads) Expect(b);
      for (int b : step.writes) Expect(b);
    }
  }

 private:
  void Expect(int b) {
    if (plan_.offsets[b] == kOwn) return;
    ASSERT_TRUE(written_[b]) << "buffer " << b << " is read before it is written";
    const auto begin = owner_.begin() + plan_.offsets[b];
    ASSERT_TRUE(std::all_of(begin, begin + bytes_[b], [b](int owner) { return owner == b; }))
        << "buffer " << b << " was overwritten";
  }

  const MemoryPlan& plan_;
  const std::vector<int64_t>& bytes_;
  std::vector<int> owner_;
  std::vector<bool> written_;
};

void ExpectSound(const MemoryPlan& plan, const std::vector<MemoryPlan::Step>& steps,
                 const std::vector<int64_t>& bytes, const std::set<int>& kept, int64_t alignment) {
  ASSERT_EQ(plan.offsets.size(), bytes.size());
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (plan.offsets[b] == kOwn) continue;
    EXPECT_EQ(plan.offsets[b] % alignment, 0);
    EXPECT_EQ(kept.count(static_cast<int>(b)), 0u);
  }
  PlanChecker(plan, bytes).Run(steps);
  EXPECT_EQ(MemoryPlan::Make(steps, bytes, kept, alignment).offsets, plan.offsets);
}

TEST(MemoryPlanTest, NothingIsOverwrittenInRandomPlans) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> bytes(1 + random() % 30);
    for (int64_t& size : bytes) size = random() % 500;
    std::vector<MemoryPlan::Step> steps(1 + random() % 40);
    for (MemoryPlan::Step& step : steps) {
      for (unsigned i = random() % 4; i > 0; --i) step.reads.push_back(random() % bytes.size());
      for (unsigned i = random() % 3; i > 0; --i) step.writes.push_back(random() % bytes.size());
    }
    std::set<int> kept;
    if (random() % 2) kept.insert(static_cast<int>(random() % bytes.size()));
    const int64_t alignment = 1 << (random() % 5);
    ExpectSound(MemoryPlan::Make(steps, bytes, kept, alignment), steps, bytes, kept, alignment);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Step i writes buffer i, which some of the next steps read, as in nets with shortcuts and
// branches.
TEST(MemoryPlanTest, NothingIsOverwrittenInNetsWithShortcuts) {
  std::mt19937 random(3);
  int64_t sum_of_buffers = 0, sum_of_arenas = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> bytes(2 + random() % 12);
    for (int64_t& size : bytes) size = 1 + random() % 20;
    std::vector<MemoryPlan::Step> steps = Chain(static_cast<int>(bytes.size()));
    for (size_t i = 0; i < bytes.size(); ++i) {
      const size_t reader = i + 1 + random() % 4;
      if (reader < steps.size()) steps[reader].reads.push_back(static_cast<int>(i));
      sum_of_buffers += bytes[i];
    }
    const MemoryPlan plan = MemoryPlan::Make(steps, bytes, {}, 1);
    ExpectSound(plan, steps, bytes, {}, 1);
    ASSERT_FALSE(HasFailure()) << "round " << round;
    sum_of_arenas += plan.bytes;
  }
  EXPECT_LT(sum_of_arenas, sum_of_buffers * 6 / 10);
}

TEST(MemoryPlanTest, ErrorsNameTheValues) {
  EXPECT_TRUE(Holds(ErrorOf([] {
                      MemoryPlan::Make({{{3}, {}}}, {64}, {});
                    }),
                    "step 0 uses buffer 3, but there are 1"));
  EXPECT_TRUE(
      Holds(ErrorOf([] { MemoryPlan::Make({}, {-8}, {}); }), "buffer 0 has a negative size of -8"));
  EXPECT_TRUE(Holds(ErrorOf([] { MemoryPlan::Make({}, {}, {}, 0); }), "an alignment of 0"));
}

}  // namespace
}  // namespace caffe
