#include "comparison.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"

namespace caffe {

std::vector<float> RealValues(const BlobBase& blob) {
  std::vector<float> values(blob.count());
  const int64_t count = blob.count();
  if (blob.type().is_quantized()) {
    const auto read = [&](const auto* codes) {
      const QuantRange& range = blob.range();
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(range.scale * (codes[i] - range.zero));
      }
    };
    if (blob.type() == kQuant8) {
      read(static_cast<const uint8_t*>(blob.host_data()));
    } else {
      read(static_cast<const uint16_t*>(blob.host_data()));
    }
  } else {
    ConvertElements(blob.type(), blob.host_data(), kFloat, values.data(), count);
  }
  return values;
}

void Fill(const Batch& batch, Net* net) {
  for (const int index : net->input_blob_indices()) {
    const std::string& name = net->blob_names()[index];
    BlobBase& blob = *net->blobs()[index];
    const auto found = batch.values.find(name);
    CAFFE_CHECK(found != batch.values.end(), "a batch has no values for input ", name);
    const std::vector<float>& values = found->second;
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
