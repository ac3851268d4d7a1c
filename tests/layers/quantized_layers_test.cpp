// Integer layers against their specification, worked out here in double and 128-bit arithmetic:
// equal codes on every device.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/exact_requantize.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using test::ExactCode;
using test::Wide;

std::vector<int64_t> Codes(const BlobBase& blob) {
  std::vector<int64_t> codes(blob.count());
  const char* data = static_cast<const char*>(blob.host_data());
  for (int64_t i = 0; i < blob.count(); ++i) {
    std::memcpy(&codes[i], data + i * blob.type().bytes(), blob.type().bytes());
  }
  return codes;
}

void SetCodes(BlobBase* blob, const std::vector<int64_t>& codes) {
  char* data = static_cast<char*>(blob->mutable_host_data());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(data + i * blob->type().bytes(), &codes[i], blob->type().bytes());
  }
}

// Codes of every size, both ends among them.
std::vector<int64_t> RandomCodes(int64_t count, DataType type, uint64_t seed) {
  const int64_t most = type.info().code_max;
  std::vector<int64_t> codes;
  for (const double value : TestNumbers(count, seed)) {
    codes.push_back(std::clamp<int64_t>(std::llround((value + 1) / 2 * 1.1 * most), 0, most));
  }
  return codes;
}

// The specification of derived parameters; weights are [channels, depth].
struct ExactParameters {
  std::vector<double> scales;
  std::vector<int64_t> weights, bias;
  std::vector<Requant> factors;

  ExactParameters(const std::vector<double>& w, const std::vector<double>& b, int64_t channels,
                  const QuantRange& in, const QuantRange& out, DataType type,
                  bool per_tensor = false) {
    const int64_t depth = static_cast<int64_t>(w.size()) / channels;
    const double q = type == kQuant8 ? 127 : 32767;
    const double limit = type == kQuant8 ? 1073741824.0 : 70368744177664.0;
    for (int64_t c = 0; c < channels; ++c) {
      double largest = 0;
      for (int64_t i = 0; i < depth; ++i) largest = std::max(largest, std::abs(w[c * depth + i]));
      double scale = largest / q;
      if (!b.empty()) scale = std::max(scale, std::abs(b[c]) / (in.scale * limit));
      scales.push_back(scale);
    }
    if (per_tensor) scales.assign(channels, *std::max_element(scales.begin(), scales.end()));
    for (int64_t c = 0; c < channels; ++c) {
      if (scales[c] == 0) scales[c] = 1;
      for (int64_t i = 0; i < depth; ++i) {
        weights.push_back(std::llround(w[c * depth + i] / scales[c]));
        EXPECT_LE(std::abs(weights.back()), q);
      }
      bias.push_back(b.empty() ? 0 : std::llround(b[c] / (in.scale * scales[c])));
      EXPECT_LE(std::abs(bias.back()), limit);
      factors.push_back(Requant::FromReal(in.scale * scales[c] / out.scale));
    }
  }
};

class QuantizedLayerTest : public testing::TestWithParam<DeviceType> {
 protected:
  DataType type() const { return GetParam().type; }
  Device* device() const { return GetParam().device; }
  int64_t most() const { return type().info().code_max; }
  LayerTester Make(const std::string& text, const std::vector<Shape>& shapes, int tops = 1) const {
    return LayerTester(text, device(), TypeTriple::Equal(type()), shapes, tops);
  }
  // A range for sums of products that uses most of the codes.
  QuantRange In() const { return {4.0 / static_cast<double>(most()), Zero(0.3), true}; }
  QuantRange Out() const { return {9.0 / static_cast<double>(most()), Zero(0.6), true}; }
  int32_t Zero(double part) const {
    return static_cast<int32_t>(part * static_cast<double>(most()));
  }
};

// --- InnerProduct --------------------------------------------------------------------------------

constexpr const char* kFillers =
    " weight_filler { type: 'uniform' min: -1 max: 1 } bias_filler { type: 'uniform' min: -1 max: "
    "1 } ";

