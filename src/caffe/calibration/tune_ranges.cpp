// Ranges by the noise that they make in the scores, instead of in their own blob.
#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

constexpr size_t kBatches = 2;   // of the calibration data
constexpr double kFactor = 0.8;  // of a range, or its inverse
constexpr int kMostChanges = 4;  // of one range
constexpr double kLeastGain = 1e-3;

// Makes a range narrower or wider as long as the noise becomes less than `least`; returns whether
// it changed.
bool TuneRange(const std::string& blob, const std::function<double()>& noise, Prepared* prepared,
               double* least) {
  bool changed = false;
  for (const double factor : {kFactor, 1 / kFactor}) {
    for (int step = 0; step < kMostChanges; ++step) {
      const RangeMap before = prepared->ranges;
      Range& range = prepared->ranges.at(blob);
      range = {factor * range.low, factor * range.high, "scores"};
      prepared->ranges = Tied(prepared->net, std::move(prepared->ranges));
      const double now = noise();
      if (!(now < (1 - kLeastGain) * *least)) {
        prepared->ranges = before;
        break;
      }
      *least = now;
      changed = true;
    }
    if (changed) break;
  }
  return changed;
}

}  // namespace

Prepared TuneRanges(Prepared prepared, CheckedBatches* batches, const QuantizeOptions& options) {
  const FloatNet& net = prepared.net;
  const std::vector<Batch> first = batches->First(kBatches, 0, prepared.observed.batches);
  std::vector<std::vector<float>> exact;
  net.Restart();
  for (const Batch& batch : first) {
    Forward(batch, net.net.get());
    exact.push_back(RealValues(*net.net->BlobByName(net.output())));
  }
  const auto noise = [&] {
    const TypedNet typed = MakeTypedNet(prepared);
    Comparison comparison;
    for (size_t i = 0; i < first.size(); ++i) {
      Forward(first[i], typed.net.get());
      comparison.Add(exact[i], RealValues(*typed.net->BlobByName(net.output())));
    }
    return comparison.total_noise();
  };
  const double given = noise();
  double least = given;
  std::vector<std::string> blobs;
  for (const auto& [blob, range] : prepared.ranges) {
    // An earlier version of a blob is computed in one step with the last one, as a rule.
    const bool free = range.origin != "tied" && range.origin != "given";
    if (free && net.net->has_blob(blob)) blobs.push_back(blob);
  }
  int64_t done = 0;
  for (const std::string& blob : blobs) {
    prepared.tuned_ranges += TuneRange(blob, noise, &prepared, &least);
    options.Show("tuning ranges", ++done, static_cast<int64_t>(blobs.size()));
  }
  log::Info(Concat("ranges of ", prepared.tuned_ranges, " blobs changed: noise of the scores ",
                   Decibels(given, least), " dB lower"));
  return prepared;
}

}  // namespace caffe
