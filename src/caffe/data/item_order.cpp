#include "caffe/data/item_order.hpp"

#include <numeric>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/random.hpp"

namespace caffe {
namespace {

// Below are counters that number the items of data layers, for other random choices.
constexpr uint64_t kItemCounters = uint64_t{1} << 62;

// 0 to count - 1 in the order of Fisher and Yates.
template <class Random> std::vector<int64_t> Shuffled(int64_t count, const Random& random) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    const auto words = random(static_cast<uint64_t>(i));
    std::swap(order[i], order[(uint64_t{words[0]} << 32 | words[1]) % (i + 1)]);
  }
  return order;
}

}  // namespace

ItemOrder::ItemOrder(std::vector<int64_t> groups, bool shuffled, Numbers numbers)
    : groups_(std::move(groups)), shuffled_(shuffled), numbers_(numbers) {
  for (const int64_t group : groups_) {
    CAFFE_CHECK(group > 0, "a group of ", group, " items");
    begins_.push_back(count_);
    count_ += group;
  }
  CAFFE_CHECK(count_ > 0, "there are no items");
}

void ItemOrder::SetSeed(uint64_t seed) {
  seed_ = seed;
  epoch_ = ~uint64_t{0};
}

std::vector<int64_t> ItemOrder::ByOrder(int64_t count, uint64_t order) const {
  const auto words = Philox(order, seed_);
  const uint64_t seed = uint64_t{words[0]} << 32 | words[1];
  return Shuffled(count, [seed](uint64_t i) { return Philox(i, seed); });
}

std::vector<int64_t> ItemOrder::ItemsOf(uint64_t epoch, int64_t place) const {
  const int64_t count = groups_[group_order_[place]];
  if (numbers_ == Numbers::kByOrder) {
    return ByOrder(count, 2 * (epoch * groups_.size() + place) + 1);
  }
  return Shuffled(count, [this, epoch, count](uint64_t i) {
    return Philox(kItemCounters + epoch * count + i, seed_);
  });
}

int64_t ItemOrder::At(uint64_t number) {
  const uint64_t epoch = number / count_;
  const int64_t item = static_cast<int64_t>(number % count_);
  if (!shuffled_) return item;
  int64_t place = 0, first = 0;
  if (epoch != epoch_) {
    group_order_ = ByOrder(static_cast<int64_t>(groups_.size()), 2 * epoch);
    place_ = -1;
  } else if (item >= first_) {
    place = place_;
    first = first_;
  }
  for (; item - first >= groups_[group_order_[place]]; ++place) {
    first += groups_[group_order_[place]];
  }
  if (place != place_) item_order_ = ItemsOf(epoch, place);
  epoch_ = epoch;
  place_ = place;
  first_ = first;
  return begins_[group_order_[place]] + item_order_[item - first];
}

}  // namespace caffe