// y for codes x [rows, depth].
std::vector<int64_t> ExactProduct(const ExactParameters& p, const std::vector<int64_t>& x,
                                  int64_t channels, const QuantRange& in, const QuantRange& out,
                                  bool relu, int64_t most) {
  const int64_t depth = static_cast<int64_t>(p.weights.size()) / channels;
  std::vector<int64_t> y;
  for (size_t row = 0; row < x.size() / depth; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      Wide sum = p.bias[c];
      for (int64_t i = 0; i < depth; ++i) {
        sum += static_cast<Wide>(x[row * depth + i] - in.zero) * p.weights[c * depth + i];
      }
      y.push_back(ExactCode(sum, p.factors[c], relu, out.zero, most));
    }
  }
  return y;
}

TEST_P(QuantizedLayerTest, InnerProductEqualsExactArithmetic) {
  struct Case {
    const char* more;
    bool bias, transpose, per_tensor;
  };
  for (const Case& c : {Case{"", true, false, false},
                        {"bias_term: false", false, false, false},
                        {"transpose: true", true, true, false},
                        {"", true, false, true}}) {
    LayerTester ip = Make(std::string("type: 'InnerProduct' ") +
                              (c.per_tensor ? "blobs_quantizer { per_tensor: true } " : "") +
                              "inner_product_param { num_output: 9" + kFillers + c.more + " }",
                          {{5, 3, 7}});
    const QuantRange in = In(), out = Out();
    ip.bottom().set_range(in);
    ip.top().set_range(out);
    SetCodes(&ip.bottom(), RandomCodes(5 * 21, type(), 3));
    std::vector<double> w = ip.layer().blobs()[0]->DataAsDouble();
    if (c.transpose) {
      std::vector<double> turned;
      for (int n = 0; n < 9; ++n) {
        for (int k = 0; k < 21; ++k) turned.push_back(w[k * 9 + n]);
      }
      w = turned;
    }
    const ExactParameters p(w,
                            c.bias ? ip.layer().blobs()[1]->DataAsDouble() : std::vector<double>(),
                            9, in, out, type(), c.per_tensor);
    const auto exact = ExactProduct(p, Codes(ip.bottom()), 9, in, out, false, most());
    // The codes tell something: they do not all lie at the ends.
    EXPECT_GT(std::count_if(exact.begin(), exact.end(),
                            [&](int64_t code) { return code > 0 && code < most(); }),
              20);
    ip.Forward();
    EXPECT_EQ(Codes(ip.top()), exact) << c.more << c.per_tensor;
    EXPECT_EQ(ip.layer().Facts().weighted->code_scales(), p.scales);
    EXPECT_EQ(ip.top().shape(), Shape({5, 9}));
  }
}

TEST_P(QuantizedLayerTest, EveryZeroPointOfTheInput) {
  LayerTester ip =
      Make(std::string("type: 'InnerProduct' inner_product_param { num_output: 4") + kFillers + "}",
           {{2, 6}});
  const std::vector<int64_t> x = RandomCodes(12, type(), 5);
  const int64_t step = type() == kQuant8 ? 1 : 331;
  for (int64_t zero = 0; zero <= most(); zero += step) {
    const QuantRange in{0.01, static_cast<int32_t>(zero), true};
    const QuantRange out{0.05, static_cast<int32_t>(most() - zero), true};
    ip.bottom().set_range(in);
    ip.top().set_range(out);
    SetCodes(&ip.bottom(), x);
    const ExactParameters p(ip.layer().blobs()[0]->DataAsDouble(),
                            ip.layer().blobs()[1]->DataAsDouble(), 4, in, out, type());
    ip.Forward();
    ASSERT_EQ(Codes(ip.top()), ExactProduct(p, x, 4, in, out, false, most())) << zero;
  }
}

