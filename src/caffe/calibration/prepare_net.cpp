// Ranges of blobs from calibration data, and weights to be quantized.
#include <algorithm>
#include <cmath>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "quantization.hpp"
#include "round_weights.hpp"
#include "weight_changes.hpp"

namespace caffe {

void Quantization::Prepare() {
  Calibrate();
  ChooseRanges();
  CheckRanges();
  ChangeWeights();
}

void Quantization::Calibrate() {
  Batch batch;
  report_.calibration_items = calibration_batches_ = 0;
  float_net_->set_observe(quantized());
  for (int64_t i = 0; i < options_.calibration_batches; ++i) {
    if (!Read(i, &batch)) break;
    ++calibration_batches_;
    if (batch.items == 0) continue;
    Fill(batch, float_net_.get());
    float_net_->Forward();
    if (!batch.labels.empty()) FloatAnswers(batch, i);
    report_.calibration_items += batch.items;
    Progress("calibrating", i + 1, options_.calibration_batches);
  }
  CAFFE_CHECK(report_.calibration_items > 0,
              "there is no data to calibrate with: no image could be read, or no batch was given");
  histograms_ = float_net_->Histograms();
  if (quantized()) ranges_ = float_net_->Ranges();
  float_net_->set_observe(false);
}

void Quantization::ChooseRanges() {
  if (!quantized()) return;
  std::vector<std::pair<const std::string, Range>*> entries;
  for (auto& entry : ranges_) entries.push_back(&entry);
  const auto count = static_cast<int64_t>(entries.size());
  Progress("choosing ranges", 0, count);
  const auto choose = [&](const std::string& blob, Range* range) {
    const auto given = given_ranges_.find(blob);
    const auto histogram = histograms_.find(blob);
    if (given != given_ranges_.end()) {
      *range = {given->second.low, given->second.high, "given"};
    } else if (histogram != histograms_.end()) {
      *range = caffe::Calibrate(histogram->second, *range, options_.type, options_.calibration);
    } else {
      range->origin = MethodName(CalibrationMethod::kMinMax);
    }
  };
  // Throws for wrong options, here and not in a thread.
  caffe::Calibrate(Histogram(), {0, 1}, options_.type, options_.calibration);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) choose(entries[i]->first, &entries[i]->second);
  Progress("choosing ranges", count, count);
  TieRanges();
}

void Quantization::CheckRanges() {
  if (!quantized()) return;
  const auto net = TestNet(TypedModel(), device_);
  const auto& names = net->blob_names();
  std::set<int> codes;  // blobs that are quantized, or that a layer reads as codes
  for (size_t i = 0; i < net->layers().size(); ++i) {
    const int layer = static_cast<int>(i);
    if (!net->layers()[i]->types().in.is_quantized()) continue;
    codes.insert(net->bottom_ids(layer).begin(), net->bottom_ids(layer).end());
  }
  struct Missing {
    const LayerBase* layer;  // the last one that writes the blob
    int64_t values = 0, lost = 0;
  };
  std::map<std::string, Missing> missing;
  std::vector<std::string> order;
  for (size_t i = 0; i < net->layers().size(); ++i) {
    for (const int top : net->top_ids(static_cast<int>(i))) {
      if (ranges_.count(names[top])) continue;
      if (!codes.count(top) && !net->blobs()[top]->type().is_quantized()) continue;
      if (!missing.count(names[top])) order.push_back(names[top]);
      missing[names[top]].layer = net->layers()[i].get();
    }
  }
  if (missing.empty()) return;
  ForEachCalibrationBatch("looking for values that are not finite", [&] {
    for (auto& [blob, counts] : missing) {
      const std::vector<float> values = RealValues(*float_net_->BlobByName(blob));
      counts.values += static_cast<int64_t>(values.size());
      counts.lost += std::count_if(values.begin(), values.end(),
                                   [](float value) { return !std::isfinite(value); });
    }
  });
  for (const std::string& blob : order) {
    const auto& [layer, values, lost] = missing.at(blob);
    CAFFE_CHECK(values == 0 || lost < values, "layer '", layer->name(), "' (", layer->type(),
                "): all ", lost, " values of its blob '", blob, "' were NaN or infinite on the ",
                "calibration data, so that it has no range for ", options_.type.name(),
                "; look at the values that the layer reads, since functions such as Log and Power ",
                "are not defined for all numbers, and at the weights and the preparation of the ",
                "data");
  }
}

void Quantization::TieRanges() {
  for (const auto& [bottom, top] : float_net_->TiedRanges()) {
    const auto from = ranges_.find(top), to = ranges_.find(bottom);
    if (from == ranges_.end() || to == ranges_.end() || to->second.origin == "given") continue;
    to->second = {from->second.low, from->second.high, "tied"};
  }
}

void Quantization::ForEachCalibrationBatch(const char* what,
                                           const std::function<void()>& function) {
  float_net_->Keep(float_net_->blob_names());
  Batch batch;
  for (int64_t i = 0; i < calibration_batches_ && Read(i, &batch); ++i) {
    if (batch.items == 0) continue;
    Fill(batch, float_net_.get());
    float_net_->Forward();
    function();
    Progress(what, i + 1, calibration_batches_);
  }
}

void Quantization::RoundWeights() {
  WeightRounding rounding(*float_net_, changed_, options_.type, options_.bias_correction,
                          calibration_batches_);
  ForEachCalibrationBatch("reading inputs of layers", [&] { rounding.Add(*float_net_); });
  const auto rounded =
      rounding.Round([&](int64_t done, int64_t all) { Progress("rounding weights", done, all); });
  NetParameter chosen = changed_;
  for (const auto& [layer, result] : rounded) {
    chosen.mutable_layer(layer)->mutable_blobs(0)->mutable_data()->Assign(result.weights.begin(),
                                                                          result.weights.end());
  }
  // On all rows of the calibration data, not only on those that were read.
  RoundingErrors before(model_, *float_net_, changed_, options_.type, device_);
  RoundingErrors after(model_, *float_net_, chosen, options_.type, device_);
  ForEachCalibrationBatch("comparing rounded weights", [&] {
    before.Add(*float_net_);
    after.Add(*float_net_);
  });
  for (const auto& [layer, result] : rounded) {
    const double nearest = before.Square(layer, options_.bias_correction),
                 adapted = after.Square(layer, options_.bias_correction);
    if (!(adapted < nearest)) continue;
    *changed_.mutable_layer(layer) = chosen.layer(layer);
    rounding_gains_[layer] = Decibels(nearest, adapted);
  }
}

void Quantization::ChangeWeights() {
  float_net_->ToProto(&changed_);
  changed_.clear_quantizer();
  rounding_gains_.clear();
  if (!quantized()) return;
  if (options_.adaround) RoundWeights();
  if (!options_.bias_correction) return;
  RoundingErrors errors(model_, *float_net_, changed_, options_.type, device_);
  ForEachCalibrationBatch("correcting biases", [&] { errors.Add(*float_net_); });
  report_.corrected_biases = errors.CorrectBiases(&changed_);
}

}  // namespace caffe
