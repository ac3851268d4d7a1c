// The values of the float net on the calibration data, and ranges from them.
#include <algorithm>
#include <cmath>

#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "test_nets.hpp"

namespace caffe {

Observed Observe(const FloatNet& float_net, CheckedBatches* batches,
                 const QuantizeOptions& options) {
  Net& net = *float_net.net;
  Observed observed;
  const int64_t count = options.calibration_batches;
  net.set_observe(options.type.is_quantized());
  observed.batches =
      batches->ForEach("calibrating", 0, count, count, [&](int64_t index, const Batch& batch) {
        Forward(batch, &net);
        if (!batch.labels.empty()) AnswersOf(float_net, batch, index);
        observed.items += batch.items;
      });
  CAFFE_CHECK(observed.items > 0,
              "there is no data to calibrate with: no image could be read, or no batch was given");
  observed.histograms = net.Histograms();
  if (options.type.is_quantized()) observed.ranges = net.Ranges();
  net.set_observe(false);
  return observed;
}

void ForEachForward(const FloatNet& net, const Observed& observed, CheckedBatches* batches,
                    const char* what, const std::function<void()>& function) {
  net.net->Keep(net.net->blob_names());
  batches->ForEach(what, 0, observed.batches, observed.batches, [&](int64_t, const Batch& batch) {
    Forward(batch, net.net.get());
    function();
  });
}

RangeMap ChooseRanges(const FloatNet& net, const Observed& observed,
                      const QuantizeOptions& options) {
  if (!options.type.is_quantized()) return {};
  RangeMap ranges = observed.ranges;
  std::vector<std::pair<const std::string, Range>*> entries;
  for (auto& entry : ranges) entries.push_back(&entry);
  const auto count = static_cast<int64_t>(entries.size());
  options.Show("choosing ranges", 0, count);
  const auto choose = [&](const std::string& blob, Range* range) {
    const auto given = net.ranges.find(blob);
    const auto histogram = observed.histograms.find(blob);
    if (given != net.ranges.end()) {
      *range = {given->second.low, given->second.high, "given"};
    } else if (histogram != observed.histograms.end()) {
      *range = Calibrate(histogram->second, *range, options.type, options.calibration);
    } else {
      range->origin = MethodName(CalibrationMethod::kMinMax);
    }
  };
  // Throws for wrong options, here and not in a thread.
  Calibrate(Histogram(), {0, 1}, options.type, options.calibration);
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) choose(entries[i]->first, &entries[i]->second);
  options.Show("choosing ranges", count, count);
  return Tied(net, std::move(ranges));
}

RangeMap Tied(const FloatNet& net, RangeMap ranges) {
  for (const auto& [bottom, top] : net.net->TiedRanges()) {
    const auto from = ranges.find(top), to = ranges.find(bottom);
    if (from == ranges.end() || to == ranges.end() || to->second.origin == "given") continue;
    to->second = {from->second.low, from->second.high, "tied"};
  }
  return ranges;
}

void CheckRanges(const Prepared& prepared, CheckedBatches* batches) {
  const FloatNet& float_net = prepared.net;
  const DataType type = prepared.types.type;
  if (!type.is_quantized()) return;
  const auto net = TestNet(TypedModel(float_net, prepared.types), float_net.device);
  std::set<int> codes;  // blobs that a layer reads as codes
  for (int i = 0; i < std::ssize(net->layers()); ++i) {
    if (!net->layers()[i]->types().in.is_quantized()) continue;
    codes.insert(net->bottom_ids(i).begin(), net->bottom_ids(i).end());
  }
  struct Missing {
    const std::string& blob;
    int64_t values = 0, lost = 0;
  };
  std::vector<Missing> missing;
  for (int id = 0; id < std::ssize(net->blobs()); ++id) {
    const std::string& blob = net->blob_names()[id];
    if (prepared.ranges.count(blob)) continue;
    if (codes.count(id) || net->blobs()[id]->type().is_quantized()) missing.push_back({blob});
  }
  if (missing.empty()) return;
  const char* const what = "looking for values that are not finite";
  ForEachForward(float_net, prepared.observed, batches, what, [&] {
    for (auto& [blob, count, lost] : missing) {
      const std::vector<float> values = RealValues(*float_net.net->BlobByName(blob));
      count += std::ssize(values);
      for (const float value : values) lost += !std::isfinite(value);
    }
  });
  for (const auto& [blob, values, lost] : missing) {
    if (values == 0 || lost < values) continue;
    const LayerBase* layer = nullptr;  // the last one that writes the blob
    for (const auto& one : net->layers()) {
      if (Contains(one->layer_param().top(), blob)) layer = one.get();
    }
    CAFFE_THROW("layer '", layer->name(), "' (", layer->type(), "): all ", lost,
                " values of its blob '", blob,
                "' were NaN or infinite on the calibration data, so ", "that it has no range for ",
                type.name(), "; look at the values that the layer ",
                "reads, since functions such as Log and Power are not defined for all numbers, ",
                "and at the weights and the preparation of the data");
  }
}

}  // namespace caffe