// The bias decides about the scale where it is large, up to the limit of its code.
TEST_P(QuantizedLayerTest, LargeBiasesAndZeroWeights) {
  LayerTester ip = Make("type: 'InnerProduct' inner_product_param { num_output: 4 }", {{3, 2}});
  const double scale = 1e-9;
  const QuantRange in{scale, Zero(0.5), true},
      out{1000.0 / static_cast<double>(most()), Zero(0.5), true};
  ip.bottom().set_range(in);
  ip.top().set_range(out);
  SetCodes(&ip.bottom(), RandomCodes(6, type(), 7));
  ip.layer().blobs()[0]->SetData({1e-7, -1e-7, 0, 0, 0.25, 0.5, 0, 0});
  ip.layer().blobs()[1]->SetData({400, -450, 1, 0});
  const ExactParameters p(ip.layer().blobs()[0]->DataAsDouble(),
                          ip.layer().blobs()[1]->DataAsDouble(), 4, in, out, type());
  const int64_t limit = type() == kQuant8 ? int64_t{1} << 30 : int64_t{1} << 46;
  EXPECT_NEAR(static_cast<double>(p.bias[0]), static_cast<double>(limit), 1);
  EXPECT_EQ(p.scales[3], 1);
  ip.Forward();
  EXPECT_EQ(Codes(ip.top()), ExactProduct(p, Codes(ip.bottom()), 4, in, out, false, most()));
  EXPECT_EQ(Codes(ip.top())[0], std::llround(400 / out.scale) + out.zero);
}

// More inputs than 32 bits have room for, with the worst operands.
TEST_P(QuantizedLayerTest, DepthsAtTheLimitAndBeyond) {
  for (const int64_t depth : {int64_t{1} << 15, (int64_t{1} << 15) + 1}) {
    LayerTester ip =
        Make("type: 'InnerProduct' inner_product_param { num_output: 2 }", {{2, depth}});
    const QuantRange in{1, 0, true};
    const double largest = static_cast<double>(depth) * static_cast<double>(most());
    const QuantRange out{3 * largest / static_cast<double>(most()), Zero(0.5), true};
    ip.bottom().set_range(in);
    ip.top().set_range(out);
    std::vector<int64_t> x(2 * depth, most());
    std::fill(x.begin() + depth, x.end(), 0);
    SetCodes(&ip.bottom(), x);
    std::vector<double> w(2 * depth, 1);
    std::fill(w.begin() + depth, w.end(), -1);
    ip.layer().blobs()[0]->SetData(w);
    const double q = type() == kQuant8 ? 127 : 32767;
    const double bias = (type() == kQuant8 ? 0x1p30 : 0x1p46) / q;
    ip.layer().blobs()[1]->SetData({bias, -bias});
    const ExactParameters p(w, ip.layer().blobs()[1]->DataAsDouble(), 2, in, out, type());
    ip.Forward();
    EXPECT_EQ(Codes(ip.top()), ExactProduct(p, x, 2, in, out, false, most())) << depth;
  }
}

TEST_P(QuantizedLayerTest, CopiesFollowWeightsAndRangesAndNothingElse) {
  LayerTester ip =
      Make(std::string("type: 'InnerProduct' inner_product_param { num_output: 3") + kFillers + "}",
           {{2, 5}});
  QuantRange in = In(), out = Out();
  const std::vector<int64_t> x = RandomCodes(10, type(), 9);
  SetCodes(&ip.bottom(), x);
  const auto check = [&](const char* what) {
    ip.bottom().set_range(in);
    ip.top().set_range(out);
    const ExactParameters p(ip.layer().blobs()[0]->DataAsDouble(),
                            ip.layer().blobs()[1]->DataAsDouble(), 3, in, out, type());
    ip.Forward();
    EXPECT_EQ(Codes(ip.top()), ExactProduct(p, x, 3, in, out, false, most())) << what;
  };
  check("at first");
  ip.Forward();
  device()->ResetCounters();
  ip.Forward();
  EXPECT_EQ(device()->counters().uploads, 0) << "nothing changed";
  ip.layer().blobs()[0]->SetData(TestNumbers(15, 77));
  check("other weights");
  ip.layer().blobs()[1]->SetData({1, -2, 0.5});
  check("another bias");
  in.zero += 1;
  check("another zero point of the bottom");
  in.scale *= 1.5;
  check("another scale of the bottom");
  out.scale *= 0.75;
  check("another scale of the top");
  out.zero -= 3;
  check("another zero point of the top");
}

