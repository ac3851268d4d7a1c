// Layers that compute in codes: every code on every device equals that of a model in double or in
// 128-bit integers, which is written here from the definitions in docs/types.md.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "caffe/core/error.hpp"
#include "layers/codes.hpp"
#include "library/exact_requantize.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using test::Codes;
using test::CodesOf;
using test::EveryCode;
using test::ExactRequantize;
using test::RandomCodes;
using test::SetCodes;
using test::Wide;

// Numbers in [0, 1) that depend on the seed only.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

class CodeLayerTest : public testing::TestWithParam<DeviceType> {
 protected:
  DataType type() const { return GetParam().type; }
  int64_t most() const { return type().info().code_max; }
  LayerTester Make(const std::string& text, const std::vector<Shape>& shapes, int tops = 1) const {
    return LayerTester("phase: TEST " + text, GetParam().device, TypeTriple::Equal(type()), shapes,
                       tops);
  }
  // A range of about this width, with a zero point at one end, at the other, or in between.
  QuantRange Range(double width, int place, Draw* draw) const {
    const double part = place == 0 ? 0 : place == 1 ? 1 : (*draw)();
    return {width * (0.5 + (*draw)()) / static_cast<double>(most()),
            static_cast<int32_t>(part * static_cast<double>(most())), true};
  }
  int64_t Clamp(Wide v, const QuantRange& y) const {
    return static_cast<int64_t>(std::clamp<Wide>(v + y.zero, 0, most()));
  }
};

// --- Functions of one value ----------------------------------------------------------------------

struct Function {
  const char* text;
  std::function<double(double)> value;
};

std::vector<Function> Functions() {
  return {
      {"type: 'AbsVal'", [](double x) { return x < 0 ? -x : x; }},
      {"type: 'BNLL'",
       [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }},
      {"type: 'Clip' clip_param { min: -0.5 max: 1.25 }",
       [](double x) { return std::min(std::max(x, -0.5), 1.25); }},
      {"type: 'ELU' elu_param { alpha: 0.75 }",
       [](double x) { return x > 0 ? x : 0.75 * (std::exp(x) - 1); }},
      {"type: 'Exp' exp_param { base: 2 scale: 0.5 shift: 1 }",
       [](double x) { return std::exp2(1 + 0.5 * x); }},
      {"type: 'Log' log_param { scale: 2 shift: 0.125 }",
       [](double x) { return std::log(0.125 + 2 * x); }},
      {"type: 'Power' power_param { power: 3 scale: 0.5 shift: 1 }",
       [](double x) { return (1 + 0.5 * x) * (1 + 0.5 * x) * (1 + 0.5 * x); }},
      {"type: 'Power' power_param { power: 0.5 shift: 1 }",
       [](double x) { return std::sqrt(1 + x); }},
      {"type: 'Power' power_param { scale: -2 shift: 0.25 }",
       [](double x) { return 0.25 - 2 * x; }},
      {"type: 'ReLU6'", [](double x) { return x < 0   ? 0
                                              : x > 6 ? 6
                                                      : x; }},
      {"type: 'ReLU6' relu6_param { negative_slope: -0.5 }",
       [](double x) { return x < 0   ? -0.5 * x
                             : x > 6 ? 6
                                     : x; }},
      {"type: 'Sigmoid'", [](double x) { return 0.5 + 0.5 * std::tanh(0.5 * x); }},
      {"type: 'Swish' swish_param { beta: 1.5 }",
       [](double x) { return x / (1 + std::exp(-1.5 * x)); }},
      {"type: 'TanH'", [](double x) { return 1 - 2 / (std::exp(2 * x) + 1); }},
      {"type: 'Threshold' threshold_param { threshold: 0.25 }",
       [](double x) { return x > 0.25 ? 1.0 : 0.0; }},
  };
}

