#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "caffe/core/requant.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "library/exact_requantize.hpp"

// Products and convolutions of codes by their definition, in 128-bit arithmetic, and their
// operands.
namespace caffe::exact {

using test::ExactCode;
using test::Wide;

// A fixed sequence of numbers (splitmix64).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  int64_t Next(int64_t low, int64_t high) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return low + static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

class Codes {
 public:
  Codes(Device* device, int64_t bytes)
      : device_(device),
        bytes_(bytes),
        pointer_(device->Allocate(std::max<int64_t>(bytes, 1), "a test")) {}
  template <class T>
  Codes(Device* device, const std::vector<T>& values)
      : Codes(device, static_cast<int64_t>(values.size() * sizeof(T))) {
    device_->Upload(pointer_, values.data(), bytes_);
  }
  ~Codes() { device_->Free(pointer_); }
  Codes(const Codes&) = delete;
  operator DevicePtr() const { return pointer_; }
  std::vector<char> Read() const {
    std::vector<char> bytes(bytes_);
    device_->Download(bytes.data(), pointer_, bytes_);
    return bytes;
  }

 private:
  Device* device_;
  int64_t bytes_;
  DevicePtr pointer_;
};

inline std::vector<char> Pack(const std::vector<int64_t>& codes, DataType type) {
  std::vector<char> bytes(codes.size() * type.bytes());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(&bytes[i * type.bytes()], &codes[i], type.bytes());  // little endian
  }
  return bytes;
}

inline std::vector<int64_t> Unpack(const std::vector<char>& bytes, DataType type) {
  std::vector<int64_t> codes(bytes.size() / type.bytes());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(&codes[i], &bytes[i * type.bytes()], type.bytes());
  }
  return codes;
}

// The per-channel part of a test.
struct Channels {
  std::vector<int64_t> bias;
  std::vector<int32_t> multiplier, shift;
  int32_t zero_x = 0, zero_y = 0;
  double scale_y = 1;
  std::vector<int32_t> negative_multiplier, negative_shift;  // empty: no slope
  CodeSum sum;
  Requant factor(int64_t c) const { return {multiplier[c], shift[c]}; }
  // The code behind a residual sum, from the operator's own code.
  int64_t SumCode(int64_t own, int64_t residual, bool relu, int64_t most) const {
    const Wide v = static_cast<Wide>(own - zero_y) * sum.own +
                   static_cast<Wide>(residual - sum.zero_residual) * sum.residual;
    const Wide magnitude = v < 0 ? -v : v;
    Wide rounded = v == 0 ? 0 : 1 << 20;  // beyond all codes
    if (sum.shift >= 0) rounded = (magnitude + ((Wide{1} << sum.shift) >> 1)) >> sum.shift;
    const int64_t beyond = static_cast<int64_t>(std::min<Wide>(rounded, 1 << 20));
    const int64_t s = std::clamp<int64_t>((v < 0 ? -beyond : beyond) + sum.zero_sum, 0, most);
    if (!relu) return s;
    const int64_t positive = std::max<int64_t>(s - sum.zero_sum, 0);
    return std::clamp<int64_t>(test::ExactRequantize(positive, sum.rescale) + sum.zero_result, 0,
                               most);
  }
  // The code of a sum.
  int64_t Code(Wide sum, int64_t c, const ElementFunction& activation, int64_t most) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double low = -kInfinity, high = kInfinity;
    using Kind = ElementFunction::Kind;
    if (activation.kind == Kind::kClip) {
      low = activation.a / scale_y;
      high = activation.b / scale_y;
    } else if (activation.kind == Kind::kReLU6) {
      high = 6 / scale_y;
    }
    const bool slope = !negative_multiplier.empty();
    const bool relu = activation.kind == Kind::kReLU || activation.kind == Kind::kReLU6;
    if (relu && !slope) low = 0;
    const Requant negative = slope ? Requant{negative_multiplier[c], negative_shift[c]} : factor(c);
    return ExactCode(sum, factor(c), negative, low, high, zero_y, most);
  }
};

