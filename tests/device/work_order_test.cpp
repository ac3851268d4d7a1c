// The order of pieces of work by the memory that they use.
#include "caffe/device/work_order.hpp"

#include <gtest/gtest.h>

#include <random>

namespace caffe {
namespace {

using Pieces = std::vector<int>;
const int kBuffers[2] = {};

MemoryUse Reads(int64_t begin, int64_t end, int buffer = 0) {
  return {&kBuffers[buffer], begin, end, false};
}
MemoryUse Writes(int64_t begin, int64_t end, int buffer = 0) {
  return {&kBuffers[buffer], begin, end, true};
}
MemoryUse WritesColumns(int64_t pitch, int64_t first, int64_t last) {
  return {&kBuffers[0], 0, 100, true, pitch, first, last};
}

class WorkOrderTest : public testing::Test {
 protected:
  Pieces Add(const std::vector<MemoryUse>& uses) { return order_.Add(uses); }
  WorkOrder order_;
};

TEST_F(WorkOrderTest, ReadersWaitForTheWriterAndTheNextWriterForThem) {
  EXPECT_EQ(Add({Writes(0, 10)}), Pieces());
  EXPECT_EQ(Add({Reads(0, 10), Writes(0, 4, 1)}), Pieces{0});
  EXPECT_EQ(Add({Reads(5, 6), Writes(4, 8, 1)}), Pieces{0});
  EXPECT_EQ(Add({Writes(0, 10)}), (Pieces{1, 2}));
  EXPECT_EQ(Add({Reads(0, 8, 1)}), (Pieces{1, 2}));
  EXPECT_EQ(Add({Reads(0, 10), Reads(0, 4, 1)}), Pieces{3});
  EXPECT_EQ(order_.pieces(), 6);
  EXPECT_EQ(order_.longest_chain(), 4);
}

TEST_F(WorkOrderTest, NothingIsNamedThatFollowsFromOthers) {
  EXPECT_EQ(Add({Writes(0, 10)}), Pieces());
  EXPECT_EQ(Add({Reads(0, 10), Writes(20, 30)}), Pieces{0});
  // After both, but 0 is before 1.
  EXPECT_EQ(Add({Reads(0, 10), Reads(20, 30)}), Pieces{1});
}

TEST_F(WorkOrderTest, OtherBytesAndOtherBuffersAreFree) {
  EXPECT_EQ(Add({Writes(0, 10)}), Pieces());
  EXPECT_EQ(Add({Writes(10, 20)}), Pieces());
  EXPECT_EQ(Add({Writes(0, 10, 1)}), Pieces());
  EXPECT_EQ(Add({Writes(9, 11)}), (Pieces{0, 1}));
  EXPECT_EQ(Add({}), Pieces());
  EXPECT_EQ(order_.longest_chain(), 2);
}

TEST_F(WorkOrderTest, AWriteOfAPartLeavesTheRest) {
  EXPECT_EQ(Add({Writes(0, 10)}), Pieces());
  EXPECT_EQ(Add({Writes(0, 5)}), Pieces{0});
  EXPECT_EQ(Add({Reads(5, 10)}), Pieces{0});
  EXPECT_EQ(Add({Reads(0, 5)}), Pieces{1});
}

TEST_F(WorkOrderTest, ColumnsOfOneArray) {
  EXPECT_EQ(Add({Reads(0, 100)}), Pieces());
  EXPECT_EQ(Add({WritesColumns(10, 0, 4)}), Pieces{0});
  EXPECT_EQ(Add({WritesColumns(10, 4, 10)}), Pieces{0});
  EXPECT_EQ(Add({WritesColumns(10, 3, 5)}), (Pieces{1, 2}));
  EXPECT_EQ(Add({WritesColumns(20, 15, 20)}), Pieces{3});  // other rows: unknown
  EXPECT_EQ(Add({WritesColumns(10, 8, 10)}), Pieces{4});
  EXPECT_EQ(Add({Reads(0, 100)}), Pieces{5});
}

// Against the definition: all pairs, and all paths.
TEST(WorkOrderRandomTest, PiecesWithCommonBytesAreOrderedAndNoOthers) {
  std::minstd_rand random(3);
  const auto number = [&](int below) { return static_cast<int>(random() % below); };
  for (int round = 0; round < 60; ++round) {
    WorkOrder order;
    std::vector<std::vector<MemoryUse>> uses;
    std::vector<std::vector<bool>> must, listed;  // [later][earlier]
    for (int piece = 0; piece < 40; ++piece) {
      std::vector<MemoryUse> own;
      for (int i = number(4); i >= 0; --i) {
        const int begin = number(60), buffer = number(2);
        own.push_back({&kBuffers[buffer], begin, begin + 1 + number(20), number(3) == 0});
        if (buffer == 0 && number(3) == 0) {
          const int first = number(6);
          own.back() = {&kBuffers[0], 0, 60, true, 6, first, first + 1};
        }
      }
      uses.push_back(own);
      must.emplace_back(piece, false);
      listed.emplace_back(piece, false);
      for (const int before : order.Add(own)) listed[piece][before] = true;
      for (int before = 0; before < piece; ++before) {
        for (const MemoryUse& a : uses[before]) {
          for (const MemoryUse& b : own) {
            if (a.buffer != b.buffer || !(a.writes || b.writes) || !a.Overlaps(b)) continue;
            must[piece][before] = true;
          }
        }
      }
    }
    // The closures are equal, and no listed pair follows from other pairs.
    const auto close = [](std::vector<std::vector<bool>> pairs) {
      for (size_t i = 0; i < pairs.size(); ++i) {
        for (size_t j = i; j-- > 0;) {
          if (!pairs[i][j]) continue;
          for (size_t k = 0; k < j; ++k) pairs[i][k] = pairs[i][k] || pairs[j][k];
        }
      }
      return pairs;
    };
    const auto all = close(must);
    EXPECT_EQ(close(listed), all) << round;
    for (size_t i = 0; i < listed.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!listed[i][j]) continue;
        EXPECT_TRUE(must[i][j]);
        for (size_t k = j + 1; k < i; ++k) EXPECT_FALSE(all[i][k] && all[k][j]) << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace caffe