TEST_P(CodeLayerTest, FunctionsEqualTheirFormulaForEveryCode) {
  Draw draw(3);
  for (const Function& function : Functions()) {
    SCOPED_TRACE(function.text);
    LayerTester layer = Make(function.text, {{most() + 1}});
    SetCodes(&layer.bottom(), EveryCode(type()));
    int64_t inside = 0;
    for (int round = 0; round < 6; ++round) {
      const QuantRange x = Range(round == 5 ? 200 : 8, round, &draw);
      const QuantRange y = Range(round == 4 ? 0.01 : 4, round % 2 ? 0 : round, &draw);
      layer.bottom().set_range(x);
      layer.top().set_range(y);
      layer.Forward();
      const Codes actual = CodesOf(layer.top());
      for (int64_t code = 0; code <= most(); ++code) {
        const double value = function.value(x.scale * static_cast<double>(code - x.zero)) / y.scale;
        const double magnitude = std::min(std::abs(value), 1e6);
        const double whole = std::floor(magnitude), rest = magnitude - whole;
        // The two ways to write the formula differ in its last bits.
        const bool tie = std::abs(rest - 0.5) < 1e-9 * (1 + magnitude);
        const auto signed_code = [&](double rounded) {
          return std::isnan(value) ? y.zero
                                   : Clamp(static_cast<Wide>(value < 0 ? -rounded : rounded), y);
        };
        const int64_t expected = signed_code(rest >= 0.5 ? whole + 1 : whole);
        if (tie && actual[code] == signed_code(rest >= 0.5 ? whole : whole + 1)) continue;
        ASSERT_EQ(actual[code], expected) << "code " << code << " in round " << round;
        inside += expected > 0 && expected < most() ? 1 : 0;
      }
    }
    EXPECT_GT(inside, 2 * most() / 3) << "most codes are at the ends";
  }
}

// A value exactly between two codes: half away from zero.
TEST_P(CodeLayerTest, FunctionsRoundHalvesAwayFromZero) {
  LayerTester layer = Make("type: 'Power' power_param { scale: 0.5 }", {{6}});
  layer.bottom().set_range({0.375, 100, true});
  layer.top().set_range({0.375, 50, true});
  SetCodes(&layer.bottom(), {97, 99, 100, 101, 103, 105});
  layer.Forward();
  EXPECT_EQ(CodesOf(layer.top()), Codes({48, 49, 50, 51, 52, 53}));
}

TEST_P(CodeLayerTest, TablesFollowRangesAndNothingElse) {
  LayerTester layer = Make("type: 'TanH'", {{40}});
  SetCodes(&layer.bottom(), RandomCodes(40, type(), 4));
  const double step = 4.0 / static_cast<double>(most());
  layer.bottom().set_range({step, static_cast<int32_t>(most() / 2), true});
  layer.top().set_range({step, static_cast<int32_t>(most() / 2), true});
  layer.Forward();
  const Codes first = CodesOf(layer.top());
  GetParam().device->ResetCounters();
  layer.Forward();
  EXPECT_EQ(GetParam().device->counters().uploads, 0) << "nothing changed";
  EXPECT_EQ(CodesOf(layer.top()), first);
  layer.top().set_range({step / 2, static_cast<int32_t>(most() / 2), true});
  layer.Forward();
  EXPECT_NE(CodesOf(layer.top()), first);
}

// --- Scale, Bias, BatchNorm, PReLU ---------------------------------------------------------------

// The integers of a scale and a shift, found one power of two at a time.
struct ExactAffine {
  int n = 62;
  Wide multiplier, addend;

  ExactAffine(double scale, double shift, const QuantRange& x, const QuantRange& y) {
    const double factor = scale * (x.scale / y.scale), add = shift / y.scale;
    const auto rounded = [this](double v) {
      return std::floor(std::abs(v) * std::ldexp(1, n) + 0.5);
    };
    while (rounded(factor) >= 0x1p31 || rounded(add / 0x1p16) >= 0x1p31) --n;
    multiplier = static_cast<Wide>(factor < 0 ? -rounded(factor) : rounded(factor));
    addend = static_cast<Wide>(add < 0 ? -rounded(add) : rounded(add));
  }
  Wide operator()(int64_t v) const {
    const Wide sum = v * multiplier + addend, magnitude = sum < 0 ? -sum : sum;
    const Wide half = n > 0 ? static_cast<Wide>(1) << (n - 1) : 0;
    const Wide rounded = n >= 0 ? (magnitude + half) >> n : sum == 0 ? 0 : 0x7fffffff;
    return sum < 0 ? -rounded : rounded;
  }
};

struct AffineCase {
  std::string text;
  Shape shape;
  int64_t channels, inner;
};

