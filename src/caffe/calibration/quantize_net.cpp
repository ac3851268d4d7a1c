#include "caffe/calibration/quantize_net.hpp"

#include <google/protobuf/text_format.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"

namespace caffe {

namespace {

void CheckOptions(const QuantizeOptions& options) {
  CAFFE_CHECK(options.type == kQuant8 || options.type == kQuant16 || options.type == kHalf ||
                  options.type == kBfloat16,
              "a net cannot be quantized to ", options.type.name(),
              " (known: int8 int16 half bfloat16)");
  CAFFE_CHECK(options.calibration_batches > 0, "the number of batches to calibrate with is ",
              options.calibration_batches, "; it must be positive");
  CAFFE_CHECK(!options.max_drop || (std::isfinite(*options.max_drop) && *options.max_drop >= 0),
              "max_drop is ", *options.max_drop,
              "; it must be a number of percentage points of at least 0");
  for (const auto& [blob, range] : options.ranges) CheckRange(blob, range);
}

}  // namespace

Prepared Prepare(FloatNet net, CheckedBatches* batches, const QuantizeOptions& options) {
  Prepared prepared{std::move(net)};
  prepared.types = TypesOf(prepared.net, options);
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
  CheckedBatches batches(net, read, options);
  Prepared prepared = Prepare(net, &batches, options);
  if (options.type.is_quantized()) {
    if (options.equalize) prepared = Equalize(std::move(prepared), &batches, options);
    if (options.tune_ranges) prepared = TuneRanges(std::move(prepared), &batches, options);
  }
  if (options.max_drop) prepared = MeetMaxDrop(std::move(prepared), &batches, options);
  const TypedNet typed = MakeTypedNet(prepared);
  const Accuracy accuracy = Measure(prepared, typed, &batches, options);
  return {typed.model, typed.file, MakeReport(prepared, typed, accuracy, options)};
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