TEST_P(QuantizedLayerTest, AReluInTheEpilogue) {
  LayerTester ip = Make(std::string("phase: TEST type: 'InnerProduct' inner_product_param { "
                                    "num_output: 8") +
                            kFillers + "}",
                        {{3, 5}});
  const QuantRange in = In(), out = Out();
  ip.bottom().set_range(in);
  ip.top().set_range(out);
  SetCodes(&ip.bottom(), RandomCodes(15, type(), 13));
  const ExactParameters p(ip.layer().blobs()[0]->DataAsDouble(),
                          ip.layer().blobs()[1]->DataAsDouble(), 8, in, out, type());
  for (const bool fused : {true, false, true}) {
    fused ? ip.ForwardWith({{}, {kPlainReLU}}) : ip.Forward();
    const auto exact = ExactProduct(p, Codes(ip.bottom()), 8, in, out, fused, most());
    EXPECT_EQ(Codes(ip.top()), exact);
    const int64_t lowest = *std::min_element(exact.begin(), exact.end());
    EXPECT_EQ(lowest == out.zero, fused);
  }
}

TEST_P(QuantizedLayerTest, ParametersHoldTheFactorsOfSlopes) {
  constexpr int64_t kRows = 7, kChannels = 4, kDepth = 21;
  const auto make = [&](const Shape& shape, const std::vector<double>& values) {
    auto blob = MakeBlob(kFloat, device(), shape, "parameter");
    float* data = static_cast<float*>(blob->mutable_host_data());
    std::copy(values.begin(), values.end(), data);
    return blob;
  };
  const auto weights = make({kChannels, kDepth}, TestNumbers(kChannels * kDepth, 41));
  const auto bias = make({kChannels}, TestNumbers(kChannels, 42));
  const auto slopes = make({kChannels}, {0.25, -0.5, 0, 1.5});
  QuantizedParameters::Source source{weights.get(), bias.get()};
  source.channels = kChannels;
  source.activation = {ElementFunction::Kind::kPReLU};
  source.slopes = slopes.get();
  QuantizedParameters parameters(source, type(), device());
  const QuantRange in = In(), out = Out();
  parameters.SetRanges(in, out);
  EXPECT_TRUE(parameters.Refresh());
  EXPECT_FALSE(parameters.Stale());

  GemmDescriptor d;
  d.m = kRows;
  d.n = kChannels;
  d.k = kDepth;
  d.trans_b = true;
  d.in = d.out = type();
  d.epilogue.bias = d.epilogue.slopes = Epilogue::Bias::kPerColumn;
  d.epilogue.stages = {source.activation};
  const auto x = MakeBlob(type(), device(), {kRows, kDepth}, "x");
  const auto y = MakeBlob(type(), device(), {kRows, kChannels}, "y");
  SetCodes(x.get(), RandomCodes(kRows * kDepth, type(), 43));
  const auto op = Multiplexer::Gemm(device(), d);
  for (const double first : {0.25, -2.0}) {
    static_cast<float*>(slopes->mutable_host_data())[0] = static_cast<float>(first);
    parameters.Refresh();
    const QuantArguments quant = parameters.arguments();
    GemmArguments arguments{x->device_data(), parameters.codes().device_data(),
                            y->mutable_device_data()};
    arguments.quant = &quant;
    test::Run(*op, device(), arguments);
    const ExactParameters p(weights->DataAsDouble(), bias->DataAsDouble(), kChannels, in, out,
                            type());
    const std::vector<double> slope = slopes->DataAsDouble();
    const auto codes = Codes(*x);
    std::vector<int64_t> exact;
    int negative_sums = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t c = 0; c < kChannels; ++c) {
        Wide sum = p.bias[c];
        for (int64_t i = 0; i < kDepth; ++i) {
          sum += static_cast<Wide>(codes[row * kDepth + i] - in.zero) * p.weights[c * kDepth + i];
        }
        Requant negative =
            Requant::FromReal(std::abs(slope[c]) * (in.scale * p.scales[c] / out.scale));
        if (slope[c] < 0) negative.multiplier = -negative.multiplier;
        negative_sums += sum < 0;
        exact.push_back(ExactCode(sum, p.factors[c], negative, -1e9, 1e9, out.zero, most()));
      }
    }
    EXPECT_GT(negative_sums, 5);
    EXPECT_EQ(Codes(*y), exact) << "slope " << first;
  }
  static_cast<float*>(slopes->mutable_host_data())[2] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(parameters.Refresh(), Error);
}