TEST_P(CodeLayerTest, AffineLayersEqualExactIntegers) {
  const Shape image{2, 3, 5, 7};
  const std::vector<AffineCase> cases{
      {"type: 'Scale' scale_param { bias_term: true }", image, 3, 35},
      {"type: 'Scale' scale_param { axis: 2 num_axes: 1 }", image, 5, 7},
      {"type: 'Scale' scale_param { num_axes: 2 bias_term: true }", image, 15, 7},
      {"type: 'Scale' scale_param { num_axes: 0 bias_term: true }", image, 1, 210},
      {"type: 'Scale' scale_param { bias_term: true }", {31, 9}, 9, 1},
      {"type: 'Bias'", image, 3, 35},
      {"type: 'Bias' bias_param { axis: -1 }", image, 7, 1},
      {"type: 'BatchNorm'", image, 3, 35},
      {"type: 'BatchNorm'", {31, 9}, 9, 1},
      {"type: 'BatchNorm' batch_norm_param { fused_relu: true }", image, 3, 35}};
  Draw draw(5);
  for (const AffineCase& c : cases) {
    SCOPED_TRACE(c.text);
    LayerTester layer = Make(c.text, {c.shape});
    const bool norm = Holds(c.text, "BatchNorm"), bias = Holds(c.text, "Bias");
    int64_t inside = 0, count = 0;
    // The last rounds: factors and shifts of extreme sizes.
    for (int round = 0; round < 9; ++round) {
      const double extreme = round == 6 ? 0x1p40 : round == 7 ? 0x1p-40 : 1;
      std::vector<double> scale(c.channels, 1), shift(c.channels, 0);
      std::vector<std::vector<double>> given;
      for (const auto& blob : layer.layer().blobs()) {
        std::vector<double>& values = given.emplace_back(blob->count());
        for (double& value : values) {
          value = static_cast<float>((draw() * 2 - 1) * (round == 8 ? 0x1p30 : 1));
          if (norm) value = static_cast<float>(std::abs(value) + 0.25);
        }
        blob->SetData(values);
      }
      for (int64_t k = 0; k < c.channels; ++k) {
        if (norm) {
          scale[k] = 1 / std::sqrt(given[1][k] * (1 / given[2][0]) + 1e-5f);
          shift[k] = -given[0][k] * (1 / given[2][0]) * scale[k];
        } else if (bias) {
          shift[k] = given[0][k];
        } else {
          scale[k] = given[0][k];
          if (given.size() > 1) shift[k] = given[1][k];
        }
      }
      const QuantRange x = Range(4, round, &draw),
                       y = Range(4 * extreme, round == 1 ? 0 : round, &draw);
      const Codes codes = RandomCodes(layer.bottom().count(), type(), 20 + round);
      layer.bottom().set_range(x);
      layer.top().set_range(y);
      SetCodes(&layer.bottom(), codes);
      layer.Forward();
      const Codes actual = CodesOf(layer.top());
      const bool relu = Holds(c.text, "fused_relu");
      for (size_t i = 0; i < codes.size(); ++i) {
        const int64_t k = static_cast<int64_t>(i) / c.inner % c.channels;
        const int64_t v = codes[i] - x.zero;
        Wide exact = ExactAffine(scale[k], shift[k], x, y)(v);
        if (relu && exact < 0) exact = 0;
        ASSERT_EQ(actual[i], Clamp(exact, y)) << "element " << i << " in round " << round;
        inside += actual[i] > 0 && actual[i] < most() ? 1 : 0;
        ++count;
        // The integers are as accurate as one rounding of the real numbers.
        const double real = (scale[k] * x.scale * static_cast<double>(v) + shift[k]) / y.scale;
        const double bounded = std::clamp(relu ? std::max(real, 0.0) : real, -1.0 * y.zero,
                                          static_cast<double>(most() - y.zero));
        ASSERT_LE(std::abs(static_cast<double>(actual[i] - y.zero) - bounded), 0.5 + 0x1p-10) << i;
      }
    }
    EXPECT_GT(inside, count / 4) << "most codes are at the ends";
  }
}