// Factors around scale, which spread sums over the codes, and biases of the same size as the sums.
inline Channels RandomChannels(int64_t count, DataType type, int64_t depth, uint64_t seed) {
  Numbers numbers(seed);
  Channels channels;
  const double sums =
      0.25 * type.info().code_max * type.info().code_max * std::sqrt(static_cast<double>(depth));
  const int64_t most = static_cast<int64_t>(std::min(sums, type == kQuant8 ? 0x1p30 : 0x1p46));
  for (int64_t c = 0; c < count; ++c) {
    const Requant factor = Requant::FromReal(type.info().code_max / sums *
                                             static_cast<double>(numbers.Next(1, 1000)) / 1000);
    channels.bias.push_back(numbers.Next(-most, most));
    channels.multiplier.push_back(factor.multiplier);
    channels.shift.push_back(factor.shift);
  }
  channels.zero_x = static_cast<int32_t>(numbers.Next(0, type.info().code_max));
  channels.zero_y = static_cast<int32_t>(numbers.Next(0, type.info().code_max));
  return channels;
}

// Every activation of codes, with its slopes and a scale at which its bounds lie among the codes.
struct CodeActivation {
  ElementFunction activation;
  std::vector<double> slopes;  // of the channels in turn
};

inline const std::vector<CodeActivation>& CodeActivations() {
  using Kind = ElementFunction::Kind;
  static const auto* const rows = new std::vector<CodeActivation>{
      {{Kind::kNone}, {}},
      {{Kind::kReLU}, {}},
      {{Kind::kLeaky, 0.1f}, {0.1f}},
      {{Kind::kLeaky, -0.25f}, {-0.25f}},
      {{Kind::kReLU6}, {}},
      {{Kind::kReLU6, 0.3f}, {0.3f}},
      {{Kind::kClip, -1.5f, 2.75f}, {}},
      {{Kind::kClip, 1, 2}, {}},
      {{Kind::kPReLU}, {0.25, -0.5, 0, 1.75, 1e-12}},
  };
  return *rows;
}

inline void Activate(const CodeActivation& row, DataType type, Channels* channels) {
  // Codes reach from about -8 to 8.
  channels->scale_y = 16.0 / type.info().code_max;
  channels->zero_y = type.info().code_max / 2;
  channels->negative_multiplier.clear();
  channels->negative_shift.clear();
  for (size_t c = 0; !row.slopes.empty() && c < channels->bias.size(); ++c) {
    const double slope = row.slopes[c % row.slopes.size()];
    const Requant negative =
        Requant::FromReal(std::abs(slope) * channels->factor(static_cast<int64_t>(c)).real());
    channels->negative_multiplier.push_back(slope < 0 ? -negative.multiplier : negative.multiplier);
    channels->negative_shift.push_back(negative.shift);
  }
}

class DeviceChannels {
 public:
  DeviceChannels(Device* device, const Channels& c)
      : bias_(device, c.bias),
        multiplier_(device, c.multiplier),
        shift_(device, c.shift),
        negative_multiplier_(device, c.negative_multiplier),
        negative_shift_(device, c.negative_shift) {
    arguments = {bias_, multiplier_, shift_, c.zero_x, c.zero_y, c.scale_y};
    arguments.sum = c.sum;
    if (c.negative_multiplier.empty()) return;
    arguments.negative_multiplier = negative_multiplier_;
    arguments.negative_shift = negative_shift_;
  }
  QuantArguments arguments;

 private:
  Codes bias_, multiplier_, shift_, negative_multiplier_, negative_shift_;
};

struct Operands {
  std::vector<int64_t> a, b;
};

inline int64_t SizeA(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_a() + (d.trans_a ? d.k : d.m) * d.row_a();
}
inline int64_t SizeB(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_b() + (d.trans_b ? d.n : d.k) * d.row_b();
}
inline int64_t SizeC(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_c() + d.m * d.row_c();
}

inline Operands RandomOperands(const GemmDescriptor& d, uint64_t seed) {
  Numbers numbers(seed);
  const int64_t most = d.in.info().code_max;
  const bool rows = d.epilogue.bias == Epilogue::Bias::kPerRow;
  Operands operands{std::vector<int64_t>(SizeA(d)), std::vector<int64_t>(SizeB(d))};
  for (int64_t& code : operands.a) code = numbers.Next(rows ? 1 : 0, most);
  for (int64_t& code : operands.b) code = numbers.Next(rows ? 0 : 1, most);
  return operands;
}

