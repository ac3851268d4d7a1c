// The net with equalized channels beside the net as given.
#include <algorithm>

#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "equalization.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

// The square of the difference of the outputs on the current batch, as a part of their square.
double Change(const FloatNet& net, const Net& real, const Net& other) {
  Comparison comparison;
  comparison.Add(RealValues(*real.BlobByName(net.output())),
                 RealValues(*other.BlobByName(net.output())));
  return comparison.relative_noise();
}

// The noise of the scores, or of an output, on the first calibration batch, as a part of them.
double OutputNoise(const Prepared& prepared, const std::vector<Batch>& first) {
  const TypedNet typed = MakeTypedNet(prepared);
  prepared.net.Restart();
  for (const Batch& batch : first) {
    Forward(batch, prepared.net.net.get());
    Forward(batch, typed.net.get());
  }
  return Change(prepared.net, *prepared.net.net, *typed.net);
}

}  // namespace

Prepared Equalize(Prepared given, CheckedBatches* batches, const QuantizeOptions& options) {
  CAFFE_CHECK(given.net.ranges.empty(),
              "equalize scales blobs, so that given ranges do not fit: ", "use one of them");
  Net& net = *given.net.net;
  Equalization equalization(net);
  if (equalization.blobs().empty()) return given;
  const int64_t count = given.observed.batches;
  const std::vector<Batch> first = batches->First(1, 0, count);
  const double noise = OutputNoise(given, first);
  net.Keep(equalization.blobs());
  batches->ForEach("equalizing channels", 0, count, count, [&](int64_t, const Batch& batch) {
    Forward(batch, &net);
    equalization.Add(net);
  });
  NetParameter file;
  net.ToProto(&file);
  file.clear_quantizer();
  const int64_t layers = equalization.Apply(&file);
  if (layers == 0) return given;
  FloatNet other = given.net;
  other.net = TestNet(*other.model, other.device);
  other.net->CopyTrainedLayersFrom(file);
  Prepared equalized = Prepare(std::move(other), batches, options);
  equalized.equalized_layers = layers;
  const double less = OutputNoise(equalized, first);
  for (const Batch& batch : first) {
    Forward(batch, &net);
    Forward(batch, equalized.net.net.get());
  }
  const double change = Change(given.net, net, *equalized.net.net);
  CAFFE_CHECK(change < 1e-6, "equalized channels changed the float net: relative square ", change);
  const std::string& scores = given.net.scores.blob;
  log::Info(Concat("noise of ", scores.empty() ? "the output" : scores, " on a batch: ",
                   Decibels(1, noise), " dB, with equalized channels ", Decibels(1, less), " dB"));
  if (less < noise) return equalized;
  return given;
}

}  // namespace caffe