TEST_P(CodeLayerTest, PReLUEqualsExactIntegers) {
  Draw draw(6);
  struct Case {
    const char* text;
    Shape shape;
    int64_t channels, inner;
  };
  for (const Case& c : {Case{"", {2, 3, 5, 7}, 3, 35},
                        {"prelu_param { channel_shared: true }", {2, 3, 5, 7}, 1, 210},
                        {"", {31, 9}, 9, 1}}) {
    LayerTester layer = Make(std::string("type: 'PReLU' ") + c.text, {c.shape});
    for (int round = 0; round < 6; ++round) {
      const QuantRange x = Range(4, round, &draw), y = Range(round == 5 ? 4e9 : 4, round, &draw);
      std::vector<double> slopes(c.channels);
      for (double& slope : slopes) slope = static_cast<float>(draw() * 3 - 1.5);
      slopes[0] = round == 3 ? 0 : slopes[0];
      layer.layer().blobs()[0]->SetData(slopes);
      const Codes codes = RandomCodes(layer.bottom().count(), type(), 40 + round);
      layer.bottom().set_range(x);
      layer.top().set_range(y);
      SetCodes(&layer.bottom(), codes);
      layer.Forward();
      const Codes actual = CodesOf(layer.top());
      for (size_t i = 0; i < codes.size(); ++i) {
        const int64_t v = codes[i] - x.zero;
        const double slope = slopes[static_cast<int64_t>(i) / c.inner % c.channels];
        const double ratio = x.scale / y.scale;
        const int64_t size =
            ExactRequantize(std::abs(v), Requant::FromReal((v > 0 ? 1 : std::abs(slope)) * ratio));
        const bool negative = v < 0 && slope > 0;
        ASSERT_EQ(actual[i], Clamp(negative ? -size : size, y)) << "element " << i << c.text;
      }
    }
  }
}

// --- Eltwise -------------------------------------------------------------------------------------

TEST_P(CodeLayerTest, EltwiseEqualsExactIntegers) {
  struct Case {
    std::string parameters;
    std::vector<double> coeffs;
  };
  const std::vector<Case> cases{{"", {1, 1}},
                                {"coeff: 0.75 coeff: -2.5", {0.75, -2.5}},
                                {"coeff: 0 coeff: 0", {0, 0}},
                                {"coeff: 0.3 coeff: 1 coeff: -0.0001", {0.3f, 1, -0.0001f}},
                                {"", {1, 1, 1, 1, 1, 1}},
                                {"operation: MAX", {1, 1}},
                                {"operation: MAX", {1, 1, 1, 1}},
                                {"operation: PROD", {1, 1}},
                                {"operation: PROD", {1, 1, 1}}};
  Draw draw(7);
  const int64_t count = 150;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.parameters);
    const size_t bottoms = c.coeffs.size();
    LayerTester layer = Make("type: 'Eltwise' eltwise_param { " + c.parameters + " }",
                             std::vector<Shape>(bottoms, Shape{count}));
    const bool max = Holds(c.parameters, "MAX"), product = Holds(c.parameters, "PROD");
    for (int round = 0; round < 8; ++round) {
      const QuantRange y = Range(round == 7 ? 4e-6 : 6, round, &draw);
      layer.top().set_range(y);
      std::vector<QuantRange> x;
      std::vector<Codes> codes;
      for (size_t b = 0; b < bottoms; ++b) {
        const double width = round == 6 && b == 0 ? 4e6 : 4;
        // All zero points at one end, at the other, and mixed.
        x.push_back(Range(width, round < 2 ? round : static_cast<int>((b + round) % 4), &draw));
        codes.push_back(RandomCodes(count, type(), 60 + 10 * round + b));
        // The largest sums and products.
        codes[b][0] = most();
        codes[b][1] = 0;
        layer.bottom(static_cast<int>(b)).set_range(x[b]);
        SetCodes(&layer.bottom(static_cast<int>(b)), codes[b]);
      }
      // For a sum: the factors as integers of one power of two.
      int n = 62;
      std::vector<double> factors;
      double all = 1 / y.scale;
      for (size_t b = 0; b < bottoms; ++b) {
        factors.push_back(c.coeffs[b] * (x[b].scale / y.scale));
        all *= x[b].scale;
        while (n > 0 && std::floor(std::abs(factors[b]) * std::ldexp(1, n) + 0.5) >= 0x1p31) --n;
      }
      layer.Forward();
      const Codes actual = CodesOf(layer.top());
      for (int64_t i = 0; i < count; ++i) {
        Wide sum = 0, factor = 1, largest = -most() * most();
        double real = 0;
        for (size_t b = 0; b < bottoms; ++b) {
          const int64_t v = codes[b][i] - x[b].zero;
          const double scaled =
              std::min(std::floor(std::abs(factors[b]) * std::ldexp(1, n) + 0.5), 2147483647.0);
          sum += v * static_cast<Wide>(factors[b] < 0 ? -scaled : scaled);
          real += static_cast<double>(v) * factors[b];
          factor *= v;
          const Requant one = Requant::FromReal(x[b].scale / y.scale);
          largest = std::max<Wide>(largest, ExactRequantize(v, one));
        }
        const Wide half = n > 0 ? static_cast<Wide>(1) << (n - 1) : 0;
        const Wide size = ((sum < 0 ? -sum : sum) + half) >> n;
        const Wide exact = max       ? largest
                           : product ? ExactRequantize(factor, Requant::FromReal(all))
                           : sum < 0 ? -size
                                     : size;
        ASSERT_EQ(actual[i], Clamp(exact, y)) << "element " << i << " in round " << round;
        if (max || product) continue;
        const double bounded =
            std::clamp(real, -1.0 * y.zero, static_cast<double>(most() - y.zero));
        ASSERT_LE(std::abs(static_cast<double>(actual[i] - y.zero) - bounded), 0.5 + 0x1p-10) << i;
      }
    }
  }
}

