// Weights to be quantized: rounded ones, and corrected biases.
#include "caffe.pb.h"
#include "caffe/calibration/steps.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "round_weights.hpp"
#include "weight_changes.hpp"

namespace caffe {
namespace {

// Chooses codes that reconstruct the layers' sums, where they are better than the nearest ones.
void RoundWeights(const FloatNet& net, const Observed& observed, CheckedBatches* batches,
                  const QuantizeOptions& options, ChangedWeights* weights) {
  WeightRounding rounding(*net.net, *weights->file, options.type, options.bias_correction,
                          observed.batches);
  ForEachForward(net, observed, batches, "reading inputs of layers",
                 [&] { rounding.Add(*net.net); });
  const auto rounded = rounding.Round(
      [&](int64_t done, int64_t all) { options.Show("rounding weights", done, all); });
  NetParameter chosen = *weights->file;
  for (const auto& [layer, result] : rounded) {
    chosen.mutable_layer(layer)->mutable_blobs(0)->mutable_data()->Assign(result.weights.begin(),
                                                                          result.weights.end());
  }
  // On all rows of the calibration data, not only on those that were read.
  RoundingErrors before(net, *weights->file, options.type);
  RoundingErrors after(net, chosen, options.type);
  ForEachForward(net, observed, batches, "comparing rounded weights", [&] {
    before.Add(*net.net);
    after.Add(*net.net);
  });
  for (const auto& [layer, result] : rounded) {
    const double nearest = before.Square(layer, options.bias_correction),
                 adapted = after.Square(layer, options.bias_correction);
    if (!(adapted < nearest)) continue;
    *weights->file->mutable_layer(layer) = chosen.layer(layer);
    weights->gains[layer] = Decibels(nearest, adapted);
  }
}

}  // namespace

ChangedWeights ChangeWeights(const FloatNet& net, const Observed& observed, CheckedBatches* batches,
                             const QuantizeOptions& options) {
  ChangedWeights weights;
  weights.file = std::make_shared<NetParameter>();
  net.net->ToProto(weights.file.get());
  weights.file->clear_quantizer();
  if (!options.type.is_quantized()) return weights;
  if (options.adaround) RoundWeights(net, observed, batches, options, &weights);
  if (!options.bias_correction) return weights;
  RoundingErrors errors(net, *weights.file, options.type);
  ForEachForward(net, observed, batches, "correcting biases", [&] { errors.Add(*net.net); });
  weights.corrected_biases = errors.CorrectBiases(weights.file.get());
  return weights;
}

}  // namespace caffe
