// The passes round, round_levels and quantize_weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/packed_parameter.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "maps.hpp"

namespace caffe {
namespace {

// Smaller parameters (biases, statistics) cost little and stay exact.
constexpr int64_t kLarge = 4096;

// The value that a float becomes in a type without a table.
float Rounded(const TypeFunctions& functions, float value) {
  uint32_t code;
  functions.Codes(&value, &code, 1);
  functions.Values(&code, &value, 1);
  return value;
}

// The largest finite value: what the largest float becomes that does not become infinity or NaN.
double LargestValue(const TypeFunctions& functions) {
  uint32_t low = 0, high = std::bit_cast<uint32_t>(std::numeric_limits<float>::max());
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;
    if (std::isfinite(Rounded(functions, std::bit_cast<float>(middle)))) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return Rounded(functions, std::bit_cast<float>(low));
}

// The largest number that is stored without an overflow.
double LargestRounded(DataType type) {
  // Half rounds to infinity from 65520 on.
  if (type == kHalf) return std::nextafter(65520, 0);
  if (type == kBfloat16) return std::nextafter(0x1.ffp127, 0);
  if (HasFunctions(type)) return LargestValue(FunctionsOf(type));
  return TableOf(type).largest();
}

// Whether a parameter has the weights of a layer, or of a layer in its nets: recurrent layers and
// mixtures of experts, whose weights have several axes with the output channels first.
bool IsWeights(const LayerBase& layer, int parameter) {
  if (dynamic_cast<const CompositeLayer*>(&layer)) return layer.blobs()[parameter]->num_axes() > 1;
  return parameter == 0 && layer.Facts().weighted.has_value();
}

// The equal parts of a parameter with weights that have a scale each.
int64_t ScalesOf(const LayerBase& layer, int parameter) {
  const auto weighted = layer.Facts().weighted;
  if (!weighted) return layer.blobs()[parameter]->shape(0);
  return weighted->outer == 1 ? weighted->channels : 1;
}

// The scales of codes are stored beside the ranges of blobs.
void CheckNamesOfRanges(const NetParameter& model) {
  std::vector<std::string> ranges;
  for (int i = 0; i < model.layer_size(); ++i) {
    for (int t = 0; t < model.layer(i).top_size(); ++t) ranges.push_back(RangeName(model, i, t));
  }
  CheckRangeNames(model, ranges);
}

bool IsFinite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

// Rounds values to the nearest of some numbers with equal distances between the smallest and the
// largest value. 0 is one of the numbers if both signs occur: most weights of a pruned net are 0,
// and moving all of them to one side changes every sum.
void ToLevels(int levels, std::vector<double>* values) {
  const auto [low, high] = std::minmax_element(values->begin(), values->end());
  const double first = *low, last = *high;
  const bool zero = first < 0 && last > 0 && levels > 2;
  const int steps = levels - 1 - (zero ? 1 : 0);
  const double step = (last - first) / steps;
  for (double& value : *values) {
    const double level = step > 0 ? std::round((value - first) / step) : 0;
    const double rounded = level == steps ? last : first + level * step;
    const bool to_zero = zero && std::abs(value) < std::abs(value - rounded);
    value = to_zero ? 0 : rounded;
  }
}

}  // namespace

NetParameter RoundWeights(NetParameter model, DataType type, TransformNotes* notes) {
  CAFFE_CHECK(type == kHalf || type == kBfloat16 || type.is_custom(),
              "weights are rounded to half, bfloat16 or a type of a user, not ", type.name());
  const double limit = type.is_scaled() ? std::numeric_limits<double>::max() : LargestRounded(type);
  const auto net = MakeNet(model);
  const std::vector<std::string> names = UniqueLayerNames(model);
  if (type.is_scaled()) CheckNamesOfRanges(model);
  int rounded = 0;
  for (int i = 0; i < model.layer_size(); ++i) {
    LayerParameter* layer = model.mutable_layer(i);
    const LayerBase& made = *net->layers()[i];
    for (int b = 0; b < layer->blobs_size(); ++b) {
      const BlobBase& blob = *made.blobs()[b];
      if (!IsWeights(made, b) && blob.count() < kLarge) continue;
      const std::vector<double> values = blob.DataAsDouble();
      if (std::any_of(values.begin(), values.end(),
                      [&](double value) { return !(std::abs(value) <= limit); })) {
        notes->push_back(Concat(LayerTitle(*layer), ", parameter ", b, ", stays: ",
                                IsFinite(values) ? "values beyond the range of " + type.name()
                                                 : "it has values that are infinite or NaN"));
        continue;
      }
      ++rounded;
      if (type.is_scaled()) {
        if (values.empty()) continue;
        const int64_t channels = IsWeights(made, b) ? ScalesOf(made, b) : 1;
        StoreCodes(values.data(), static_cast<int64_t>(values.size()), channels, type, names[i], b,
                   layer->mutable_blobs(b), &model);
        continue;
      }
      std::string bytes(type.FileBytes(blob.count()), '\0');
      ConvertElements(kDouble, values.data(), type, bytes.data(), values.size());
      StorePacked(type, std::move(bytes), layer->mutable_blobs(b));
    }
  }
  notes->push_back(Concat(rounded, rounded == 1 ? " parameter is" : " parameters are",
                          " stored as ", type.name()));
  return model;
}

NetParameter RoundToLevels(NetParameter model, int levels, TransformNotes* notes) {
  if (levels == 0) levels = kDefaultLevels;
  CAFFE_CHECK(levels >= 2, "weights need 2 levels at least, not ", levels);
  const auto net = MakeNet(model);
  int rounded = 0;
  for (int i = 0; i < model.layer_size(); ++i) {
    LayerParameter* layer = model.mutable_layer(i);
    const LayerBase& made = *net->layers()[i];
    for (int b = 0; b < layer->blobs_size(); ++b) {
      const BlobBase& blob = *made.blobs()[b];
      if (!IsWeights(made, b) && blob.count() < kLarge) continue;
      std::vector<double> values = blob.DataAsDouble();
      if (values.empty()) continue;
      if (!IsFinite(values)) {
        notes->push_back(Concat(LayerTitle(*layer), ", parameter ", b,
                                ", stays: it has values that are infinite or NaN"));
        continue;
      }
      ToLevels(levels, &values);
      SetValues(values, blob.shape(), layer->mutable_blobs(b));
      ++rounded;
    }
  }
  notes->push_back(Concat(rounded, rounded == 1 ? " parameter has" : " parameters have",
                          " at most ", levels, " different values"));
  return model;
}

NetParameter QuantizeWeights(NetParameter model, DataType type, TransformNotes* notes) {
  CAFFE_CHECK(type.is_quantized(), "weights are quantized to int8 or int16, not ", type.name());
  const auto net = MakeNet(model);
  const std::vector<std::string> names = UniqueLayerNames(model);
  CheckNamesOfRanges(model);
  int quantized = 0;
  for (int i = 0; i < model.layer_size(); ++i) {
    LayerParameter* layer = model.mutable_layer(i);
    const LayerBase& made = *net->layers()[i];
    bool stored = false;
    for (int b = 0; b < layer->blobs_size(); ++b) {
      if (!IsWeights(made, b)) continue;
      const std::vector<double> values = made.blobs()[b]->DataAsDouble();
      if (values.empty()) continue;
      if (!IsFinite(values)) {
        notes->push_back(LayerTitle(*layer) + (b > 0 ? Concat(", parameter ", b, ",") : "") +
                         " stays: its weights are not finite");
        continue;
      }
      StoreCodes(values.data(), static_cast<int64_t>(values.size()), ScalesOf(made, b), type,
                 names[i], b, layer->mutable_blobs(b), &model);
      stored = true;
    }
    quantized += stored;
  }
  notes->push_back(Concat("the weights of ", quantized, quantized == 1 ? " layer" : " layers",
                          " are stored as codes of ", type.name()));
  return model;
}

}  // namespace caffe