// --- Deconvolution -------------------------------------------------------------------------------

// Rows of [planes, height, width] that a window scatters to; one spatial axis has height 1.
struct DeconvolutionCase {
  const char* text;
  int64_t channels, outputs, group, height, width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int axes;
};

TEST_P(CodeLayerTest, DeconvolutionEqualsExactIntegers) {
  const std::string fill = " weight_filler { type: 'uniform' min: -1 max: 1 } ";
  const std::vector<DeconvolutionCase> cases{
      {"num_output: 3 kernel_size: 3", 2, 3, 1, 4, 5, 3, 3, 1, 1, 0, 0, 1, 1, 2},
      {"num_output: 6 kernel_h: 4 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 2 group: 2",
       4, 6, 2, 5, 3, 4, 3, 2, 3, 1, 2, 1, 1, 2},
      {"num_output: 2 kernel_size: 3 dilation: 2 stride: 3 pad: 1 bias_term: false", 3, 2, 1, 4, 4,
       3, 3, 3, 3, 1, 1, 2, 2, 2},
      {"num_output: 4 kernel_size: 2 stride: 3 group: 4", 4, 4, 4, 3, 3, 2, 2, 3, 3, 0, 0, 1, 1, 2},
      {"num_output: 2 kernel_size: 4 stride: 2 pad: 1", 3, 2, 1, 1, 7, 1, 4, 1, 2, 0, 1, 1, 1, 1}};
  Draw draw(9);
  for (const DeconvolutionCase& c : cases) {
    SCOPED_TRACE(c.text);
    const bool bias = !Holds(c.text, "bias_term");
    const Shape shape =
        c.axes == 2 ? Shape{2, c.channels, c.height, c.width} : Shape{2, c.channels, c.width};
    LayerTester layer =
        Make(std::string("type: 'Deconvolution' convolution_param { ") + c.text + fill +
                 (bias ? "bias_filler { type: 'uniform' min: -1 max: 1 } }" : "}"),
             {shape});
    const int64_t out_h =
        c.stride_h * (c.height - 1) + c.dilation_h * (c.kernel_h - 1) + 1 - 2 * c.pad_h;
    const int64_t out_w =
        c.stride_w * (c.width - 1) + c.dilation_w * (c.kernel_w - 1) + 1 - 2 * c.pad_w;
    const int64_t in_group = c.channels / c.group, out_group = c.outputs / c.group;
    const int64_t taps = c.kernel_h * c.kernel_w;
    const double q = type() == kQuant8 ? 127 : 32767, limit = type() == kQuant8 ? 0x1p30 : 0x1p46;
    int64_t inside = 0, count = 0;
    for (int round = 0; round < 4; ++round) {
      const QuantRange x = Range(4, round, &draw), y = Range(8, round == 1 ? 2 : round, &draw);
      const std::vector<double> w = layer.layer().blobs()[0]->DataAsDouble();
      std::vector<double> b(c.outputs, 0), scale(c.outputs, 0);
      if (bias) b = layer.layer().blobs()[1]->DataAsDouble();
      const auto weight = [&](int64_t in, int64_t out, int64_t tap) {
        return w[(in * out_group + out % out_group) * taps + tap];
      };
      for (int64_t o = 0; o < c.outputs; ++o) {
        for (int64_t i = 0; i < in_group; ++i) {
          for (int64_t k = 0; k < taps; ++k) {
            scale[o] = std::max(scale[o], std::abs(weight(o / out_group * in_group + i, o, k)) / q);
          }
        }
        scale[o] = std::max(scale[o], std::abs(b[o]) / (x.scale * limit));
      }
      const Codes codes = RandomCodes(layer.bottom().count(), type(), 80 + round);
      layer.bottom().set_range(x);
      layer.top().set_range(y);
      SetCodes(&layer.bottom(), codes);
      layer.Forward();
      // Every input is scattered to the outputs that it meets.
      std::vector<Wide> sums(2 * c.outputs * out_h * out_w);
      for (size_t at = 0; at < sums.size(); ++at) {
        const int64_t o = static_cast<int64_t>(at) / (out_h * out_w) % c.outputs;
        sums[at] = std::llround(b[o] / (x.scale * scale[o]));
      }
      for (size_t at = 0; at < codes.size(); ++at) {
        const int64_t from = static_cast<int64_t>(at);
        const int64_t column = from % c.width, row = from / c.width % c.height;
        const int64_t i = from / (c.width * c.height) % c.channels;
        const int64_t n = from / (c.width * c.height * c.channels);
        for (int64_t o = i / in_group * out_group; o < (i / in_group + 1) * out_group; ++o) {
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t h = row * c.stride_h + k / c.kernel_w * c.dilation_h - c.pad_h;
            const int64_t v = column * c.stride_w + k % c.kernel_w * c.dilation_w - c.pad_w;
            if (h < 0 || v < 0 || h >= out_h || v >= out_w) continue;
            const int64_t code = std::llround(weight(i, o, k) / scale[o]);
            sums[((n * c.outputs + o) * out_h + h) * out_w + v] += (codes[at] - x.zero) * code;
          }
        }
      }
      const Codes actual = CodesOf(layer.top());
      ASSERT_EQ(actual.size(), sums.size());
      for (size_t at = 0; at < sums.size(); ++at) {
        const int64_t o = static_cast<int64_t>(at) / (out_h * out_w) % c.outputs;
        const Requant factor = Requant::FromReal(x.scale * scale[o] / y.scale);
        ASSERT_EQ(actual[at], Clamp(ExactRequantize(sums[at], factor), y))
            << "element " << at << " in round " << round;
        inside += actual[at] > 0 && actual[at] < most() ? 1 : 0;
        ++count;
      }
    }
    EXPECT_GT(inside, count / 4) << "most codes are at the ends";
  }
}