// --- Convolution ---------------------------------------------------------------------------------

std::vector<int64_t> ExactConvolution(const ExactParameters& p, const std::vector<int64_t>& x,
                                      const Shape& in_shape, int64_t outputs, int64_t group,
                                      int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                                      const QuantRange& in, const QuantRange& out, int64_t most) {
  const int64_t channels = in_shape[1], h = in_shape[2], w = in_shape[3];
  const int64_t window = dilation * (kernel - 1) + 1;
  const int64_t oh = (h + 2 * pad - window) / stride + 1, ow = (w + 2 * pad - window) / stride + 1;
  const int64_t per_in = channels / group, per_out = outputs / group;
  std::vector<int64_t> y;
  for (int64_t n = 0; n < in_shape[0]; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < oh * ow; ++i) {
        Wide sum = p.bias[o];
        for (int64_t c = 0; c < per_in; ++c) {
          for (int64_t k = 0; k < kernel * kernel; ++k) {
            const int64_t row = i / ow * stride - pad + k / kernel * dilation;
            const int64_t column = i % ow * stride - pad + k % kernel * dilation;
            if (row < 0 || row >= h || column < 0 || column >= w) continue;  // the real number 0
            const int64_t at = ((n * channels + o / per_out * per_in + c) * h + row) * w + column;
            sum += static_cast<Wide>(x[at] - in.zero) *
                   p.weights[(o * per_in + c) * kernel * kernel + k];
          }
        }
        y.push_back(ExactCode(sum, p.factors[o], false, out.zero, most));
      }
    }
  }
  return y;
}

TEST_P(QuantizedLayerTest, ConvolutionEqualsExactArithmetic) {
  struct Case {
    Shape shape;
    int64_t outputs, group, kernel, stride, pad, dilation;
    bool bias;
  };
  for (const Case& c : {Case{{2, 3, 7, 6}, 4, 1, 3, 1, 1, 1, true},
                        {{2, 4, 8, 9}, 6, 2, 3, 2, 2, 2, true},
                        {{1, 6, 5, 5}, 6, 6, 3, 1, 1, 1, false},
                        {{3, 5, 4, 4}, 7, 1, 1, 1, 0, 1, true}}) {
    LayerTester conv =
        Make(Concat("type: 'Convolution' convolution_param { num_output: ", c.outputs,
                    " group: ", c.group, " kernel_size: ", c.kernel, " stride: ", c.stride,
                    " pad: ", c.pad, " dilation: ", c.dilation,
                    " bias_term: ", c.bias ? "true" : "false", kFillers, "}"),
             {c.shape});
    const QuantRange in = In(), out = Out();
    conv.bottom().set_range(in);
    conv.top().set_range(out);
    const auto x = RandomCodes(ShapeCount(c.shape), type(), 17);
    SetCodes(&conv.bottom(), x);
    const ExactParameters p(
        conv.layer().blobs()[0]->DataAsDouble(),
        c.bias ? conv.layer().blobs()[1]->DataAsDouble() : std::vector<double>(), c.outputs, in,
        out, type());
    conv.Forward();
    EXPECT_EQ(Codes(conv.top()), ExactConvolution(p, x, c.shape, c.outputs, c.group, c.kernel,
                                                  c.stride, c.pad, c.dilation, in, out, most()))
        << ShapeString(c.shape);
    // Another batch: the operators are made again and have the weights.
    conv.bottom().Reshape({1, c.shape[1], c.shape[2], c.shape[3]});
    const auto one = RandomCodes(conv.bottom().count(), type(), 18);
    SetCodes(&conv.bottom(), one);
    conv.Forward();
    EXPECT_EQ(Codes(conv.top()),
              ExactConvolution(p, one, conv.bottom().shape(), c.outputs, c.group, c.kernel,
                               c.stride, c.pad, c.dilation, in, out, most()));
  }
}

