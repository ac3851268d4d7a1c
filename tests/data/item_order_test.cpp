#include "caffe/data/item_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "caffe/core/random.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::vector<int64_t> Take(ItemOrder* order, uint64_t first, int count) {
  std::vector<int64_t> items;
  for (int i = 0; i < count; ++i) items.push_back(order->At(first + i));
  return items;
}

ItemOrder Shuffled(const std::vector<int64_t>& groups,
                   ItemOrder::Numbers numbers = ItemOrder::Numbers::kByOrder) {
  ItemOrder order(groups, true, numbers);
  order.SetSeed(SeedOfPart(11, 0));
  return order;
}

TEST(ItemOrderTest, WithoutShuffleEpochsFollowEachOther) {
  ItemOrder order({2, 3}, false);
  EXPECT_EQ(order.count(), 5);
  EXPECT_EQ(Take(&order, 3, 8), std::vector<int64_t>({3, 4, 0, 1, 2, 3, 4, 0}));
}

// The orders that ImageData and HDF5Data have had from their beginning.
TEST(ItemOrderTest, ASeedKeepsItsOrders) {
  ItemOrder images = Shuffled({13}, ItemOrder::Numbers::kByItem);
  EXPECT_EQ(Take(&images, 0, 18),
            std::vector<int64_t>({0, 6, 9, 8, 3, 1, 7, 10, 11, 2, 12, 5, 4,  //
                                  12, 4, 8, 11, 6}));
  ItemOrder file = Shuffled({20});
  EXPECT_EQ(Take(&file, 0, 23), std::vector<int64_t>({8, 15, 5,  1,  17, 10, 18, 16, 9, 7,  3, 14,
                                                      0, 6,  11, 13, 19, 12, 4,  2,  7, 18, 12}));
  ItemOrder files = Shuffled({7, 6, 7});
  EXPECT_EQ(Take(&files, 0, 23), std::vector<int64_t>({9, 11, 12, 8,  7,  10, 0,  4,  2,  5,  1, 3,
                                                       6, 16, 17, 13, 18, 19, 15, 14, 17, 14, 13}));
  ItemOrder small = Shuffled({1, 1, 5});
  EXPECT_EQ(Take(&small, 0, 14), std::vector<int64_t>({1, 0, 5, 6, 2, 4, 3, 6, 3, 2, 5, 4, 0, 1}));
}

TEST(ItemOrderTest, GroupsStayTogetherAndEpochsDiffer) {
  ItemOrder order = Shuffled({4, 6, 5});
  std::vector<int64_t> before;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> items = Take(&order, epoch * 15, 15);
    EXPECT_NE(items, before);
    before = items;
    const auto group = [](int64_t item) { return item < 4 ? 0 : item < 10 ? 1 : 2; };
    int changes = 0;
    for (int i = 1; i < 15; ++i) changes += group(items[i]) != group(items[i - 1]);
    EXPECT_EQ(changes, 2);
    std::sort(items.begin(), items.end());
    std::vector<int64_t> all(15);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(items, all);
  }
}

TEST(ItemOrderTest, NumbersMayComeInAnyOrder) {
  ItemOrder order = Shuffled({3, 8, 2}), other = Shuffled({3, 8, 2});
  const std::vector<int64_t> items = Take(&order, 0, 60);
  for (const int number : {59, 0, 13, 12, 30, 1, 29, 58, 26, 25}) {
    EXPECT_EQ(other.At(number), items[number]) << number;
  }
  other.SetSeed(5);
  EXPECT_NE(Take(&other, 0, 60), items);
}

TEST(ItemOrderTest, EmptyGroupsAreErrors) {
  EXPECT_TRUE(Holds(ErrorOf([] { ItemOrder({}, false); }), "there are no items"));
  EXPECT_TRUE(Holds(ErrorOf([] { ItemOrder({3, 0}, true); }), "a group of 0 items"));
}

}  // namespace
}  // namespace caffe
