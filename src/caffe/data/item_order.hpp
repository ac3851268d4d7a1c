#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace caffe {

// The order in which a data layer reads its items, epoch after epoch. It depends only on the groups
// of items and on the seed. If it is shuffled, each epoch has another order of groups, and of the
// items in a group.
class ItemOrder {
 public:
  // Where the random numbers of a shuffled order come from. There are two, because a seed's orders
  // of each data layer stay as they were.
  enum class Numbers {
    kByOrder,  // each order of groups or items has a seed of its own
    kByItem,   // each item of an epoch has a counter of its own; only for one group
  };
  // Items must be fewer than kMost.
  ItemOrder(std::vector<int64_t> groups, bool shuffled, Numbers numbers = Numbers::kByOrder);
  static constexpr uint64_t kMost = uint64_t{1} << 62;

  int64_t count() const { return count_; }
  void SetSeed(uint64_t seed);
  // The index of the item that is read as number `number`. Numbers that follow each other are fast.
  int64_t At(uint64_t number);

 private:
  std::vector<int64_t> ItemsOf(uint64_t epoch, int64_t place) const;
  std::vector<int64_t> ByOrder(int64_t count, uint64_t order) const;

  std::vector<int64_t> groups_, begins_;  // the numbers of items, and the indices of the first ones
  int64_t count_ = 0;
  bool shuffled_;
  Numbers numbers_;
  uint64_t seed_ = 0;
  uint64_t epoch_ = ~uint64_t{0};
  std::vector<int64_t> group_order_;  // in the epoch
  std::vector<int64_t> item_order_;   // in the group at place_ of the epoch
  int64_t place_ = -1, first_ = 0;    // first_: how many items of the epoch come before the group
};

}  // namespace caffe
