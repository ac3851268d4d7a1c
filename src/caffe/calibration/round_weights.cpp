#include "round_weights.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "caffe/calibration/comparison.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/multiplexer.hpp"
#include "channel_weights.hpp"
#include "code_choice.hpp"
#include "test_nets.hpp"

namespace caffe {

struct WeightRounding::Layer {
  const WeightedLayer* layer;
  int index = 0;  // in the net
  std::string blob;
  std::vector<float> weights;  // of the file
  LayerFacts::Weighted weighted;
  int64_t inputs = 0;                           // of a sum
  std::vector<std::shared_ptr<BlobBase>> gram;  // for each group: the sum of x x' over rows x
  std::vector<std::vector<double>> sums;        // for each group: the sum of x
  int64_t rows = 0;
  std::mt19937_64 random{1};
};

WeightRounding::WeightRounding(const Net& net, const NetParameter& file, DataType type,
                               bool centred, int64_t batches)
    : type_(type), centred_(centred), batches_(std::max<int64_t>(batches, 1)) {
  for (size_t index = 0; index < net.layers().size(); ++index) {
    const auto* layer = dynamic_cast<const WeightedLayer*>(net.layers()[index].get());
    const std::vector<int>& bottoms = net.bottom_ids(static_cast<int>(index));
    if (!layer || bottoms.size() != 1 || layer->input_rows() == 0) continue;
    if (!HoldsBottoms(net, static_cast<int>(index))) continue;
    auto one = std::make_unique<Layer>();
    one->layer = layer;
    one->index = static_cast<int>(index);
    one->blob = net.blob_names()[bottoms[0]];
    const auto& weights = file.layer(one->index).blobs(0).data();
    one->weights.assign(weights.begin(), weights.end());
    one->weighted = *layer->Facts().weighted;
    const auto count = static_cast<int64_t>(one->weights.size());
    one->inputs = ChannelWeights(one->weighted, count).size();
    const QuantizedParameters::Options options(layer->layer_param(), one->weighted.channels);
    if (options.per_tensor || one->inputs > kMostInputs) continue;
    for (int64_t g = 0; g < layer->input_groups(); ++g) {
      one->gram.push_back(MakeBlob(kFloat, Runtime::Get().cpu(), {one->inputs, one->inputs},
                                   layer->name() + " products of inputs"));
      one->gram.back()->SetData(std::vector<double>(one->inputs * one->inputs, 0));
      one->sums.emplace_back(one->inputs, 0);
    }
    layers_.push_back(std::move(one));
  }
}

WeightRounding::~WeightRounding() = default;

void WeightRounding::Add(const Net& net) {
  Device* const cpu = Runtime::Get().cpu();
  for (const auto& layer : layers_) {
    const int64_t all = layer->layer->input_rows(), wanted = (kRows + batches_ - 1) / batches_;
    const int64_t count = std::min(all, wanted), size = layer->inputs;
    std::vector<int64_t> rows(count);
    for (int64_t i = 0; i < count; ++i) {
      // A random one of each of `count` equal parts.
      const int64_t first = i * all / count, end = (i + 1) * all / count;
      rows[i] = first + static_cast<int64_t>(layer->random() % static_cast<uint64_t>(end - first));
    }
    const std::vector<float> values = RealValues(*net.BlobByName(layer->blob));
    const auto x = MakeBlob(kFloat, cpu, {count, size}, layer->layer->name() + " inputs");
    GemmDescriptor descriptor;
    descriptor.trans_a = true;
    descriptor.m = descriptor.n = size;
    descriptor.k = count;
    const std::unique_ptr<GemmOp> product = Multiplexer::Gemm(cpu, descriptor);
    const auto workspace =
        MakeBlob(kQuant8, cpu, {std::max<int64_t>(product->workspace_bytes(), 1)}, "workspace");
    for (int64_t g = 0; g < layer->layer->input_groups(); ++g) {
      auto* to = static_cast<float*>(x->mutable_host_data());
      layer->layer->GatherRows(values, g, rows, to);
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t i = 0; i < size; ++i) layer->sums[g][i] += to[r * size + i];
      }
      GemmArguments arguments{x->device_data(), x->device_data(),
                              layer->gram[g]->mutable_device_data()};
      arguments.beta = 1;
      arguments.workspace = workspace->mutable_device_data();
      product->Run(arguments);
    }
    layer->rows += count;
  }
}

void WeightRounding::RoundLayer(const Layer& layer, Rounded* rounded) const {
  const ChannelWeights channels(layer.weighted, static_cast<int64_t>(layer.weights.size()));
  const int64_t size = layer.inputs,
                of_group = layer.weighted.channels / layer.layer->input_groups();
  const auto rows = static_cast<double>(layer.rows);
  const double codes = WeightCodes(type_);
  rounded->weights = layer.weights;
  for (int64_t g = 0; g < layer.layer->input_groups(); ++g) {
    std::vector<double> gram = layer.gram[g]->DataAsDouble();
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) {
        double& value = gram[i * size + j];
        value /= rows;
        if (centred_) value -= layer.sums[g][i] / rows * (layer.sums[g][j] / rows);
      }
    }
    const CodeChoice choice(std::move(gram), size);
    std::vector<double> nearest(of_group, 0), chosen(of_group, 0);
#pragma omp parallel for schedule(dynamic)
    for (int64_t j = 0; j < of_group; ++j) {
      const int64_t channel = g * of_group + j;
      std::vector<double> w;
      double largest = 0;
      channels.ForEach(channel, [&](int64_t i) {
        w.push_back(layer.weights[i]);
        largest = std::max(largest, std::abs(w.back()));
      });
      if (largest == 0) continue;
      const double scale = WeightScale(largest, type_);
      for (double& value : w) value /= scale;
      const std::vector<double> q = choice.Choose(w, codes, &nearest[j], &chosen[j]);
      nearest[j] *= scale * scale;
      chosen[j] *= scale * scale;
      size_t next = 0;
      channels.ForEach(
          channel, [&](int64_t i) { rounded->weights[i] = static_cast<float>(scale * q[next++]); });
    }
    for (int64_t j = 0; j < of_group; ++j) {
      rounded->nearest += nearest[j];
      rounded->chosen += chosen[j];
    }
  }
}

std::map<int, WeightRounding::Rounded> WeightRounding::Round(
    const std::function<void(int64_t done, int64_t all)>& progress) const {
  std::map<int, Rounded> result;
  int64_t done = 0;
  for (const auto& layer : layers_) {
    Rounded rounded;
    if (layer->rows > 0) RoundLayer(*layer, &rounded);
    if (rounded.chosen < rounded.nearest) result[layer->index] = std::move(rounded);
    progress(++done, static_cast<int64_t>(layers_.size()));
  }
  return result;
}

}  // namespace caffe
