#include "caffe/layer/quantized_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/quant/codes.hpp"
#include "caffe/quant/layer_ranges.hpp"
#include "caffe/quant/packed_parameter.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

std::vector<const BlobBase*> Blobs(const QuantizedParameters::Source& source) {
  std::vector<const BlobBase*> blobs{source.weights};
  if (source.bias) blobs.push_back(source.bias);
  if (source.slopes) blobs.push_back(source.slopes);
  return blobs;
}

// The largest magnitude of a code - zero point, and of the code of a bias.
double Most(DataType type) { return type == kQuant8 ? 127 : 32767; }
double MostBias(DataType type) { return type == kQuant8 ? 0x1p30 : 0x1p46; }

const float* Floats(const BlobBase* blob) {
  return blob ? static_cast<const float*>(blob->host_data()) : nullptr;
}

}  // namespace

QuantizedParameters::Options::Options(const LayerParameter& layer, int64_t channels) {
  limits = ReadLayerRanges(layer).weights;
  const char* field = "quantization_param";
  if (layer.blobs_quantizer_size() > 0) {
    const QuantizerParameter& quantizer = layer.blobs_quantizer(0);
    per_tensor = quantizer.per_tensor();
    const bool given = quantizer.has_observed_min() && quantizer.has_observed_max();
    if (given || !quantizer.channel_min().empty() || !quantizer.channel_max().empty()) {
      limits = ReadRange(ParameterQuantizer(layer.name(), 0), quantizer);
      field = "blobs_quantizer";
    }
  }
  const size_t count = limits ? limits->low.size() : 0;
  CAFFE_CHECK(count == 0 || count == static_cast<size_t>(channels), layer.name(), " (",
              layer.type(), "): ", field, " has ranges of ", count, " channels for ", channels);
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

template <class Function>
void QuantizedParameters::ForEachPiece(int64_t channel, const Function& function) const {
  const int64_t per_group = source_.channels / source_.group, inner = depth_ / source_.outer;
  const int64_t first = channel / per_group * source_.outer * per_group + channel % per_group;
  for (int64_t o = 0; o < source_.outer; ++o) function((first + o * per_group) * inner, inner);
}

// The weights of each channel in float.
class QuantizedParameters::Rows {
 public:
  explicit Rows(const QuantizedParameters& parameters)
      : parameters_(parameters),
        packed_(PackedParameter::Of(*parameters.source_.weights)),
        weights_(packed_ ? nullptr : Floats(parameters.source_.weights)),
        row_(parameters.depth_) {}
  // Valid until the next call.
  const float* Row(int64_t channel) const {
    float* to = row_.data();
    parameters_.ForEachPiece(channel, [&](int64_t first, int64_t count) {
      if (packed_) packed_->Decode(first, count, to);
      if (weights_) std::copy_n(weights_ + first, count, to);
      to += count;
    });
    return row_.data();
  }

 private:
  const QuantizedParameters& parameters_;
  const std::shared_ptr<const PackedParameter> packed_;
  const float* const weights_;
  mutable std::vector<float> row_;
};

std::vector<double> QuantizedParameters::FindScales(const Rows& weights, const float* bias) const {
  const double most = Most(type_);
  std::vector<double> scales(source_.channels, 0);
  for (int64_t c = 0; c < source_.channels; ++c) {
    const float* row = weights.Row(c);
    double largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < depth_; ++i) {
      const double value = row[i];
      finite = finite && std::isfinite(value);
      largest = std::max(largest, std::abs(value));
    }
    CAFFE_CHECK(finite, "blob ", source_.weights->name(), " holds infinities or NaN in channel ", c,
                "; it cannot be quantized");
    scales[c] = largest / most;
    if (source_.options.limits) scales[c] = LimitScale(c);
    if (bias && !source_.dynamic) {
      scales[c] = std::max(scales[c], std::abs(bias[c]) / (in_.scale * MostBias(type_)));
    }
  }
  if (source_.options.per_tensor)
    scales.assign(source_.channels, *std::max_element(scales.begin(), scales.end()));
  for (double& scale : scales) scale = scale == 0 ? 1 : std::max(scale, 0x1p-126);
  return scales;
}

double QuantizedParameters::LimitScale(size_t channel) const {
  const Range limits = source_.options.limits->Of(channel);
  return std::max(std::abs(limits.low) / (Most(type_) + 1), std::abs(limits.high) / Most(type_));
}