TEST_P(QuantizedLayerTest, EveryBottomOfAConvolutionHasItsOwnRange) {
  const Shape shape{1, 2, 5, 5};
  LayerTester conv = Make(std::string("type: 'Convolution' convolution_param { num_output: 3 "
                                      "kernel_size: 3 pad: 1") +
                              kFillers + "}",
                          {shape, shape}, 2);
  for (int i = 0; i < 2; ++i) {
    QuantRange in = In(), out = Out();
    in.scale *= 1 + i;
    in.zero += 20 * i;
    out.scale *= 1 + 2 * i;
    conv.bottom(i).set_range(in);
    conv.top(i).set_range(out);
    SetCodes(&conv.bottom(i), RandomCodes(50, type(), 19 + i));
  }
  conv.Forward();
  for (int i = 0; i < 2; ++i) {
    const QuantRange in = conv.bottom(i).range(), out = conv.top(i).range();
    const ExactParameters p(conv.layer().blobs()[0]->DataAsDouble(),
                            conv.layer().blobs()[1]->DataAsDouble(), 3, in, out, type());
    EXPECT_EQ(Codes(conv.top(i)),
              ExactConvolution(p, Codes(conv.bottom(i)), shape, 3, 1, 3, 1, 1, 1, in, out, most()));
  }
}

// The values of the codes lie near what the float layer computes: the specification itself is
// right.
TEST_P(QuantizedLayerTest, AConvolutionIsNearTheFloatOne) {
  const std::string text = std::string(
                               "type: 'Convolution' convolution_param { num_output: 4 "
                               "kernel_size: 3 pad: 1 group: 2") +
                           kFillers + "}";
  LayerTester conv = Make(text, {{2, 4, 6, 6}});
  LayerTester reference(text, device(), TypeTriple::Equal(kFloat), {{2, 4, 6, 6}});
  const double size = static_cast<double>(most());
  const QuantRange in{2 / size, Zero(0.5), true}, out{24 / size, Zero(0.5), true};
  conv.bottom().set_range(in);
  conv.top().set_range(out);
  const auto x = RandomCodes(conv.bottom().count(), type(), 23);
  SetCodes(&conv.bottom(), x);
  std::vector<double> values;
  for (const int64_t code : x) values.push_back(in.scale * static_cast<double>(code - in.zero));
  reference.SetBottom(0, values);
  for (int i = 0; i < 2; ++i) {
    reference.layer().blobs()[i]->SetData(conv.layer().blobs()[i]->DataAsDouble());
  }
  conv.Forward();
  reference.Forward();
  std::vector<double> actual;
  for (const int64_t code : Codes(conv.top())) {
    actual.push_back(out.scale * static_cast<double>(code - out.zero));
  }
  // Half a step of the result, and what 18 rounded weights of up to half a step can add.
  const double allowed = out.scale / 2 + 18 * 0.5 * (type() == kQuant8 ? 1 / 127.0 : 1 / 32767.0);
  const std::vector<double> expected = reference.Top();
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], allowed) << i;
}

// --- Pooling, Split, Flatten ---------------------------------------------------------------------

