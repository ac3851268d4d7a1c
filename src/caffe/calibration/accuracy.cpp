// The quantized net beside the float net on held-out batches.
#include <algorithm>

#include "caffe.pb.h"
#include "caffe/calibration/checked_batches.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostKnownAnswers = 1 << 24;  // if there are more, the float net runs again

void Add(const Scores& scores, const std::vector<Answer>& mine, const FloatAnswers& floats,
         Accuracy* sum) {
  const auto& [theirs, labels] = floats;
  for (size_t k = 0; k < mine.size(); ++k) {
    const float label = k < labels.size() ? labels[k] : kUnknownLabel;
    if (scores.ignore_label && k < labels.size() &&
        label == static_cast<float>(*scores.ignore_label)) {
      continue;
    }
    ++sum->positions;
    sum->same += mine[k].best == theirs[k].best && mine[k].best >= 0;  // NaN equals nothing
    if (label == kUnknownLabel) continue;
    ++sum->labels;
    sum->right += scores.Right(mine[k], label);
    sum->float_right += scores.Right(theirs[k], label);
  }
}

void Compare(const Prepared& prepared, const Net& net, std::map<std::string, Comparison>* blobs) {
  for (const std::string& name : net.blob_names()) {
    const std::vector<float> real = RealValues(*prepared.net.net->BlobByName(name));
    Comparison& comparison = (*blobs)[name];
    comparison.Add(real, RealValues(*net.BlobByName(name)));
    if (const auto range = RangeOf(net, prepared, name)) {
      comparison.AddOwn(real, range->first, range->second);
    }
  }
}

}  // namespace

FloatAnswers AnswersOf(const FloatNet& net, const Batch& batch, int64_t index) {
  if (net.scores.blob.empty()) {
    CAFFE_CHECK(batch.labels.empty(),
                "there are labels, but the net has no scores of classes: ", net.scores.why,
                "; give the batches without labels, or name the scores");
    return {};
  }
  const Positions positions = PositionsOf(*net.net, net.scores, batch.items);
  return {AnswersOf(*net.net, net.scores, positions),
          LabelsOf(*net.net, net.scores, positions, batch, index)};
}

Accuracy Measure(const Prepared& prepared, const TypedNet& typed, CheckedBatches* batches,
                 const QuantizeOptions& options, std::map<int64_t, FloatAnswers>* known) {
  const FloatNet& float_net = prepared.net;
  const Scores& scores = float_net.scores;
  const bool compare = !known;
  Net& net = *typed.net;
  float_net.Restart();
  if (compare) {
    net.Keep(net.blob_names());
    float_net.net->Keep(float_net.net->blob_names());
  }
  Accuracy accuracy;
  int64_t compared = 0, answered = 0;
  const int64_t first = prepared.observed.batches, wanted = options.held_out_batches;
  const int64_t end = wanted < 0 ? INT64_MAX : first + wanted;
  int64_t all = std::max<int64_t>(options.batches - first, 0);
  if (wanted > 0) all = all > 0 ? std::min(all, wanted) : wanted;
  const auto measure = [&](int64_t index, const Batch& batch) {
    const bool runs = compare || !known->count(index);
    FloatAnswers fresh;
    if (runs) {
      Forward(batch, float_net.net.get());
      fresh = AnswersOf(float_net, batch, index);
    }
    Forward(batch, &net);
    if (!scores.blob.empty()) {
      Add(scores, AnswersOf(net, scores, PositionsOf(net, scores, batch.items)),
          runs ? fresh : known->at(index), &accuracy);
    }
    if (runs && known && !fresh.answers.empty()) {
      answered += static_cast<int64_t>(fresh.answers.size());
      (*known)[index] = std::move(fresh);
      // All are kept or none, since recurrent layers go on in the next batch.
      if (answered > kMostKnownAnswers) known->clear();
    }
    accuracy.items += batch.items;
    ++compared;
    if (compare) Compare(prepared, net, &accuracy.blobs);
  };
  batches->ForEach(compare ? "comparing layers" : "measuring accuracy", first, end, all, measure);
  CAFFE_CHECK(accuracy.items > 0,
              "no data is left to compare with the float net: ", prepared.observed.items,
              " items were used to calibrate; give more, or ", "calibrate with fewer batches");
  if (compare && wanted > 0 && compared < wanted) {
    log::Warning(Concat("the data end after ", compared,
                        " batches to compare with the float net, not ", wanted));
  }
  return accuracy;
}

std::optional<std::pair<QuantRange, DataType>> RangeOf(const Net& net, const Prepared& prepared,
                                                       const std::string& name) {
  const BlobBase& blob = *net.BlobByName(name);
  if (blob.type().is_quantized()) return std::pair{blob.range(), blob.type()};
  const auto chosen = prepared.ranges.find(name);
  if (!prepared.types.type.is_quantized() || chosen == prepared.ranges.end()) return std::nullopt;
  // An input is quantized by the layers that read it.
  bool input = false;
  for (size_t i = 0; i < net.layers().size(); ++i) {
    const LayerBase& layer = *net.layers()[i];
    const auto is_blob = [&](int id) { return net.blob_names()[id] == name; };
    const auto& tops = net.top_ids(static_cast<int>(i));
    const auto& bottoms = net.bottom_ids(static_cast<int>(i));
    input |= IsDataLayer(layer.layer_param()) && std::any_of(tops.begin(), tops.end(), is_blob);
    if (!input || !layer.types().in.is_quantized()) continue;
    if (std::none_of(bottoms.begin(), bottoms.end(), is_blob)) continue;
    return std::pair{AffineRange(chosen->second, layer.types().in), layer.types().in};
  }
  return std::nullopt;
}

}  // namespace caffe
