#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/work.hpp"
#include "layers/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

struct Case {
  bool across;
  int64_t size;
  double alpha, beta, k;
  Shape shape;
  std::string Text() const {
    return Concat("type: 'LRN' lrn_param { local_size: ", size, " alpha: ", alpha, " beta: ", beta,
                  " k: ", k, " norm_region: ", across ? "ACROSS_CHANNELS" : "WITHIN_CHANNEL", " }");
  }
};

std::vector<Case> Cases() {
  return {
      {true, 5, 1e-4, 0.75, 1, {2, 7, 3, 5}}, {true, 5, 2, 0.75, 2, {2, 7, 3, 5}},
      {true, 15, 3, 0.5, 0.5, {2, 7, 2, 2}},  {true, 1, 1, 1, 1, {1, 3, 4, 2}},
      {true, 3, 5, 1.25, 1, {3, 1, 4, 2}},    {false, 3, 2, 0.75, 1, {2, 3, 5, 6}},
      {false, 5, 7, 0.5, 1, {2, 2, 6, 3}},    {false, 9, 7, 1.5, 1, {1, 2, 3, 5}},
      {false, 3, 2, 0.75, 2, {1, 2, 4, 4}},   {true, 3, 2, 0.75, 1, {1, 2, 9, 33}},
      {false, 5, 2, 0.75, 1, {1, 1, 2, 270}}, {true, 5, 2, 0.25, 1, {1, 6, 2, 3}},
      {true, 5, 2, 0.625, 1, {1, 6, 2, 3}},   {false, 3, 2, 1, 1, {1, 2, 4, 4}},
      {true, 5, 2, 0.75, 1, {1, 300, 1, 2}},  {true, 43, 2, 0.75, 1, {2, 60, 1, 3}},
  };
}

// Calls visit(i, j) for every pair of elements such that j lies in the window around i.
template <class Visit> void ForEachPair(const Case& c, const Visit& visit) {
  const int64_t channels = c.shape[1], height = c.shape[2], width = c.shape[3];
  const auto at = [&](int64_t n, int64_t p, int64_t h, int64_t w) {
    return ((n * channels + p) * height + h) * width + w;
  };
  const int64_t reach = c.size / 2;
  const int64_t dp = c.across ? reach : 0, ds = c.across ? 0 : reach;
  for (int64_t n = 0; n < c.shape[0]; ++n) {
    for (int64_t p = 0; p < channels; ++p) {
      for (int64_t h = 0; h < height; ++h) {
        for (int64_t w = 0; w < width; ++w) {
          for (int64_t q = std::max<int64_t>(0, p - dp); q <= std::min(channels - 1, p + dp); ++q) {
            for (int64_t y = std::max<int64_t>(0, h - ds); y <= std::min(height - 1, h + ds); ++y) {
              for (int64_t x = std::max<int64_t>(0, w - ds); x <= std::min(width - 1, w + ds);
                   ++x) {
                visit(at(n, p, h, w), at(n, q, y, x));
              }
            }
          }
        }
      }
    }
  }
}

std::vector<double> Scales(const Case& c, const std::vector<double>& x) {
  std::vector<double> scale(x.size());
  ForEachPair(c, [&](int64_t i, int64_t j) { scale[i] += x[j] * x[j]; });
  const double count = c.across ? c.size : c.size * c.size;
  for (double& s : scale) s = (c.across ? c.k : 1) + static_cast<float>(c.alpha) / count * s;
  return scale;
}

// The elements of an array of this shape, in the order of NHWC.
template <class T> std::vector<T> ChannelsLast(const Shape& shape, const std::vector<T>& values) {
  const int64_t channels = shape[1], positions = ShapeCount(shape, 2);
  std::vector<T> last(values.size());
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t i = 0; i < channels * positions; ++i) {
      last[(n * positions + i % positions) * channels + i / positions] =
          values[n * channels * positions + i];
    }
  }
  return last;
}

class LRNLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LRNLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester lrn(c.Text(), device, TypeTriple::Equal(type), {c.shape});
    lrn.Forward();
    const std::vector<double> x = lrn.Bottom(0), scale = Scales(c, x);
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(scale[i], -c.beta);
    ExpectNear(lrn.Top(), y, 2 * Tolerance(type), c.Text());

    lrn.RandomTopDiff();
    lrn.Backward();
    const std::vector<double> d = lrn.top().DiffAsDouble();
    std::vector<double> x_diff(x.size());
    const double count = c.across ? c.size : c.size * c.size;
    const double factor = static_cast<float>(c.alpha) / count;
    ForEachPair(c, [&](int64_t i, int64_t j) {
      x_diff[i] -= 2 * factor * c.beta * x[i] * d[j] * y[j] / scale[j];
    });
    for (size_t i = 0; i < x.size(); ++i) x_diff[i] += d[i] * std::pow(scale[i], -c.beta);
    ExpectNear(lrn.BottomDiff(0), x_diff, 4 * Tolerance(type), "dE/dx of " + c.Text());
  }
}

// The work for blobs in NHWC gives the bits of Forward.
TEST_P(LRNLayerTest, ChannelsLast) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    if (!c.across) continue;
    LayerTester lrn(c.Text(), device, TypeTriple::Equal(type), {c.shape});
    ASSERT_TRUE(lrn.layer().Facts().layouts.nhwc);
    lrn.Forward();
    const std::vector<double> expected = ChannelsLast(c.shape, lrn.Top());
    const std::vector<double> x = ChannelsLast(c.shape, lrn.Bottom(0));
    lrn.SetBottom(0, x);
    WorkRequest request;
    request.layouts = {Layout::kNHWC, Layout::kNHWC};
    const auto work = lrn.layer().MakeWork(request, {&lrn.bottom()}, {&lrn.top()});
    work->Prepare();
    work->Run({});
    EXPECT_EQ(lrn.Top(), expected) << c.Text();
  }
}

TEST_P(LRNLayerTest, FollowsTheShapeOfItsBottom) {
  const auto [device, type] = GetParam();
  for (const bool across : {true, false}) {
    const Case c{across, 3, 2, 0.75, 1, {2, 4, 3, 2}};
    LayerTester lrn("phase: TEST " + c.Text(), device, TypeTriple::Equal(type), {{1, 2, 2, 2}});
    lrn.Forward();
    lrn.bottom().Reshape(c.shape);
    lrn.SetBottom(0, TestNumbers(ShapeCount(c.shape), 5));
    lrn.Forward();
    const std::vector<double> x = lrn.Bottom(0), scale = Scales(c, x);
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(scale[i], -c.beta);
    ExpectNear(lrn.Top(), y, 2 * Tolerance(type), c.Text());
  }
}

