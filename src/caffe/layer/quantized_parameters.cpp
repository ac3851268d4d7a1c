#include "caffe/layer/quantized_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

std::vector<const BlobBase*> Blobs(const QuantizedParameters::Source& source) {
  std::vector<const BlobBase*> blobs{source.weights};
  if (source.bias) blobs.push_back(source.bias);
  if (source.slopes) blobs.push_back(source.slopes);
  return blobs;
}

template <class Code>
int64_t StoreRow(const float* weights, int64_t depth, int64_t step, double scale, int64_t most,
                 Code* codes) {
  int64_t sum = 0;
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t rounded = std::llround(static_cast<double>(weights[i * step]) / scale);
    const int64_t value = std::clamp(rounded, -most, most);
    codes[i] = static_cast<Code>(value + most + 1);
    sum += value;
  }
  return sum;
}

}  // namespace

QuantizedParameters::Options::Options(const LayerParameter& layer, int64_t channels) {
  if (layer.blobs_quantizer_size() == 0) return;
  const QuantizerParameter& quantizer = layer.blobs_quantizer(0);
  per_tensor = quantizer.per_tensor();
  const std::string name = layer.name() + "_blobs_0_quant";
  StoredRange range{quantizer.observed_min(), quantizer.observed_max(), {}, {}};
  range.channel_low.assign(quantizer.channel_min().begin(), quantizer.channel_min().end());
  range.channel_high.assign(quantizer.channel_max().begin(), quantizer.channel_max().end());
  const bool given = quantizer.has_observed_min() && quantizer.has_observed_max();
  if ((!given && range.channel_low.empty() && range.channel_high.empty()) ||
      !IsRange(name, range)) {
    return;
  }
  const size_t count = range.channel_low.size();
  CAFFE_CHECK(count == 0 || count == static_cast<size_t>(channels), layer.name(), " (",
              layer.type(), "): blobs_quantizer has ranges of ", count, " channels for ", channels);
  for (size_t c = 0; c < count; ++c) {
    limits.emplace_back(range.channel_low[c], range.channel_high[c]);
  }
  if (count == 0) limits.emplace_back(range.low, range.high);
}

QuantizedParameters::QuantizedParameters(const Source& source, DataType type, Device* device)
    : Derived(Blobs(source)), source_(source), type_(type), device_(device) {
  depth_ = source.weights->count() / source.channels;
  codes_ = MakeBlob(type, device, {source.channels, depth_},
                    source.weights->name() + " as " + type.name());
  channels_ = MakeBlob(kQuant8, device, {24 * source.channels},
                       source.weights->name() + ": bias and factors of channels");
}

void QuantizedParameters::SetRanges(const QuantRange& in, const QuantRange& out) {
  in_ = in;
  out_ = out;
  const double key[] = {in.scale, static_cast<double>(in.zero), out.scale,
                        static_cast<double>(out.zero)};
  SetKey({reinterpret_cast<const char*>(key), sizeof(key)});
}

void QuantizedParameters::Build() {
  const int64_t channels = source_.channels;
  const double most = type_ == kQuant8 ? 127 : 32767,
               most_bias = type_ == kQuant8 ? 0x1p30 : 0x1p46;
  const float* weights = static_cast<const float*>(source_.weights->host_data());
  const float* bias = source_.bias ? static_cast<const float*>(source_.bias->host_data()) : nullptr;
  const int64_t channel_step = source_.transposed ? 1 : depth_;
  const int64_t step = source_.transposed ? channels : 1;
  scales_.assign(channels, 0);
  for (int64_t c = 0; c < channels; ++c) {
    double largest = 0;
    bool finite = !bias || std::isfinite(bias[c]);
    for (int64_t i = 0; i < depth_; ++i) {
      const double value = weights[c * channel_step + i * step];
      finite = finite && std::isfinite(value);
      largest = std::max(largest, std::abs(value));
    }
    CAFFE_CHECK(finite, "blob ", source_.weights->name(),
                " or its bias holds infinities or NaN in ", "channel ", c,
                "; it cannot be quantized");
    scales_[c] = largest / most;
    if (!source_.options.limits.empty()) {
      const auto& [low, high] = source_.options.limits[source_.options.limits.size() == 1 ? 0 : c];
      scales_[c] = std::max(std::abs(low) / (most + 1), std::abs(high) / most);
    }
    if (bias) scales_[c] = std::max(scales_[c], std::abs(bias[c]) / (in_.scale * most_bias));
  }
  if (source_.options.per_tensor)
    scales_.assign(channels, *std::max_element(scales_.begin(), scales_.end()));
  for (double& scale : scales_) scale = scale == 0 ? 1 : std::max(scale, 0x1p-126);

  char* codes = static_cast<char*>(codes_->mutable_host_data());
  std::vector<int64_t> bias_codes(channels);
  // Multipliers and shifts, then those of sums below 0.
  std::vector<int32_t> factors(4 * channels);
  for (int64_t c = 0; c < channels; ++c) {
    const float* row = weights + c * channel_step;
    const int64_t limit = static_cast<int64_t>(most);
    const int64_t sum = type_ == kQuant8
                            ? StoreRow(row, depth_, step, scales_[c], limit,
                                       reinterpret_cast<uint8_t*>(codes) + c * depth_)
                            : StoreRow(row, depth_, step, scales_[c], limit,
                                       reinterpret_cast<uint16_t*>(codes) + c * depth_);
    const double product = in_.scale * scales_[c];
    const double code = bias ? std::clamp(bias[c] / product, -most_bias, most_bias) : 0;
    bias_codes[c] = std::llround(code) - in_.zero * sum;
    const Requant factor = Requant::FromReal(product / out_.scale);
    factors[c] = factor.multiplier;
    factors[channels + c] = factor.shift;
    const double slope = Slope(c);
    const Requant negative = Requant::FromReal(std::abs(slope) * (product / out_.scale));
    factors[2 * channels + c] = slope < 0 ? -negative.multiplier : negative.multiplier;
    factors[3 * channels + c] = negative.shift;
  }
  char* bytes = static_cast<char*>(channels_->mutable_host_data());
  std::memcpy(bytes, bias_codes.data(), 8 * channels);
  std::memcpy(bytes + 8 * channels, factors.data(), 16 * channels);
  // Uploaded now, not in the forward that follows.
  codes_->device_data();
  channels_->device_data();
}

double QuantizedParameters::Slope(int64_t channel) const {
  if (source_.activation.kind != Activation::Kind::kPReLU) {
    return source_.activation.HasSlope() ? source_.activation.a : 0;
  }
  const float* slopes = static_cast<const float*>(source_.slopes->host_data());
  const float slope = slopes[source_.slopes->count() == 1 ? 0 : channel];
  CAFFE_CHECK(std::isfinite(slope), "blob ", source_.slopes->name(), " holds ", slope,
              " for channel ", channel, "; a slope must be finite");
  return slope;
}

int64_t QuantizedParameters::channel_bytes() const {
  return (source_.activation.HasSlope() ? 24 : 16) * source_.channels;
}

QuantArguments QuantizedParameters::arguments() const {
  const DevicePtr channels = channels_->device_data();
  QuantArguments arguments{channels,
                           channels + 8 * source_.channels,
                           channels + 12 * source_.channels,
                           in_.zero,
                           out_.zero,
                           out_.scale};
  if (!source_.activation.HasSlope()) return arguments;
  arguments.negative_multiplier = channels + 16 * source_.channels;
  arguments.negative_shift = channels + 20 * source_.channels;
  return arguments;
}

}  // namespace caffe