// --- Layers that copy or read codes --------------------------------------------------------------

TEST_P(CodeLayerTest, UpsampleCopiesCodes) {
  LayerTester layer =
      Make("type: 'Upsample' upsample_param { scale_h: 2 scale_w: 3 }", {{2, 3, 4, 5}});
  layer.bottom().set_range({0.5, 11, true});
  const Codes x = RandomCodes(120, type(), 8);
  SetCodes(&layer.bottom(), x);
  layer.Forward();
  const Codes y = CodesOf(layer.top());
  ASSERT_EQ(layer.top().shape(), Shape({2, 3, 8, 15}));
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t plane = i / 120, h = i / 15 % 8, w = i % 15;
    ASSERT_EQ(y[i], x[(plane * 4 + h / 2) * 5 + w / 3]) << i;
  }
}

// Ties go to the later index, as in float.
TEST_P(CodeLayerTest, ArgMaxComparesCodes) {
  for (const bool values : {false, true}) {
    LayerTester layer = Make(std::string("type: 'ArgMax' argmax_param { top_k: 2 out_max_val: ") +
                                 (values ? "true }" : "false }"),
                             {{2, 4}});
    const QuantRange range{0.25, static_cast<int32_t>(most() - 3), true};
    layer.bottom().set_range(range);
    SetCodes(&layer.bottom(), {7, most(), 0, most(), 5, 9, 9, most() - 1});
    layer.Forward();
    ASSERT_EQ(layer.top().type(), kFloat);
    const double low = range.scale * static_cast<double>(9 - range.zero);
    const std::vector<double> expected = values
                                             ? std::vector<double>{3, 1, 0.75, 0.75, 3, 2, 0.5, low}
                                             : std::vector<double>{3, 1, 3, 2};
    EXPECT_EQ(layer.Top(), expected);
  }
}