struct PoolingCase {
  int64_t image, kernel, stride, pad, output;
  std::string text() const {
    return Concat("kernel_size: ", kernel, " stride: ", stride, " pad: ", pad);
  }
};

const PoolingCase kPoolingCases[] = {{8, 2, 2, 0, 4},
                                     {8, 3, 2, 1, 5},
                                     {7, 2, 2, 0, 4},
                                     // Larger than the image, rounded up to one window.
                                     {2, 3, 2, 0, 1},
                                     {1, 2, 2, 0, 1},
                                     {1, 5, 4, 1, 1}};

TEST_P(QuantizedLayerTest, MaxPoolingCarriesCodesAndRangeThrough) {
  for (const PoolingCase& c : kPoolingCases) {
    LayerTester pool = Make(Concat("type: 'Pooling' pooling_param { ", c.text(), " }"),
                            {{2, 3, c.image, c.image}});
    const QuantRange in = In();
    pool.bottom().set_range(in);
    const auto x = RandomCodes(6 * c.image * c.image, type(), 29);
    SetCodes(&pool.bottom(), x);
    EXPECT_EQ(pool.layer().Facts().range, LayerFacts::Range::kCarried);
    pool.Forward();
    ASSERT_EQ(pool.top().shape(), Shape({2, 3, c.output, c.output})) << c.text();
    std::vector<int64_t> exact;
    for (int64_t plane = 0; plane < 6; ++plane) {
      for (int64_t i = 0; i < c.output * c.output; ++i) {
        int64_t best = -1;
        for (int64_t k = 0; k < c.kernel * c.kernel; ++k) {
          const int64_t row = i / c.output * c.stride - c.pad + k / c.kernel,
                        column = i % c.output * c.stride - c.pad + k % c.kernel;
          if (row < 0 || row >= c.image || column < 0 || column >= c.image) continue;
          best = std::max(best, x[(plane * c.image + row) * c.image + column]);
        }
        exact.push_back(best);
      }
    }
    EXPECT_EQ(Codes(pool.top()), exact) << c.text();
    EXPECT_EQ(pool.top().range().zero, in.zero);
    EXPECT_EQ(pool.top().range().scale, in.scale);
    EXPECT_THROW(pool.Backward(), Error);
  }
}

// One factor for each population of a window, one rounding.
TEST_P(QuantizedLayerTest, AveragePoolingRequantizesOnce) {
  for (const PoolingCase& c : kPoolingCases) {
    LayerTester pool = Make(Concat("type: 'Pooling' pooling_param { pool: AVE ", c.text(), " }"),
                            {{2, 2, c.image, c.image}});
    const QuantRange in = In();
    QuantRange out = In();
    out.scale *= 0.7;
    out.zero = Zero(0.2);
    pool.bottom().set_range(in);
    pool.top().set_range(out);
    const auto x = RandomCodes(4 * c.image * c.image, type(), 31);
    SetCodes(&pool.bottom(), x);
    EXPECT_EQ(pool.layer().Facts().range, LayerFacts::Range::kOwn);
    pool.Forward();
    ASSERT_EQ(pool.top().shape(), Shape({2, 2, c.output, c.output})) << c.text();
    std::vector<int64_t> exact;
    for (int64_t plane = 0; plane < 4; ++plane) {
      for (int64_t i = 0; i < c.output * c.output; ++i) {
        const int64_t row0 = i / c.output * c.stride - c.pad,
                      column0 = i % c.output * c.stride - c.pad;
        Wide sum = 0;
        int64_t area = 0;
        for (int64_t k = 0; k < c.kernel * c.kernel; ++k) {
          const int64_t row = row0 + k / c.kernel, column = column0 + k % c.kernel;
          // The padding counts, elements beyond it do not.
          area += row < c.image + c.pad && column < c.image + c.pad;
          if (row < 0 || row >= c.image || column < 0 || column >= c.image) continue;
          sum += x[(plane * c.image + row) * c.image + column] - in.zero;
        }
        const Requant factor = Requant::FromReal(in.scale / out.scale / static_cast<double>(area));
        exact.push_back(ExactCode(sum, factor, false, out.zero, most()));
      }
    }
    EXPECT_EQ(Codes(pool.top()), exact) << c.text();
  }
}

