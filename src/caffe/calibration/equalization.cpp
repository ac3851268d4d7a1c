#include "equalization.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

constexpr double kLeastScale = 1.0 / 256;

// A layer whose top scales with its bottom, channel by channel.
bool KeepsScales(const LayerBase& layer, const LayerFacts& facts) {
  if (facts.function) {
    using Kind = ElementFunction::Kind;
    const Kind kind = facts.function->kind;
    return kind == Kind::kReLU || kind == Kind::kLeaky || kind == Kind::kPReLU;
  }
  // MAX pooling and Dropout.
  return facts.range == LayerFacts::Range::kCarried && !TraitsOf(layer.type()).moves_elements;
}

// Calls function(output channel, input channel, index of the weight).
template <class Function>
void ForEachWeight(int64_t outputs, int64_t inputs, int64_t groups, int64_t count,
                   const Function& function) {
  const int64_t each = inputs / groups, depth = count / outputs, inner = depth / each;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t first = o / (outputs / groups) * each;
    for (int64_t i = 0; i < depth; ++i) function(o, first + i / inner, o * depth + i);
  }
}

}  // namespace

Equalization::Equalization(const Net& net) {
  std::map<int, std::vector<Channel>> channels;  // by blob
  std::map<const BlobBase*, int> users;          // of parameters
  std::set<int> fixed;                           // producers that cannot be scaled
  const auto fix = [&](const std::vector<Channel>& list) {
    for (const Channel& channel : list) fixed.insert(channel.layer);
  };
  for (const auto& layer : net.layers()) {
    for (const auto& blob : layer->blobs()) ++users[blob.get()];
  }
  for (int l = 0; l < static_cast<int>(net.layers().size()); ++l) {
    const LayerBase& layer = *net.layers()[l];
    const LayerFacts facts = layer.Facts();
    const std::vector<int>&bottoms = net.bottom_ids(l), &tops = net.top_ids(l);
    const bool simple = bottoms.size() == 1 && tops.size() == 1;
    std::vector<Channel> result;
    if (facts.weighted && simple) {
      const LayerFacts::Weighted& weighted = *facts.weighted;
      const BlobBase& weights = *layer.blobs()[0];
      const std::vector<Channel>& inputs = channels[bottoms[0]];
      const auto size = static_cast<int64_t>(inputs.size());
      // Convolutions have weights [outputs, inputs of a group, window], InnerProduct [outputs, K].
      const int64_t each = weights.num_axes() > 2 ? weights.shape(1) : size;
      const bool readable = weighted.outer == 1 && weighted.axis == 1 && size > 0 && each > 0 &&
                            size % each == 0 && weighted.channels % (size / each) == 0 &&
                            weights.count() % (weighted.channels * each) == 0 &&
                            users[&weights] == 1 && HoldsBottoms(net, l);
      if (readable) {
        groups_[l] = size / each;
        Consumer consumer{l, net.blob_names()[bottoms[0]], inputs, {}, {}};
        consumer.largest.assign(inputs.size(), 0);
        consumer.square.assign(inputs.size(), 0);
        consumers_.push_back(std::move(consumer));
      } else {
        fix(inputs);
      }
      if (weighted.outer == 1 && weighted.axis == 1 && users[&weights] == 1) {
        producers_[l] = weighted.channels;
        for (int64_t c = 0; c < weighted.channels; ++c) result.push_back({l, c});
      }
    } else if (simple && KeepsScales(layer, facts)) {
      result = channels[bottoms[0]];
    } else if (facts.join && facts.join->axis == 1 && tops.size() == 1) {
      bool known = true;
      for (size_t b = 0; b < bottoms.size(); ++b) {
        const std::vector<Channel>& part = channels[bottoms[b]];
        known = known && static_cast<int64_t>(part.size()) == facts.join->extents[b];
        result.insert(result.end(), part.begin(), part.end());
      }
      if (!known) {
        fix(result);
        result.clear();
      }
    } else {
      for (const int bottom : bottoms) fix(channels[bottom]);
    }
    for (const int top : tops) channels[top] = result;
  }
  for (const int output : net.output_blob_indices()) fix(channels[output]);
  for (const auto& [layer, count] : producers_) parents_[layer] = layer;
  for (const Consumer& consumer : consumers_) {
    for (const Channel& channel : consumer.inputs) {
      parents_[Root(channel.layer)] = Root(consumer.inputs[0].layer);
    }
  }
  // If one producer cannot be scaled, those that are scaled with it are not, either.
  std::set<int> fixed_roots;
  for (const int layer : fixed) fixed_roots.insert(Root(layer));
  for (auto it = producers_.begin(); it != producers_.end();) {
    it = fixed_roots.count(Root(it->first)) ? producers_.erase(it) : std::next(it);
  }
  std::erase_if(consumers_, [&](const Consumer& consumer) {
    return !producers_.count(consumer.inputs[0].layer);
  });
}

int Equalization::Root(int layer) const {
  while (parents_.at(layer) != layer) layer = parents_.at(layer);
  return layer;
}

std::vector<std::string> Equalization::blobs() const {
  std::vector<std::string> names;
  for (const Consumer& consumer : consumers_) names.push_back(consumer.blob);
  return names;
}

