// Wider types for the layers that hurt most.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "quantization.hpp"

namespace caffe {

void Quantization::WarnOfResolution() const {
  const bool labels = accuracy_.top1.has_value();
  const bool dense = accuracy_.positions != report_.held_out_items;
  const int64_t count = labels ? accuracy_.labels : accuracy_.positions;
  const double point = 100.0 / static_cast<double>(count), most = *options_.max_drop;
  if (most == 0 || point <= most) return;
  log::Warning(
      Concat("max_drop ", most, " cannot be judged: one of ", count,
             labels  ? " labels"
             : dense ? " positions"
                     : " held-out items",
             " is ", point,
             " percentage points, so that no loss at all is allowed; compare with at least ",
             static_cast<int64_t>(std::ceil(100 / most - 1e-9))));
}

double Quantization::Drop(const MeasuredAccuracy& accuracy) const {
  if (accuracy.top1) return *accuracy.float_top1 - *accuracy.top1;
  return 100 - *accuracy.agreement;
}

void Quantization::Widen(const std::vector<int>& order, int64_t count) {
  wider_.clear();
  const auto all = static_cast<int64_t>(order.size());
  for (int64_t i = 0; i < std::min(count, all); ++i) {
    const bool first_type = options_.type == kQuant8 && i >= count - all;
    for (const int layer : groups_[order[i]]) {
      wider_[layer] = first_type ? kQuant16 : kFloat;
    }
  }
}

std::vector<int> Quantization::GroupsByHarm() {
  const Quantization& self = *this;
  std::vector<double> harm(groups_.size());
  std::vector<int> order(groups_.size());
  std::iota(order.begin(), order.end(), 0);
  Batch batch;
  std::vector<float> real;
  for (int64_t i = calibration_batches_; i < HeldOutEnd() && Read(i, &batch); ++i) {
    if (batch.items > 0) break;
  }
  Fill(batch, float_net_.get());
  ResetStates();
  float_net_->Forward();
  real = RealValues(*float_net_->BlobByName(scores_));
  for (size_t g = 0; g < groups_.size(); ++g) {
    wider_.clear();
    for (size_t other = 0; other < groups_.size(); ++other) {
      if (other == g) continue;
      for (const int layer : groups_[other]) wider_[layer] = kFloat;
    }
    const auto net = self.QuantizedTestNet();
    Fill(batch, net.get());
    net->Forward();
    Comparison comparison;
    comparison.Add(real, RealValues(*net->BlobByName(scores_)));
    harm[g] = comparison.total_noise();
    log::Info(Concat("only ", model_.layer(groups_[g][0]).name(), " quantized: ", scores_, " has ",
                     comparison.snr(), " dB"));
    Progress("finding the layers that hurt", static_cast<int64_t>(g) + 1,
             static_cast<int64_t>(groups_.size()));
  }
  wider_.clear();
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return harm[a] > harm[b]; });
  return order;
}

void Quantization::MeetMaxDrop() {
  CAFFE_CHECK(!scores_.empty(), "max_drop needs a net with scores of classes, but ",
              class_scores_.why);
  report_.max_drop = options_.max_drop;
  accuracy_ = Measure();
  CAFFE_CHECK(accuracy_.agreement, "max_drop needs labels that are not ignored, but all labels of ",
              "the held-out batches are ", *class_scores_.ignore_label);
  WarnOfResolution();
  const double most = *options_.max_drop + 1e-9;
  if (Drop(accuracy_) <= most) return;
  const std::vector<int> order = GroupsByHarm();
  const auto groups = static_cast<int64_t>(order.size());
  // With int8: int16 for 1, …, all groups, then float for 1, …, all.
  const int64_t last = options_.type == kQuant8 ? 2 * groups : groups;
  int64_t fails = 0, meets = -1;
  const auto measure = [&](int64_t count) {
    Widen(order, count);
    const MeasuredAccuracy accuracy = Measure();
    log::Info(Concat(count, " of ", last, " widenings: top-1 loses ", Drop(accuracy),
                     " percentage points"));
    if (Drop(accuracy) > most) {
      fails = count;
      return false;
    }
    meets = count;
    accuracy_ = accuracy;
    return true;
  };
  for (int64_t count = 1; !measure(count) && count < last; count = std::min(2 * count, last)) {
  }
  while (meets >= 0 && meets - fails > 1) measure(fails + (meets - fails) / 2);
  report_.within_max_drop = meets >= 0;
  Widen(order, meets >= 0 ? meets : last);
}

}  // namespace caffe
