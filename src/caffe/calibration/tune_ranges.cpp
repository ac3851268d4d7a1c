// Ranges by the noise that they make in the scores, instead of in their own blob.
#include "caffe/core/log.hpp"
#include "quantization.hpp"

namespace caffe {
namespace {

constexpr size_t kBatches = 2;   // of the calibration data
constexpr double kFactor = 0.8;  // of a range, or its inverse
constexpr int kMostChanges = 4;  // of one range
constexpr double kLeastGain = 1e-3;

}  // namespace

double Quantization::ScoreNoise(const std::vector<Batch>& batches,
                                const std::vector<std::vector<float>>& exact) const {
  const auto net = QuantizedTestNet();
  Comparison comparison;
  for (size_t i = 0; i < batches.size(); ++i) {
    Fill(batches[i], net.get());
    net->Forward();
    comparison.Add(exact[i], RealValues(*net->BlobByName(Output())));
  }
  return comparison.total_noise();
}

bool Quantization::TuneRange(const std::string& blob, const std::function<double()>& noise,
                             double* least) {
  bool changed = false;
  for (const double factor : {kFactor, 1 / kFactor}) {
    for (int step = 0; step < kMostChanges; ++step) {
      const auto before = ranges_;
      Range& range = ranges_.at(blob);
      range = {factor * range.low, factor * range.high, "scores"};
      TieRanges();
      const double now = noise();
      if (!(now < (1 - kLeastGain) * *least)) {
        ranges_ = before;
        break;
      }
      *least = now;
      changed = true;
    }
    if (changed) break;
  }
  return changed;
}

void Quantization::TuneRanges() {
  std::vector<Batch> batches;
  std::vector<std::vector<float>> exact;
  Batch batch;
  ResetStates();
  for (int64_t i = 0; i < calibration_batches_ && batches.size() < kBatches && Read(i, &batch);
       ++i) {
    if (batch.items == 0) continue;
    Fill(batch, float_net_.get());
    float_net_->Forward();
    exact.push_back(RealValues(*float_net_->BlobByName(Output())));
    batches.push_back(batch);
  }
  const std::function<double()> noise = [&] { return ScoreNoise(batches, exact); };
  const double first = noise();
  double least = first;
  std::vector<std::string> blobs;
  for (const auto& [blob, range] : ranges_) {
    // An earlier version of a blob is computed in one step with the last one, as a rule.
    const bool free = range.origin != "tied" && range.origin != "given";
    if (free && float_net_->has_blob(blob)) blobs.push_back(blob);
  }
  int64_t done = 0;
  for (const std::string& blob : blobs) {
    report_.tuned_ranges += TuneRange(blob, noise, &least);
    Progress("tuning ranges", ++done, static_cast<int64_t>(blobs.size()));
  }
  log::Info(Concat("ranges of ", report_.tuned_ranges, " blobs changed: noise of the scores ",
                   Decibels(first, least), " dB lower"));
}

}  // namespace caffe