void Equalization::Add(const Net& net) {
  for (Consumer& consumer : consumers_) {
    const BlobBase& blob = *net.BlobByName(consumer.blob);
    const std::vector<double> values = blob.DataAsDouble();
    const auto channels = static_cast<int64_t>(consumer.inputs.size());
    const int64_t inner = blob.count(1) / channels;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
      consumer.largest[c] = std::max(consumer.largest[c], std::abs(values[i]));
      consumer.square[c] += values[i] * values[i];
    }
    consumer.count += static_cast<double>(blob.count() / channels);
  }
}

std::map<int, std::vector<double>> Equalization::Scales(int root, double alpha) const {
  std::map<int, std::vector<double>> scales;
  double largest = 0;
  for (const Consumer& consumer : consumers_) {
    if (Root(consumer.inputs[0].layer) != root) continue;
    for (size_t c = 0; c < consumer.inputs.size(); ++c) {
      const Channel& channel = consumer.inputs[c];
      std::vector<double>& list = scales[channel.layer];
      list.resize(producers_.at(channel.layer), 0);
      double& value = list[channel.channel];
      value = std::max(value, consumer.largest[c]);
      largest = std::max(largest, value);
    }
  }
  for (auto& [layer, list] : scales) {
    for (double& value : list) {
      value = value > 0 ? std::max(std::pow(value / largest, alpha), kLeastScale) : 1;
    }
  }
  return scales;
}

double Equalization::Noise(const Consumer& consumer, const NetParameter& file,
                           const std::map<int, std::vector<double>>& scales) const {
  constexpr double kCodes = 255, kWeightCodes = 127;
  const BlobProto& blob = file.layer(consumer.layer).blobs(0);
  const auto inputs = static_cast<int64_t>(consumer.inputs.size());
  const int64_t groups = groups_.at(consumer.layer);
  std::vector<double> scale(inputs), square(inputs);
  double largest = 0;
  for (int64_t c = 0; c < inputs; ++c) {
    const Channel& channel = consumer.inputs[c];
    scale[c] = scales.at(channel.layer)[channel.channel];
    square[c] = consumer.square[c] / consumer.count;
    largest = std::max(largest, consumer.largest[c] / scale[c]);
  }
  int64_t outputs = blob.shape().dim(0);
  std::vector<double> widest(outputs, 0), power(outputs, 0);
  double sum = 0, signal = 0;
  ForEachWeight(outputs, inputs, groups, blob.data_size(), [&](int64_t o, int64_t c, int64_t i) {
    const double weight = blob.data(static_cast<int>(i)), scaled = weight * scale[c];
    widest[o] = std::max(widest[o], std::abs(scaled));
    power[o] += square[c] / (scale[c] * scale[c]);
    sum += scaled * scaled;
    signal += weight * weight * square[c];
  });
  double noise = largest * largest / (kCodes * kCodes) * sum;
  for (int64_t o = 0; o < outputs; ++o) {
    noise += widest[o] * widest[o] / (kWeightCodes * kWeightCodes) * power[o];
  }
  return signal > 0 ? noise / signal : 0;
}

int64_t Equalization::Apply(NetParameter* file) const {
  std::map<int, std::vector<double>> chosen;
  std::set<int> roots;
  for (const auto& [layer, count] : producers_) roots.insert(Root(layer));
  for (const int root : roots) {
    double least = INFINITY;
    std::map<int, std::vector<double>> best;
    for (const double alpha : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const auto scales = Scales(root, alpha);
      if (scales.empty()) break;
      double noise = 0;
      for (const Consumer& consumer : consumers_) {
        if (Root(consumer.inputs[0].layer) == root) noise += Noise(consumer, *file, scales);
      }
      if (!(noise < least)) continue;
      least = noise;
      best = alpha > 0 ? scales : std::map<int, std::vector<double>>();
    }
    chosen.merge(best);
  }
  for (const auto& [layer, scales] : chosen) {
    LayerParameter* producer = file->mutable_layer(layer);
    auto* weights = producer->mutable_blobs(0)->mutable_data();
    const int64_t depth = weights->size() / static_cast<int64_t>(scales.size());
    for (int i = 0; i < weights->size(); ++i) {
      weights->Set(i, static_cast<float>(weights->Get(i) / scales[i / depth]));
    }
    if (producer->blobs_size() < 2) continue;
    auto* bias = producer->mutable_blobs(1)->mutable_data();
    for (int c = 0; c < bias->size(); ++c) {
      bias->Set(c, static_cast<float>(bias->Get(c) / scales[c]));
    }
  }
  for (const Consumer& consumer : consumers_) {
    if (!chosen.count(consumer.inputs[0].layer)) continue;
    BlobProto* blob = file->mutable_layer(consumer.layer)->mutable_blobs(0);
    auto* weights = blob->mutable_data();
    ForEachWeight(blob->shape().dim(0), static_cast<int64_t>(consumer.inputs.size()),
                  groups_.at(consumer.layer), weights->size(), [&](int64_t, int64_t c, int64_t i) {
                    const Channel& channel = consumer.inputs[c];
                    float* weight = weights->Mutable(static_cast<int>(i));
                    *weight =
                        static_cast<float>(*weight * chosen.at(channel.layer)[channel.channel]);
                  });
  }
  return static_cast<int64_t>(chosen.size());
}

}  // namespace caffe
