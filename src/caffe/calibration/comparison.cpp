#include "caffe/calibration/comparison.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/quant/codes.hpp"

namespace caffe {

std::vector<float> RealValues(const BlobBase& blob) {
  std::vector<float> values(blob.count());
  const int64_t count = blob.count();
  if (blob.type().has_range()) {
    DecodeCodes(blob.host_data(), count, blob.range(), blob.type(), values.data());
  } else {
    ConvertElements(blob.type(), blob.host_data(), kFloat, values.data(), count);
  }
  return values;
}

Shape InputShape(const Net& net, int blob) {
  for (size_t l = 0; l < net.layers().size(); ++l) {
    const std::vector<int>& tops = net.top_ids(static_cast<int>(l));
    const LayerParameter& layer = net.layers()[l]->layer_param();
    const auto top = std::find(tops.begin(), tops.end(), blob);
    if (top == tops.end() || !layer.has_input_param()) continue;
    const InputParameter& input = layer.input_param();
    const auto position = static_cast<int>(top - tops.begin());
    const BlobShape& shape = input.shape(input.shape_size() == 1 ? 0 : position);
    return {shape.dim().begin(), shape.dim().end()};
  }
  return net.blobs()[blob]->shape();
}

bool HasOtherSizes(const Batch& batch, const Net& net) {
  return std::any_of(
      net.input_blob_indices().begin(), net.input_blob_indices().end(), [&](int index) {
        const auto given = batch.shapes.find(net.blob_names()[index]);
        if (given == batch.shapes.end() || given->second.size() != 4) return false;
        const Shape own = InputShape(net, index), &other = given->second;
        return own.size() == 4 && own[1] == other[1] && (own[2] != other[2] || own[3] != other[3]);
      });
}

void Forward(const Batch& batch, Net* net) {
  const bool other_sizes = HasOtherSizes(batch, *net);
  for (const int index : net->input_blob_indices()) {
    const std::string& name = net->blob_names()[index];
    BlobBase& blob = *net->blobs()[index];
    const auto found = batch.values.find(name);
    CAFFE_CHECK(found != batch.values.end(), "a batch has no values for input ", name);
    const std::vector<float>& values = found->second;
    const auto shape = batch.shapes.find(name);
    const bool reshaped = other_sizes && shape != batch.shapes.end();
    blob.Reshape(reshaped ? shape->second : InputShape(*net, index));
    const auto given = static_cast<int64_t>(values.size());
    const int64_t item = blob.count() / std::max<int64_t>(blob.num_axes() ? blob.shape(0) : 1, 1);
    CAFFE_CHECK(given > 0 && given <= blob.count() && given % item == 0, "a batch has ", given,
                " values for input ", name, " of shape ", blob.shape_string(),
                "; give that many, or fewer items");
    // A short batch is repeated.
    std::vector<double> numbers(blob.count());
    for (int64_t i = 0; i < blob.count(); ++i) numbers[i] = values[i % given];
    blob.SetData(numbers);
  }
  net->Forward();
}

double Decibels(double signal, double noise) {
  return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
}

void Comparison::Add(const std::vector<float>& real, const std::vector<float>& quantized) {
  for (size_t i = 0; i < real.size(); ++i) {
    const double a = real[i], b = quantized[i];
    if (!std::isfinite(a) || !std::isfinite(b)) {
      ++not_finite;
      lost += !(a == b || (std::isnan(a) && std::isnan(b)));
      continue;
    }
    signal += a * a;
    other += b * b;
    product += a * b;
    noise += (a - b) * (a - b);
  }
  count += static_cast<double>(real.size());
}

void Comparison::AddOwn(const std::vector<float>& real, const QuantRange& range, DataType type) {
  const double low = range.scale * (type.info().code_min - range.zero),
               high = range.scale * (type.info().code_max - range.zero), half = range.scale / 2;
  for (const float value : real) {
    if (!std::isfinite(value)) continue;
    const double rounded = std::clamp(std::round(value / range.scale) * range.scale, low, high);
    own_noise += (value - rounded) * (value - rounded);
    clipped += value < low - half || value > high + half;
  }
}

double Comparison::snr() const { return undefined() ? NAN : Decibels(signal, noise); }

double Comparison::cosine() const {
  if (undefined()) return NAN;
  const double length = std::sqrt(signal) * std::sqrt(other);
  return length > 0 ? product / length : signal == other;
}

double Comparison::total_noise() const { return lost > 0 ? INFINITY : noise; }

double Comparison::relative_noise() const { return total_noise() / std::max(signal, 1e-300); }

}  // namespace caffe
