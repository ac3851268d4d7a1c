// The report of QuantizeNet from its values.
#include <algorithm>
#include <cmath>

#include "caffe/calibration/steps.hpp"
#include "caffe/core/log.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "test_nets.hpp"
#include "weight_changes.hpp"

namespace caffe {
namespace {

constexpr double kCoarse = 0.5;  // percentage points

// `weights`: those that fit the types.
LayerReport Row(const Prepared& prepared, const ChangedWeights& weights, const Net& net, int index,
                const Comparison& comparison) {
  const LayerParameter& parameter = prepared.net.model->layer(index);
  const LayerBase& layer = *net.layers()[index];
  LayerReport row;
  row.layer = parameter.name();
  row.layer_type = parameter.type();
  row.blob = parameter.top(0);
  row.type = layer.types().compute.name();
  double noise = 0;
  if (const auto range = RangeOf(net, prepared, row.blob)) {
    const auto& [affine, type] = *range;
    row.range.low = affine.scale * (type.info().code_min - affine.zero);
    row.range.high = affine.scale * (type.info().code_max - affine.zero);
    const auto chosen = prepared.ranges.find(row.blob);
    if (layer.Facts().range == LayerFacts::Range::kCarried) {
      row.range.origin = "carried";
    } else if (chosen != prepared.ranges.end()) {
      row.range.origin = chosen->second.origin;
    }
    const double finite = comparison.count - comparison.not_finite;
    row.clipped_percent = 100 * comparison.clipped / std::max(finite, 1.0);
    noise = finite > 0 ? comparison.own_noise / std::max(comparison.signal, 1e-300) : NAN;
  }
  if (layer.types().compute.is_quantized() && layer.Facts().weighted) {
    noise += WeightNoise(*prepared.net.net, *weights.file, index, layer.types().compute);
    const auto gain = weights.gains.find(index);
    const bool adapted = gain != weights.gains.end();
    row.rounding = adapted ? "adaround" : "nearest";
    if (adapted) row.rounding_gain = gain->second;
  }
  row.own_snr = Decibels(1, noise);
  row.snr = comparison.snr();
  row.cosine = comparison.cosine();
  row.values = static_cast<int64_t>(comparison.count);
  row.not_finite = static_cast<int64_t>(comparison.not_finite);
  const auto histogram = prepared.observed.histograms.find(row.blob);
  const bool observed = histogram != prepared.observed.histograms.end();
  if (observed && prepared.types.type.is_quantized()) row.histogram = histogram->second;
  return row;
}

}  // namespace

QuantizeReport MakeReport(const Prepared& prepared, const TypedNet& typed, const Accuracy& accuracy,
                          const QuantizeOptions& options) {
  const FloatNet& net = prepared.net;
  const DataType type = prepared.types.type;
  const ChangedWeights weights = FittingWeights(net, prepared.types, prepared.weights);
  QuantizeReport report;
  report.net = typed.net->name();
  report.type = type.name();
  report.method = type.is_quantized() ? MethodName(options.calibration.method) : "";
  report.device = net.device->info().id;
  report.given_weights = net.stored_types;
  report.calibration_items = prepared.observed.items;
  report.held_out_items = accuracy.items;
  report.scores = net.scores.blob;
  report.float_top1 = accuracy.float_top1();
  report.quantized_top1 = accuracy.top1();
  report.agreement = accuracy.agreement();
  report.positions = accuracy.positions;
  report.labels = accuracy.labels;
  report.power_of_two = options.calibration.power_of_two;
  if (accuracy.items == 0) {
    report.no_top1 = "no data were given to compare with";
  } else if (!accuracy.top1()) {
    report.no_top1 = report.scores.empty() ? net.scores.why : "the data have no labels";
  }
  if (report.resolution() > kCoarse) {
    log::Warning(Concat("few held-out items: one ", report.float_top1 ? "label" : "item", " is ",
                        report.resolution(), " percentage points of the comparison"));
  }
  report.max_drop = options.max_drop;
  report.within_max_drop = prepared.within_max_drop;
  report.corrected_biases = weights.corrected_biases;
  report.equalized_layers = prepared.equalized_layers;
  report.tuned_ranges = prepared.tuned_ranges;
  report.float_bytes = typed.float_bytes;
  report.bytes = static_cast<int64_t>(typed.file->ByteSizeLong());
  const std::vector<std::string> names = UniqueLayerNames(*net.model);
  for (const auto& [layer, wide] : prepared.types.wider) report.wider[names[layer]] = wide.name();
  for (int l = 0; l < net.model->layer_size(); ++l) {
    const LayerParameter& parameter = net.model->layer(l);
    if (parameter.top_size() == 0 || IsInPlace(parameter)) continue;
    if (accuracy.items == 0) break;  // method dynamic without data
    report.layers.push_back(
        Row(prepared, weights, *typed.net, l, accuracy.blobs.at(parameter.top(0))));
  }
  const auto quality = [&](const LayerReport& row) {
    if (std::isnan(row.snr) || std::isnan(row.own_snr)) return -static_cast<double>(INFINITY);
    return type.is_quantized() ? row.own_snr : row.snr;
  };
  std::stable_sort(
      report.layers.begin(), report.layers.end(),
      [&](const LayerReport& a, const LayerReport& b) { return quality(a) < quality(b); });
  return report;
}

}  // namespace caffe