// A stride beyond the kernel rounds up to windows that hold nothing: the mean is a zero.
TEST_P(QuantizedLayerTest, AveragePoolingOfNothing) {
  LayerTester pool =
      Make("type: 'Pooling' pooling_param { pool: AVE kernel_size: 1 stride: 5 }", {{1, 1, 2, 2}});
  pool.bottom().set_range(In());
  QuantRange out = In();
  out.zero = Zero(0.2);
  pool.top().set_range(out);
  SetCodes(&pool.bottom(), RandomCodes(4, type(), 37));
  pool.Forward();
  ASSERT_EQ(pool.top().shape(), Shape({1, 1, 2, 2}));
  const std::vector<int64_t> codes = Codes(pool.top());
  for (int i = 1; i < 4; ++i) EXPECT_EQ(codes[i], out.zero);
}

TEST_P(QuantizedLayerTest, StochasticPoolingTakesNoCodes) {
  EXPECT_THROW(
      Make("type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 }", {{1, 1, 4, 4}}),
      Error);
}

TEST_P(QuantizedLayerTest, SplitAndFlattenCarryCodesAndRangeThrough) {
  for (const char* text : {"type: 'Split'", "type: 'Flatten'"}) {
    LayerTester layer = Make(text, {{2, 3, 4}}, text[7] == 'S' ? 3 : 1);
    const QuantRange in = In();
    layer.bottom().set_range(in);
    SetCodes(&layer.bottom(), RandomCodes(24, type(), 37));
    EXPECT_EQ(layer.layer().Facts().range, LayerFacts::Range::kCarried);
    layer.Forward();
    for (int i = 0; i < (text[7] == 'S' ? 3 : 1); ++i) {
      EXPECT_EQ(Codes(layer.top(i)), Codes(layer.bottom()));
      EXPECT_EQ(layer.top(i).range().zero, in.zero);
      EXPECT_EQ(layer.top(i).range().scale, in.scale);
    }
    EXPECT_THROW(layer.Backward(), Error);
  }
}

// --- Errors --------------------------------------------------------------------------------------

template <class Function> std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(QuantizedLayerTest, ABlobThatWasNeverObservedIsNamed) {
  for (const char* text :
       {"type: 'InnerProduct' inner_product_param { num_output: 2 }",
        "type: 'Convolution' convolution_param { num_output: 2 kernel_size: 1 }", "type: 'ReLU'",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 }"}) {
    LayerTester layer = Make(text, {{1, 2, 2, 2}});
    const std::string bottom = MessageOf([&] { layer.Forward(); });
    layer.bottom().set_range(In());
    const std::string top = MessageOf([&] { layer.Forward(); });
    EXPECT_TRUE(Holds(bottom, "bottom0"));
    EXPECT_TRUE(Holds(top, "top0"));
    for (const std::string& message : {bottom, top}) {
      for (const char* part : {"tested", "observed", "calibrate", "CAFFE_QUANT_OBSERVE"}) {
        EXPECT_TRUE(Holds(message, part));
      }
    }
    layer.top().set_range(Out());
    layer.Forward();
    EXPECT_THROW(layer.Backward(), Error) << text;
  }
}

TEST_P(QuantizedLayerTest, WeightsThatAreNoNumbersAreNamed) {
  LayerTester ip = Make("type: 'InnerProduct' inner_product_param { num_output: 2 }", {{1, 2}});
  ip.bottom().set_range(In());
  ip.top().set_range(Out());
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ip.layer().blobs()[0]->SetData({0, 1, bad, 2});
    const std::string message = MessageOf([&] { ip.Forward(); });
    for (const char* part : {"tested (InnerProduct)", "tested.0", "channel 1"}) {
      EXPECT_TRUE(Holds(message, part));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