std::shared_ptr<const PackedParameter> QuantizedParameters::StoredCodes() const {
  auto stored = PackedParameter::Of(*source_.weights);
  if (!stored || stored->type() != type_ || !stored->symmetric()) return nullptr;
  const std::vector<QuantRange>& ranges = stored->channels();
  const size_t channels = static_cast<size_t>(source_.channels);
  if (ranges.size() != 1 &&
      (ranges.size() != channels || source_.outer != 1 || source_.options.per_tensor)) {
    return nullptr;
  }
  const float* bias = Floats(source_.bias);
  for (size_t c = 0; c < channels; ++c) {
    const double scale = ranges[ranges.size() == 1 ? 0 : c].scale;
    const bool limits_scale = bias && !source_.dynamic;
    if (limits_scale && !(std::abs(bias[c]) <= scale * in_.scale * MostBias(type_))) return nullptr;
    if (source_.options.limits && scale != LimitScale(c)) return nullptr;
  }
  return stored;
}

std::vector<int64_t> QuantizedParameters::TakeCodes(const PackedParameter& stored) {
  const int64_t bytes = static_cast<int64_t>(type_.bytes());
  const int64_t zero = WeightZero(type_);
  const std::vector<QuantRange>& ranges = stored.channels();
  const char* codes = stored.elements().get();
  if (source_.outer == 1) {
    codes_->data_memory()->Adopt(stored.elements());
  } else {
    char* own = static_cast<char*>(codes_->overwrite_host_data());
    for (int64_t c = 0; c < source_.channels; ++c) {
      char* to = own + c * depth_ * bytes;
      ForEachPiece(c, [&](int64_t first, int64_t count) {
        to = std::copy_n(codes + first * bytes, count * bytes, to);
      });
    }
    codes = own;
  }
  scales_.clear();
  std::vector<int64_t> sums;
  for (int64_t c = 0; c < source_.channels; ++c) {
    scales_.push_back(ranges[ranges.size() == 1 ? 0 : c].scale);
    const char* row = codes + c * depth_ * bytes;
    sums.push_back(WithCodes(type_, row, [&](const auto* code) {
      return std::accumulate(code, code + depth_, -zero * depth_);
    }));
  }
  return sums;
}

std::vector<int64_t> QuantizedParameters::StoreCodes(const Rows& weights) {
  char* codes = static_cast<char*>(codes_->overwrite_host_data());
  std::vector<int64_t> sums;
  for (int64_t c = 0; c < source_.channels; ++c) {
    char* target = codes + c * depth_ * static_cast<int64_t>(type_.bytes());
    const QuantRange range{scales_[c], WeightZero(type_)};
    sums.push_back(EncodeCodes(weights.Row(c), depth_, range, type_, target, 1));
  }
  return sums;
}

void QuantizedParameters::StoreFactors(const std::vector<int64_t>& sums, const float* bias) {
  if (source_.dynamic) return StoreSumFactors(sums, bias);
  const int64_t channels = source_.channels;
  const double most_bias = MostBias(type_);
  std::vector<int64_t> bias_codes(channels);
  // Multipliers and shifts, then those of sums below 0.
  std::vector<int32_t> factors(4 * channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double product = in_.scale * scales_[c];
    CAFFE_CHECK(!bias || std::isfinite(bias[c]), "blob ", source_.bias->name(), " holds ", bias[c],
                " for channel ", c, "; it cannot be quantized");
    const double code = bias ? std::clamp(bias[c] / product, -most_bias, most_bias) : 0;
    bias_codes[c] = std::llround(code) - in_.zero * sums[c];
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
}

void QuantizedParameters::StoreSumFactors(const std::vector<int64_t>& sums, const float* bias) {
  const int64_t channels = source_.channels;
  char* bytes = static_cast<char*>(channels_->mutable_host_data());
  float* const scale = reinterpret_cast<float*>(bytes);
  int32_t* const weights = reinterpret_cast<int32_t*>(bytes + 8 * channels);
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = static_cast<float>(scales_[c]);
    scale[channels + c] = bias ? bias[c] : 0;
    weights[c] = static_cast<int32_t>(sums[c]);
  }
}

void QuantizedParameters::Build() {
  const float* bias = Floats(source_.bias);
  std::vector<int64_t> sums;
  if (const auto stored = StoredCodes()) {
    sums = TakeCodes(*stored);
  } else {
    const Rows weights(*this);
    scales_ = FindScales(weights, bias);
    sums = StoreCodes(weights);
  }
  StoreFactors(sums, bias);
  // Uploaded now, not in the forward that follows.
  codes_->device_data();
  channels_->device_data();
}

double QuantizedParameters::Slope(int64_t channel) const {
  if (source_.activation.kind != ElementFunction::Kind::kPReLU) {
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

SumArguments QuantizedParameters::sum_arguments() const {
  const DevicePtr channels = channels_->device_data();
  return {channels, channels + 4 * source_.channels, channels + 8 * source_.channels};
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
