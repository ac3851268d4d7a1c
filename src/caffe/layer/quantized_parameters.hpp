#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "caffe/library/quant_arguments.hpp"
#include "caffe/memory/derived.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

class LayerParameter;
class PackedParameter;

// The integers with which a convolution or an inner product computes, derived from its float
// weights and bias and from the ranges of its bottom and top. For each output channel c
//   s_w = max(max |w| / q, |bias| / (s_in B)), 1 if all are 0; q = 127, B = 2^30 (32767, 2^46)
//   code = round(w / s_w) + zero point, bias code = round(bias / (s_in s_w)) - zero_in (sum of
//   codes) multiplier / 2^shift = s_in s_w / s_out
// They are computed in double on the host. Per tensor, all channels use the largest s_w. If a range
// [low, high] of the weights is given, max(|low| / (q + 1), |high| / q) replaces max |w| / q, so
// that a stored range reproduces its scale; weights beyond it are clamped.
//
// If a file stores the weights as such codes (PackedParameter), these are taken as they are, with
// their scales; then there is no float copy of the weights. Other codes are decoded row by row.
class QuantizedParameters final : public Derived {
 public:
  // How the weights' scales are chosen.
  struct Options {
    bool per_tensor = false;
    // Ranges of the weights, one per channel or one for all; else they are computed from the
    // weights.
    std::optional<ChannelRanges> limits;
    Options() = default;
    // From blobs_quantizer(0) of the layer, or else from its quantization_param.
    Options(const LayerParameter& layer, int64_t channels);
  };
  struct Source {
    // [group, outer, channels / group, inner]: channel g channels / group + j has the elements
    // [g, :, j, :], as in LayerFacts::Weighted.
    const BlobBase* weights = nullptr;
    const BlobBase* bias = nullptr;  // [channels]; may be null
    int64_t channels = 0, group = 1, outer = 1;
    Options options;
    // The activation of the epilogue, and the slopes of PReLU, one for each channel or one for all.
    // Sums below 0 have the factor slope s_in s_w / s_out.
    ElementFunction activation;
    const BlobBase* slopes = nullptr;
    // The bottom's range is that of its values, and the top is in float: see SumArguments.
    bool dynamic = false;
  };
  QuantizedParameters() = default;
  QuantizedParameters(const Source& source, DataType type, Device* device);
  // Call this before Refresh. Refresh throws if a weight is infinite or NaN.
  void SetRanges(const QuantRange& in, const QuantRange& out);
  // Codes [channels, depth].
  const BlobBase& codes() const { return *codes_; }
  QuantArguments arguments() const;
  // For Source::dynamic, instead of them. The scales are max |w| / q; there are no bias codes.
  SumArguments sum_arguments() const;
  // The memory of the arrays in arguments(), each with an element for each channel: bias,
  // multipliers, shifts, and multipliers and shifts of sums below 0.
  const BlobBase& channel_blob() const { return *channels_; }
  // Whether the codes of a file are taken in their memory. Valid after SetRanges.
  bool takes_stored_codes() const { return source_.outer == 1 && StoredCodes() != nullptr; }
  // Bytes of codes and of the arrays in arguments().
  int64_t bytes() const { return codes_->bytes() + channels_->bytes(); }
  // Bytes of the arrays in arguments().
  int64_t channel_bytes() const;
  // s_w of each channel.
  const std::vector<double>& scales() const { return scales_; }

 private:
  class Rows;

  // Calls function(first, count) for the pieces of a channel's elements, in order.
  template <class Function> void ForEachPiece(int64_t channel, const Function& function) const;
  void Build() override;
  // Those of the file, if they and their scales are what the layer computes with.
  std::shared_ptr<const PackedParameter> StoredCodes() const;
  std::vector<double> FindScales(const Rows& weights, const float* bias) const;
  // The scale of the limits of a channel.
  double LimitScale(size_t channel) const;
  // Returns the sum of codes - zero point of each channel.
  std::vector<int64_t> StoreCodes(const Rows& weights);
  std::vector<int64_t> TakeCodes(const PackedParameter& stored);
  void StoreFactors(const std::vector<int64_t>& sums, const float* bias);
  void StoreSumFactors(const std::vector<int64_t>& sums, const float* bias);
  double Slope(int64_t channel) const;

  Source source_;
  DataType type_;
  Device* device_ = nullptr;
  int64_t depth_ = 0;
  std::shared_ptr<BlobBase> codes_, channels_;  // channels_: bytes of bias and factors
  std::vector<double> scales_;
  QuantRange in_, out_;
};

}  // namespace caffe