INSTANTIATE_TEST_SUITE_P(All, LRNLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Codes are those of the conversions of quant/convert around the layer in float, on every device
// and in both layouts.
class LRNCodesTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LRNCodesTest, EqualThoseOfTheFloatLayerBetweenConversions) {
  const auto [device, type] = GetParam();
  const int64_t most = type.info().code_max;
  for (const Case& c : Cases()) {
    if (!c.across) continue;
    SCOPED_TRACE(c.Text());
    const int64_t count = ShapeCount(c.shape);
    const test::Codes codes = test::RandomCodes(count, type, 5);
    for (const int32_t place : {0, 1, 2}) {
      const QuantRange x{3.0 / static_cast<double>(most), static_cast<int32_t>(most / 2 * place),
                         true};
      const QuantRange y{1.5 / static_cast<double>(most), static_cast<int32_t>(most / 3 * place),
                         true};
      Device* const cpu = Runtime::Get().cpu();
      LayerTester real("phase: TEST " + c.Text(), cpu, TypeTriple::Equal(kFloat), {c.shape});
      float* values = static_cast<float*>(real.bottom().mutable_host_data());
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(codes[i] - x.zero) * static_cast<float>(x.scale);
      }
      real.Forward();
      const float* results = static_cast<const float*>(real.top().host_data());
      test::Codes expected(count);
      int64_t inside = 0;
      for (int64_t i = 0; i < count; ++i) {
        const float code = results[i] * static_cast<float>(1 / y.scale);
        const float low = static_cast<float>(-y.zero), high = static_cast<float>(most - y.zero);
        expected[i] = std::llround(std::clamp(code, low, high)) + y.zero;
        inside += expected[i] > 0 && expected[i] < most ? 1 : 0;
      }
      if (place != 2 && count > 20) EXPECT_GT(inside, count / 8) << place;

      LayerTester lrn("phase: TEST " + c.Text(), device, TypeTriple::Equal(type), {c.shape});
      test::SetCodes(&lrn.bottom(), codes);
      lrn.bottom().set_range(x);
      lrn.top().set_range(y);
      lrn.Forward();
      EXPECT_EQ(test::CodesOf(lrn.top()), expected);

      test::SetCodes(&lrn.bottom(), ChannelsLast(c.shape, codes));
      WorkRequest request;
      request.layouts = {Layout::kNHWC, Layout::kNHWC};
      const auto work = lrn.layer().MakeWork(request, {&lrn.bottom()}, {&lrn.top()});
      work->Prepare();
      work->Run({});
      EXPECT_EQ(test::CodesOf(lrn.top()), ChannelsLast(c.shape, expected));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LRNCodesTest, testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(LRNCodesErrorTest, WithinChannelStaysFloat) {
  const std::string within = "norm_region: WITHIN_CHANNEL";
  try {
    LayerTester("phase: TEST type: 'LRN' lrn_param { " + within + " }", Runtime::Get().cpu(),
                TypeTriple::Equal(kQuant8), {{1, 2, 3, 4}});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("WITHIN_CHANNEL is not computed in quant8"), std::string::npos)
        << message;
  }
}

TEST(LRNLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester lrn(c.Text(), Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {c.shape});
    lrn.CheckGradient();
    LayerTester test("phase: TEST " + c.Text(), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                     {c.shape});
    test.CheckGradient();
  }
}

// Powers come from basic operations alone and sums have one order.
TEST(LRNLayerBitsTest, FloatIsTheSameOnEveryDevice) {
  for (const Case& c : Cases()) {
    std::vector<double> y, x_diff;
    for (Device* device : TestDevices()) {
      LayerTester lrn(c.Text(), device, TypeTriple::Equal(kFloat), {c.shape});
      lrn.Forward();
      lrn.RandomTopDiff();
      lrn.Backward();
      if (y.empty()) {
        y = lrn.Top();
        x_diff = lrn.BottomDiff(0);
      }
      EXPECT_EQ(lrn.Top(), y) << device->info().id << " " << c.Text();
      EXPECT_EQ(lrn.BottomDiff(0), x_diff) << device->info().id << " " << c.Text();
    }
  }
}

TEST(LRNLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& parameters, const Shape& x) {
    LayerTester("type: 'LRN' lrn_param { " + parameters + " }", Runtime::Get().cpu(),
                TypeTriple::Equal(kFloat), {x});
  };
  EXPECT_NO_THROW(make("local_size: 3", {1, 2, 3, 4}));
  EXPECT_THROW(make("local_size: 4", {1, 2, 3, 4}), Error);
  EXPECT_THROW(make("local_size: 0", {1, 2, 3, 4}), Error);
  EXPECT_THROW(make("local_size: 3", {1, 2, 3}), Error);
  EXPECT_THROW(make("local_size: 3", {1, 2, 3, 4, 5}), Error);
  EXPECT_THROW(make("fuse_type: FUSED_POOL_MAX", {1, 2, 3, 4}), Error);
}

}  // namespace
}  // namespace caffe