// Bilinear means of codes in exact arithmetic: enlarged, shrunk, cut, of one row or column.
TEST_P(CodeLayerTest, InterpRoundsTheMeanOfFourCodesOnce) {
  {
    LayerTester layer = Make("type: 'Interp' interp_param { height: 1 width: 4 }", {{1, 1, 1, 2}});
    const QuantRange range{0.5, 10, true};
    layer.bottom().set_range(range);
    layer.top().set_range(range);
    SetCodes(&layer.bottom(), {0, 255});
    layer.Forward();
    // -10, 75, 160 and 245 from the zero point.
    EXPECT_EQ(CodesOf(layer.top()), Codes({0, 85, 170, 255}));
  }
  struct Case {
    int64_t height, width, out_height, out_width;
    int cut_begin, cut_end;
  };
  uint64_t seed = 20;
  for (const Case& c : {Case{5, 4, 9, 7, 0, 0}, Case{9, 7, 4, 5, 0, 0}, Case{6, 8, 3, 11, -1, -2},
                        Case{1, 6, 4, 6, 0, 0}, Case{3, 3, 1, 1, 0, 0}, Case{4, 5, 4, 5, 0, 0}}) {
    const std::string text =
        Concat("type: 'Interp' interp_param { height: ", c.out_height, " width: ", c.out_width,
               " pad_beg: ", c.cut_begin, " pad_end: ", c.cut_end, " }");
    LayerTester layer = Make(text, {{2, 3, c.height, c.width}});
    const QuantRange range{0.25, static_cast<int32_t>(seed * 977 % (most() + 1)), true};
    layer.bottom().set_range(range);
    layer.top().set_range(range);
    const Codes x = RandomCodes(6 * c.height * c.width, type(), ++seed);
    SetCodes(&layer.bottom(), x);
    layer.Forward();
    const int64_t in_h = c.height + c.cut_begin + c.cut_end;
    const int64_t in_w = c.width + c.cut_begin + c.cut_end;
    const int64_t steps_h = std::max<int64_t>(c.out_height - 1, 1);
    const int64_t steps_w = std::max<int64_t>(c.out_width - 1, 1);
    Codes expected;
    for (int64_t plane = 0; plane < 6; ++plane) {
      for (int64_t h = 0; h < c.out_height; ++h) {
        for (int64_t w = 0; w < c.out_width; ++w) {
          Wide sum = 0;
          for (int64_t ih = 0; ih < in_h; ++ih) {
            for (int64_t iw = 0; iw < in_w; ++iw) {
              // The hat functions of the inputs, times both steps.
              const Wide by_h = steps_h - std::abs(h * (in_h - 1) - ih * steps_h);
              const Wide by_w = steps_w - std::abs(w * (in_w - 1) - iw * steps_w);
              if (by_h <= 0 || by_w <= 0) continue;
              const int64_t at = (plane * c.height + ih - c.cut_begin) * c.width + iw - c.cut_begin;
              sum += by_h * by_w * (x[at] - range.zero);
            }
          }
          const Wide parts = static_cast<Wide>(steps_h) * steps_w;
          const Wide mean = (2 * (sum < 0 ? -sum : sum) + parts) / (2 * parts);
          expected.push_back(Clamp(sum < 0 ? -mean : mean, range));
        }
      }
    }
    EXPECT_EQ(CodesOf(layer.top()), expected) << text;
  }
}

