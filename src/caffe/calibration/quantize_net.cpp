#include "caffe/calibration/quantize_net.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/io/file.hpp"
#include "test_nets.hpp"

namespace caffe {

namespace {

void CheckOptions(const QuantizeOptions& options) {
  CAFFE_CHECK(options.type == kQuant8 || options.type == kQuant16 || options.type == kHalf ||
                  options.type == kBfloat16,
              "a net cannot be quantized to ", options.type.name(),
              " (known: int8 int16 half bfloat16)");
  if (options.dynamic()) {
    CAFFE_CHECK(options.type == kQuant8, "method dynamic is for int8, not for ",
                options.type.name(), ": codes of 16 bits need ranges that were observed");
    CAFFE_CHECK(options.calibration_batches == 0, "method dynamic calibrates nothing, but ",
                options.calibration_batches, " batches are given for it");
    CAFFE_CHECK(!options.adaround && !options.bias_correction && !options.equalize &&
                    !options.tune_ranges && !options.max_drop && options.ranges.empty() &&
                    !options.calibration.power_of_two,
                "method dynamic has no calibration data and no stored ranges: rounding adaround, "
                "bias_correction, equalize, tune_ranges, max_drop, ranges and scales power_of_two "
                "need another method");
  }
  if (options.calibration.power_of_two) {
    CAFFE_CHECK(options.type.is_quantized(), "scales power_of_two are for int8 and int16, not for ",
                options.type.name());
    CAFFE_CHECK(!options.adaround && !options.bias_correction && !options.max_drop,
                "scales power_of_two change the steps of weights: rounding adaround, "
                "bias_correction and max_drop, which choose for other steps, need scales any");
  }
  CAFFE_CHECK(options.calibration_batches > 0 || options.dynamic(),
              "the number of batches to calibrate with is ", options.calibration_batches,
              "; it must be positive");
  CAFFE_CHECK(!options.max_drop || (std::isfinite(*options.max_drop) && *options.max_drop >= 0),
              "max_drop is ", *options.max_drop,
              "; it must be a number of percentage points of at least 0");
  for (const auto& [blob, range] : options.ranges) CheckRange(blob, range);
}

// Milliseconds of the shortest of some forwards.
double ForwardTime(Net* net, Device* device) {
  constexpr int kForwards = 5;
  double best = INFINITY;
  for (int i = 0; i <= kForwards; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    net->Forward();
    device->Synchronize();
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    if (i > 0) best = std::min(best, passed.count());  // the first one makes kernels
  }
  return best;
}

// The nets of the comparison keep all blobs, which takes time: others are measured, without data.
void MeasureTimes(const Prepared& prepared, const TypedNet& typed, QuantizeReport* report) {
  Device* const device = prepared.net.device;
  const auto time = [&](const NetParameter& model, bool known) {
    const auto net = TestNet(model, device);
    if (known) net->UsePlaceholderRanges();
    net->CopyTrainedLayersFrom(*typed.file);
    return ForwardTime(net.get(), device);
  };
  LayerTypes known = prepared.types;
  known.dynamic = false;
  report->float_ms = time(*prepared.net.model, false);
  report->dynamic_ms = time(TypedModel(prepared.net, prepared.types), false);
  report->known_ranges_ms = time(TypedModel(prepared.net, known), true);
}

}  // namespace

Prepared Prepare(FloatNet net, CheckedBatches* batches, const QuantizeOptions& options) {
  Prepared prepared{std::move(net)};
  prepared.types = TypesOf(prepared.net, options);
  if (options.dynamic()) {
    prepared.weights = ChangeWeights(prepared.net, prepared.observed, batches, options);
    return prepared;
  }
  prepared.observed = Observe(prepared.net, batches, options);
  prepared.ranges = ChooseRanges(prepared.net, prepared.observed, options);
  CheckRanges(prepared, batches);
  prepared.weights = ChangeWeights(prepared.net, prepared.observed, batches, options);
  return prepared;
}

QuantizedNet QuantizeNet(const NetParameter& model, const NetParameter& weights,
                         const BatchReader& read, const QuantizeOptions& options) {
  CheckOptions(options);
  const FloatNet net = MakeFloatNet(model, weights, options);
  const BatchReader none = [](int64_t, Batch*) { return false; };
  CheckedBatches batches(net, read ? read : none, options);
  Prepared prepared = Prepare(net, &batches, options);
  if (options.type.is_quantized() && !options.dynamic()) {
    if (options.equalize) prepared = Equalize(std::move(prepared), &batches, options);
    if (options.tune_ranges) prepared = TuneRanges(std::move(prepared), &batches, options);
  }
  if (options.max_drop) prepared = MeetMaxDrop(std::move(prepared), &batches, options);
  const TypedNet typed = MakeTypedNet(prepared);
  Accuracy accuracy;
  if (read || !options.dynamic()) accuracy = Measure(prepared, typed, &batches, options);
  QuantizedNet made{typed.model, typed.file, MakeReport(prepared, typed, accuracy, options)};
  if (options.dynamic()) MeasureTimes(prepared, typed, &made.report);
  return made;
}

std::vector<std::string> QuantizedNetExtensions() {
  return {".caffemodel", ".prototxt", ".json", ".html"};
}

void WriteQuantizedNet(const QuantizedNet& net, const std::string& prefix) {
  AtomicFile weights(prefix + ".caffemodel"), model(prefix + ".prototxt"), json(prefix + ".json"),
      html(prefix + ".html");
  weights.Write(net.weights->SerializeAsString());
  std::string text;
  CAFFE_CHECK(google::protobuf::TextFormat::PrintToString(*net.model, &text), "cannot write ",
              prefix, ".prototxt: the net cannot be printed as text");
  model.Write(text);
  json.Write(ReportJson(net.report));
  html.Write(ReportHtml(net.report));
  AtomicFile::CommitTogether({&weights, &model, &json, &html});
}

}  // namespace caffe
