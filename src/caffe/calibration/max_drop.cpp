// Wider types for the layers that hurt most.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "caffe.pb.h"
#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

using Groups = std::vector<std::vector<int>>;

// Warns if a single item is more than the points that may be lost.
void WarnOfResolution(const Accuracy& accuracy, double most) {
  const bool labels = accuracy.labels > 0;
  const bool dense = accuracy.positions != accuracy.items;
  const int64_t count = labels ? accuracy.labels : accuracy.positions;
  const double point = 100.0 / static_cast<double>(count);
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

double Drop(const Accuracy& accuracy) {
  return accuracy.labels > 0 ? *accuracy.float_top1() - *accuracy.top1()
                             : 100 - *accuracy.agreement();
}

// The groups by the noise that each makes in the scores when only its layers are quantized.
std::vector<int> GroupsByHarm(Prepared prepared, const Groups& groups, CheckedBatches* batches,
                              const QuantizeOptions& options) {
  const FloatNet& net = prepared.net;
  const std::string& scores = net.scores.blob;
  const auto first = batches->First(1, prepared.observed.batches, INT64_MAX);
  net.Restart();
  Forward(first.at(0), net.net.get());
  const std::vector<float> real = RealValues(*net.net->BlobByName(scores));
  std::vector<double> harm(groups.size());
  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t g = 0; g < groups.size(); ++g) {
    prepared.types.wider.clear();
    for (size_t other = 0; other < groups.size(); ++other) {
      if (other == g) continue;
      for (const int layer : groups[other]) prepared.types.wider[layer] = kFloat;
    }
    const TypedNet typed = MakeTypedNet(prepared);
    Forward(first[0], typed.net.get());
    Comparison comparison;
    comparison.Add(real, RealValues(*typed.net->BlobByName(scores)));
    harm[g] = comparison.total_noise();
    log::Info(Concat("only ", net.model->layer(groups[g][0]).name(), " quantized: ", scores,
                     " has ", comparison.snr(), " dB"));
    options.Show("finding the layers that hurt", static_cast<int64_t>(g) + 1,
                 static_cast<int64_t>(groups.size()));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return harm[a] > harm[b]; });
  return order;
}

}  // namespace

Prepared MeetMaxDrop(Prepared prepared, CheckedBatches* batches, const QuantizeOptions& options) {
  const Scores& scores = prepared.net.scores;
  CAFFE_CHECK(!scores.blob.empty(), "max_drop needs a net with scores of classes, but ",
              scores.why);
  std::map<int64_t, FloatAnswers> known;
  const auto measure = [&] {
    return Measure(prepared, MakeTypedNet(prepared), batches, options, &known);
  };
  const Accuracy accuracy = measure();
  CAFFE_CHECK(accuracy.agreement(),
              "max_drop needs labels that are not ignored, but all labels of ",
              "the held-out batches are ", *scores.ignore_label);
  WarnOfResolution(accuracy, *options.max_drop);
  const double most = *options.max_drop + 1e-9;
  if (Drop(accuracy) <= most) return prepared;
  std::set<int> unused;
  const Groups groups = GroupsOf(prepared.net, &unused);
  const std::vector<int> order = GroupsByHarm(prepared, groups, batches, options);
  const auto count = static_cast<int64_t>(order.size());
  // With int8: int16 for 1, …, all groups, then float for 1, …, all.
  const int64_t last = options.type == kQuant8 ? 2 * count : count;
  int64_t fails = 0, meets = -1;
  const auto widen = [&](int64_t number) {
    prepared.types.wider.clear();
    for (int64_t i = 0; i < std::min(number, count); ++i) {
      const DataType type = options.type == kQuant8 && i >= number - count ? kQuant16 : kFloat;
      for (const int layer : groups[order[i]]) prepared.types.wider[layer] = type;
    }
  };
  const auto meets_with = [&](int64_t number) {
    widen(number);
    const double drop = Drop(measure());
    log::Info(Concat(number, " of ", last, " widenings: top-1 loses ", drop, " percentage points"));
    (drop > most ? fails : meets) = number;
    return drop <= most;
  };
  for (int64_t number = 1; !meets_with(number) && number < last;
       number = std::min(2 * number, last)) {
  }
  while (meets >= 0 && meets - fails > 1) meets_with(fails + (meets - fails) / 2);
  prepared.within_max_drop = meets >= 0;
  widen(meets >= 0 ? meets : last);
  return prepared;
}

}  // namespace caffe