TEST_P(CodeLayerTest, AccuracyComparesCodes) {
  const std::string text = "type: 'Accuracy' accuracy_param { top_k: 2 ignore_label: 3 }";
  LayerTester layer = Make(text, {{4, 5}, {4}}, 2);
  layer.bottom().set_range({0.25, static_cast<int32_t>(most() - 3), true});
  // The label's score is the second one; ties count against it, so it is the third one; the item is
  // ignored; the largest code is beyond those that 8 or 16 signed bits hold.
  SetCodes(&layer.bottom(),
           {7, 9, 0, most(), 5, 9, 9, 9, 0, 1, 1, 2, 3, 4, 5, most(), most() - 1, 0, 1, 2});
  layer.SetBottom(1, {1, 2, 3, 0});
  layer.Forward();
  for (int t = 0; t < 2; ++t) ASSERT_EQ(layer.top(t).type(), kFloat);
  EXPECT_EQ(layer.Top(0), std::vector<double>({static_cast<double>(2.0F / 3)}));
  EXPECT_EQ(layer.Top(1), std::vector<double>({1, 1, 0, 0, 0}));
  // Codes are those of any range: the result is the float layer's of the same numbers.
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Codes codes = RandomCodes(700 * 5, type(), seed);
    LayerTester random = Make(text, {{700, 5}, {700}}, 2);
    LayerTester floats(text, GetParam().device, TypeTriple::Equal(kFloat), {{700, 5}, {700}}, 2);
    std::vector<double> labels(700);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<double>(i * seed % 5);
    random.bottom().set_range({0.5, 11, true});
    SetCodes(&random.bottom(), codes);
    floats.SetBottom(0, {codes.begin(), codes.end()});
    for (LayerTester* each : {&random, &floats}) {
      each->SetBottom(1, labels);
      each->Forward();
    }
    for (int t = 0; t < 2; ++t) EXPECT_EQ(random.Top(t), floats.Top(t)) << seed;
  }
}

// --- Errors --------------------------------------------------------------------------------------

template <class Run> std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(CodeLayerTest, ErrorsNameTheLayerAndTheReason) {
  const Shape image{1, 2, 2, 2};
  struct Case {
    const char* text;
    std::vector<Shape> shapes;
    const char* message;
  };
  for (const Case& c :
       {Case{"type: 'Scale' scale_param { axis: 0 }", {image, image}, "multiplies two blobs"},
        {"type: 'Bias' bias_param { axis: 0 }", {image, image}, "adds two blobs"},
        {"type: 'BatchNorm' batch_norm_param { use_global_stats: false }",
         {image},
         "statistics of the batch are not supported in quant"},
        {"type: 'Eltwise' eltwise_param { operation: PROD }",
         {image, image, image, image},
         "takes at most 3 bottoms"},
        {"type: 'Deconvolution' convolution_param { num_output: 2 kernel_size: 1 }",
         {{1, 1, 2, 2, 2, 2}},
         "4 spatial axes are not supported in quant"}}) {
    const std::string error = ErrorOf([&] { Make(c.text, c.shapes); });
    EXPECT_TRUE(Holds(error, c.message)) << error;
    EXPECT_TRUE(Holds(error, "tested (")) << error;
  }
  const QuantRange range{0.5, 3, true};
  for (const char* text : {"type: 'Scale'", "type: 'Bias'", "type: 'PReLU'", "type: 'BatchNorm'"}) {
    LayerTester layer = Make(text, {image});
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.Forward(); }), "was ever observed")) << text;
    layer.bottom().set_range(range);
    layer.top().set_range(range);
    layer.layer().blobs()[0]->SetData({1, std::numeric_limits<double>::infinity()});
    const std::string error = ErrorOf([&] { layer.Forward(); });
    EXPECT_TRUE(Holds(error, "of channel 1")) << error;
    layer.layer().blobs()[0]->SetData({1, 2});
    layer.Forward();
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.Backward(); }), "has no backward pass in quant"));
  }
  for (const char* text : {"type: 'TanH'", "type: 'Upsample'", "type: 'Eltwise'"}) {
    LayerTester layer = Make(text, std::vector<Shape>(Holds(text, "Elt") ? 2 : 1, image));
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.Forward(); }), "was ever observed")) << text;
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.Backward(); }), "has no backward pass in quant"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodeLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
