#include "caffe/quant/layer_ranges.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

constexpr uint32_t kNoBits = 32;  // the default of bw: numbers are not rounded

// The fields of one blob. Their names end with `name`: layer_in, layer_out or params; those of
// scales are scale_in, scale_out and scale_params.
struct Fields {
  std::string where, name, scale_name;
  uint32_t bits;
  std::vector<int32_t> points;
  std::vector<float> scales;
};

template <class T> std::vector<T> Values(const google::protobuf::RepeatedField<T>& field) {
  return {field.begin(), field.end()};
}

// The ranges of each value of fl or scale.
std::vector<Range> Ranges(const Fields& f, bool positive) {
  CAFFE_CHECK(f.points.empty() || f.scales.empty(), f.where, "fl_", f.name, " and ", f.scale_name,
              " are both given; remove one of them");
  CAFFE_CHECK(f.bits == kNoBits || !f.points.empty() || !f.scales.empty(), f.where, "bw_", f.name,
              " is ", f.bits, ", but fl_", f.name,
              " is not given: the number of bits behind the point; add it");
  std::vector<Range> ranges;
  for (const float scale : f.scales) {
    CAFFE_CHECK(std::isfinite(scale) && scale > 0 && std::isfinite(255.0f / scale), f.where,
                f.scale_name, " is ", scale, "; it must be a positive number, codes per unit");
    const double step = 1 / static_cast<double>(scale);
    ranges.push_back(positive ? Range{0, 255 * step} : Range{-128 * step, 127 * step});
  }
  if (f.points.empty()) return ranges;
  CAFFE_CHECK(f.bits >= 2 && f.bits <= 16, f.where, "bw_", f.name, " is ", f.bits, "; fl_", f.name,
              " needs a width of 2 to 16 bits");
  for (const int32_t point : f.points) {
    CAFFE_CHECK(point >= -100 && point <= 100, f.where, "fl_", f.name, " is ", point,
                "; it must be in [-100, 100]");
    const double step = std::ldexp(1.0, -point),
                 half = std::ldexp(1.0, static_cast<int>(f.bits) - 1);
    ranges.push_back({-half * step, (half - 1) * step});
  }
  return ranges;
}

std::optional<Range> OneRange(const Fields& f, bool positive) {
  const std::vector<Range> ranges = Ranges(f, positive);
  CAFFE_CHECK(ranges.size() <= 1, f.where, ranges.size(), " values of ",
              f.points.empty() ? f.scale_name : "fl_" + f.name,
              " are given; a blob has one range, so give one value");
  if (ranges.empty()) return std::nullopt;
  return Range{ranges[0].low, ranges[0].high, "given"};
}

}  // namespace

LayerRanges ReadLayerRanges(const LayerParameter& layer) {
  LayerRanges read;
  if (!layer.has_quantization_param()) return read;
  const QuantizationParameter& p = layer.quantization_param();
  const std::string where = Concat(layer.name(), " (", layer.type(), "): quantization_param: ");
  if (p.precision() != QuantizationParameter::DYNAMIC_FIXED_POINT) {
    log::Warning(Concat(where, "precision ", QuantizationParameter::Precision_Name(p.precision()),
                        " is not supported; its ranges are ignored"));
    return read;
  }
  if (p.rounding_scheme() != QuantizationParameter::NEAREST) {
    log::Warning(where + "rounding_scheme STOCHASTIC is ignored: codes are rounded to the nearest");
  }
  read.bottom = OneRange({where, "layer_in", "scale_in", p.bw_layer_in(), Values(p.fl_layer_in()),
                          Values(p.scale_in())},
                         !p.is_negative_input());
  read.top = OneRange({where, "layer_out", "scale_out", p.bw_layer_out(), Values(p.fl_layer_out()),
                       Values(p.scale_out())},
                      false);
  const std::vector<Range> weights = Ranges({where, "params", "scale_params", p.bw_params(),
                                             Values(p.fl_params()), Values(p.scale_params())},
                                            false);
  if (weights.empty()) return read;
  read.weights.emplace();
  for (const Range& range : weights) {
    read.weights->whole.Unite(range);
    if (weights.size() == 1) continue;
    read.weights->low.push_back(range.low);
    read.weights->high.push_back(range.high);
  }
  return read;
}

}  // namespace caffe