// For each element of C, `result` of its sum and its channel; elements that no product reaches are
// `unused`.
template <class T, class Result>
std::vector<T> FromSums(const GemmDescriptor& d, const Operands& operands, const Channels& channels,
                        T unused, const Result& result) {
  const bool rows = d.epilogue.bias == Epilogue::Bias::kPerRow;
  const int64_t zero_a = rows ? WeightZero(d.in) : 0, zero_b = rows ? 0 : WeightZero(d.in);
  std::vector<T> c(SizeC(d), unused);
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        const int64_t channel = rows ? i : j;
        Wide sum = channels.bias[channel];
        for (int64_t k = 0; k < d.k; ++k) {
          const int64_t at_a = d.trans_a ? k * d.row_a() + i : i * d.row_a() + k;
          const int64_t at_b = d.trans_b ? j * d.row_b() + k : k * d.row_b() + j;
          sum += static_cast<Wide>(operands.a[batch * d.batch_stride_a() + at_a] - zero_a) *
                 (operands.b[batch * d.batch_stride_b() + at_b] - zero_b);
        }
        c[batch * d.batch_stride_c() + i * d.row_c() + j] = result(sum, channel);
      }
    }
  }
  return c;
}

inline std::vector<int64_t> Exact(const GemmDescriptor& d, const Operands& operands,
                                  const Channels& channels) {
  return FromSums<int64_t>(d, operands, channels, 7, [&](Wide sum, int64_t channel) {
    return channels.Code(sum, channel, d.epilogue.activation(), d.in.info().code_max);
  });
}

// The values of sums: both factors are rounded to float, and so is their product.
inline std::vector<float> ExactValues(const GemmDescriptor& d, const Operands& operands,
                                      const Channels& channels) {
  return FromSums<float>(d, operands, channels, 7, [&](Wide sum, int64_t channel) {
    const Requant factor = channels.factor(channel);
    const float scale = std::ldexp(static_cast<float>(factor.multiplier), -factor.shift);
    return static_cast<float>(static_cast<int64_t>(sum)) * scale;
  });
}

inline GemmDescriptor Product(DataType type, int64_t m, int64_t n, int64_t k, bool rows = false) {
  GemmDescriptor d;
  d.m = m;
  d.n = n;
  d.k = k;
  d.trans_b = !rows;
  d.in = d.out = type;
  d.epilogue.bias = rows ? Epilogue::Bias::kPerRow : Epilogue::Bias::kPerColumn;
  return d;
}

inline ConvDescriptor Conv(DataType type, int64_t batch, int64_t in, Shape input, int64_t out,
                           Shape kernel, Shape stride = {}, Shape pad = {}, Shape dilation = {},
                           int64_t group = 1) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry = {std::move(input), std::move(kernel), std::move(stride), std::move(pad),
                std::move(dilation)};
  d.in = d.out = type;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.Normalize();
  return d;
}

// The definition: padding holds the zero point of x.
inline std::vector<int64_t> Exact(const ConvDescriptor& d, const std::vector<int64_t>& x,
                                  const std::vector<int64_t>& w, const Channels& channels) {
  const ConvGeometry& g = d.geometry;
  const Shape out = g.output();
  const int64_t in_count = g.input_count(), out_count = g.output_count(), taps = g.kernel_count();
  const int64_t per_in = d.in_channels / d.group, per_out = d.out_channels / d.group;
  std::vector<int64_t> y;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t oc = 0; oc < d.out_channels; ++oc) {
      for (int64_t o = 0; o < out_count; ++o) {
        Wide sum = channels.bias[oc];
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t at = 0, step = 1, left_o = o, left_tap = tap;
          bool inside = true;
          for (int axis = g.axes() - 1; axis >= 0; --axis) {
            const int64_t p = left_o % out[axis] * g.stride[axis] - g.pad[axis] +
                              left_tap % g.kernel[axis] * g.dilation[axis];
            inside = inside && p >= 0 && p < g.input[axis];
            at += p * step;
            step *= g.input[axis];
            left_o /= out[axis];
            left_tap /= g.kernel[axis];
          }
          for (int64_t c = 0; c < per_in; ++c) {
            const int64_t channel = n * d.in_channels + oc / per_out * per_in + c;
            const int64_t code = inside ? x[channel * in_count + at] : channels.zero_x;
            sum += static_cast<Wide>(code) * (w[(oc * per_in + c) * taps + tap] - WeightZero(d.in));
          }
        }
        y.push_back(channels.Code(sum, oc, d.epilogue.activation(), d.in.info().code_max));
      }
    }
  }
  return y;
}

}  // namespace caffe::exact
