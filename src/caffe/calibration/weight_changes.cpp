#include "weight_changes.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/calibration/comparison.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "channel_weights.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

// The weights with one rounding to codes of the channel's scale.
std::vector<float> Rounded(const LayerFacts::Weighted& weighted, const BlobProto& blob,
                           DataType type) {
  std::vector<float> rounded(blob.data().begin(), blob.data().end());
  const ChannelWeights channels(weighted, blob.data_size());
  for (int64_t c = 0; c < weighted.channels; ++c) {
    double largest = 0;
    channels.ForEach(c,
                     [&](int64_t i) { largest = std::max<double>(largest, std::abs(rounded[i])); });
    if (largest == 0) continue;
    const double scale = WeightScale(largest, type), codes = WeightCodes(type);
    channels.ForEach(c, [&](int64_t i) {
      const double code = std::clamp(std::round(rounded[i] / scale), -codes, codes);
      rounded[i] = static_cast<float>(scale * code);
    });
  }
  return rounded;
}

}  // namespace

double WeightNoise(const Net& net, const NetParameter& file, int index, DataType type) {
  const LayerBase& layer = *net.layers()[index];
  const std::vector<float> rounded =
      Rounded(*layer.Facts().weighted, file.layer(index).blobs(0), type);
  const std::vector<double> weights = layer.blobs()[0]->DataAsDouble();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    signal += weights[i] * weights[i];
    noise += (weights[i] - rounded[i]) * (weights[i] - rounded[i]);
  }
  return signal == 0 ? 0 : noise / signal;
}

RoundingErrors::RoundingErrors(const FloatNet& float_net, const NetParameter& file, DataType type)
    : differences_(TestNet(*float_net.model, float_net.device)) {
  const Net& net = *float_net.net;
  NetParameter weights = file;
  for (int l = 0; l < weights.layer_size(); ++l) {
    const auto& layer = net.layers()[l];
    const LayerFacts facts = layer->Facts();
    LayerParameter* parameter = weights.mutable_layer(l);
    if (!facts.weighted || !HoldsBottoms(net, l)) continue;
    // The layer rounds the weights of the file; its result should be that of the net's weights.
    const std::vector<float> rounded = Rounded(*facts.weighted, parameter->blobs(0), type);
    const std::vector<double> wanted = layer->blobs()[0]->DataAsDouble();
    auto* data = parameter->mutable_blobs(0)->mutable_data();
    for (size_t i = 0; i < rounded.size(); ++i) {
      data->Set(static_cast<int>(i), static_cast<float>(rounded[i] - wanted[i]));
    }
    Sum& sum = sums_[l];
    sum.errors.assign(facts.weighted->channels, 0);
    sum.has_bias = facts.weighted->has_bias;
    if (!sum.has_bias) continue;
    for (float& value : *parameter->mutable_blobs(1)->mutable_data()) value = 0;
  }
  differences_->CopyTrainedLayersFrom(weights);
}

void RoundingErrors::Add(const Net& net) {
  const auto& layers = differences_->layers();
  for (auto& [index, sum] : sums_) {
    for (const int bottom : differences_->bottom_ids(index)) {
      const std::string& name = differences_->blob_names()[bottom];
      const BlobBase& source = *net.BlobByName(name);
      BlobBase& target = *differences_->blobs()[bottom];
      target.ReshapeLike(source);
      target.CopyDataFrom(source);
    }
    differences_->Forward(index, index);
    const LayerFacts::Weighted weighted = *layers[index]->Facts().weighted;
    for (const int top : differences_->top_ids(index)) {
      const BlobBase& blob = *differences_->blobs()[top];
      const std::vector<float> values = RealValues(blob);
      const int64_t inner = blob.count(weighted.axis + 1);
      const float* value = values.data();
      for (int64_t row = 0; row < blob.count() / std::max<int64_t>(inner, 1); ++row) {
        double total = 0, square = 0;
        for (int64_t i = 0; i < inner; ++i) {
          const double error = *value++;
          total += error;
          square += error * error;
        }
        sum.errors[row % weighted.channels] += total;
        sum.square += square;
      }
      sum.count += static_cast<double>(blob.count() / weighted.channels);
    }
  }
}

double RoundingErrors::Square(int layer, bool corrects_biases) const {
  const Sum& sum = sums_.at(layer);
  double square = sum.square;
  if (corrects_biases && sum.has_bias) {
    for (const double error : sum.errors) square -= error * error / std::max(sum.count, 1.0);
  }
  return std::max(square, 0.0);
}

int64_t RoundingErrors::CorrectBiases(NetParameter* file) const {
  int64_t changed = 0;
  for (const auto& [layer, sum] : sums_) {
    if (sum.count == 0 || !sum.has_bias) continue;
    BlobProto* bias = file->mutable_layer(layer)->mutable_blobs(1);
    for (size_t c = 0; c < sum.errors.size(); ++c) {
      float* value = bias->mutable_data()->Mutable(static_cast<int>(c));
      *value = static_cast<float>(*value - sum.errors[c] / sum.count);
    }
    ++changed;
  }
  return changed;
}

}  // namespace caffe
