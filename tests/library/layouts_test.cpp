// Arrays whose channels are neighbours: conversions, pooling, and convolutions of libraries that
// know kNCHW alone.
#include <algorithm>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

// The numbers of x [batch, channels, positions] in the order of kNHWC.
std::vector<double> ChannelsLast(const std::vector<double>& x, int64_t channels,
                                 int64_t positions) {
  std::vector<double> y(x.size());
  const int64_t image = channels * positions;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), n = at / image, rest = at % image;
    y[n * image + rest % positions * channels + rest / positions] = x[i];
  }
  return y;
}

std::vector<DataType> TypesOn(Device* device) {
  std::vector<DataType> types{kFloat, kHalf, kBfloat16};
  if (device->info().fp64) types.push_back(kDouble);
  return types;
}

// Rounded to `type`.
std::vector<double> Stored(Device* device, DataType type, const std::vector<double>& values) {
  return Array(device, type, values).Read();
}

TEST(LayoutConverterTest, ConvertsBothWays) {
  const Shape shapes[] = {{2, 3, 5, 7}, {1, 64, 33, 2}, {3, 17, 16},
                          {2, 1, 9},    {4, 9, 1, 1},   {2, 300, 40}};
  for (Device* device : AllDevices()) {
    for (const DataType type : TypesOn(device)) {
      LayoutConverter converter(device, type);
      for (const Shape& shape : shapes) {
        const int64_t count = ShapeCount(shape);
        const std::vector<double> x = Stored(device, type, Values(count, 1));
        const Array from(device, type, x), there(device, type, Values(count, 2));
        const Array back(device, type, Values(count, 3));
        converter.Run(shape, from, there, Layout::kNHWC);
        EXPECT_EQ(there.Read(), ChannelsLast(x, shape[1], ShapeCount(shape, 2)))
            << device->info().id << " " << type.name() << " " << ShapeString(shape);
        converter.Run(shape, there, back, Layout::kNCHW);
        EXPECT_EQ(back.Read(), x) << device->info().id << " " << type.name();
      }
      converter.Run({0, 3, 4}, {}, {}, Layout::kNHWC);
    }
  }
}

// The channels of x, as the middle ones of an array with `pitch` channels; -7 elsewhere.
std::vector<double> AsPart(const std::vector<double>& x, int64_t channels, int64_t pitch,
                           int64_t first) {
  std::vector<double> whole(x.size() / channels * pitch, -7);
  for (size_t i = 0; i < x.size(); ++i) {
    whole[i / channels * pitch + first + i % channels] = x[i];
  }
  return whole;
}

TEST(LayoutConverterTest, ConvertsPartsOfLargerArrays) {
  const Shape shapes[] = {{2, 3, 5, 7}, {1, 64, 33, 2}, {2, 1, 9}, {4, 9, 1, 1}};
  for (Device* device : AllDevices()) {
    for (const DataType type : TypesOn(device)) {
      LayoutConverter converter(device, type);
      const int64_t bytes = static_cast<int64_t>(type.bytes());
      for (const Shape& shape : shapes) {
        const int64_t count = ShapeCount(shape), c = shape[1], pitch = c + 5, first = 2;
        const std::vector<double> x = Stored(device, type, Values(count, 1));
        const std::vector<double> part =
            AsPart(ChannelsLast(x, c, ShapeCount(shape, 2)), c, pitch, first);
        const Array from(device, type, x), back(device, type, Values(count, 3));
        const Array there(device, type, std::vector<double>(part.size(), -7));
        const DevicePtr at = static_cast<DevicePtr>(there) + first * bytes;
        converter.Run(shape, from, at, Layout::kNHWC, pitch);
        EXPECT_EQ(there.Read(), part) << device->info().id << " " << ShapeString(shape);
        converter.Run(shape, at, back, Layout::kNCHW, pitch);
        EXPECT_EQ(back.Read(), x) << device->info().id << " " << ShapeString(shape);
      }
    }
  }
}

TEST(LayoutConverterTest, RefusesArraysWithoutChannels) {
  Device* const cpu = Runtime::Get().cpu();
  EXPECT_THROW(LayoutConverter(cpu, kFloat).Run({5}, {}, {}, Layout::kNHWC), Error);
}

// More images than a launch has groups on its second axis.
TEST(LayoutConverterTest, ConvertsManyImages) {
  const int64_t batch = 65535 + 3;
  const std::vector<double> x = Values(batch * 6, 1);
  for (Device* device : AllDevices()) {
    const std::vector<double> stored = Stored(device, kFloat, x);
    const Array from(device, kFloat, x), to(device, kFloat, Values(batch * 6, 2));
    LayoutConverter(device, kFloat).Run(batch, 2, 3, from, to, Layout::kNHWC);
    EXPECT_EQ(to.Read(), ChannelsLast(stored, 2, 3)) << device->info().id;
  }
}

// The values of a library for kNCHW, bit by bit.
TEST(ChannelsLastPoolingTest, EqualsPoolingInCOrder) {
  using Method = PoolDescriptor::Method;
  struct Case {
    int64_t images, channels;
    PoolDescriptor::Axis height, width;
  };
  const Case cases[] = {{2, 3, {7, 3, 3, 2, 0}, {9, 4, 3, 2, 0}},
                        {1, 300, {6, 3, 2, 2, 0}, {4, 2, 2, 2, 0}},
                        {2, 17, {5, 3, 3, 2, 1}, {6, 4, 3, 2, 1}},
                        {2, 70, {8, 3, 3, 1, 1}, {9, 5, 3, 2, 0}},
                        {3, 16, {4, 1, 4, 1, 0}, {4, 1, 4, 1, 0}}};
  for (Device* device : AllDevices()) {
    for (const DataType type : TypesOn(device)) {
      for (const Case& one : cases) {
        for (const Method method : {Method::kMax, Method::kAverage}) {
          PoolDescriptor d;
          d.method = method;
          d.types = TypeTriple::Equal(type);
          d.planes = one.images * one.channels;
          d.height = one.height;
          d.width = one.width;
          const int64_t in = d.height.input * d.width.input, out = d.height.output * d.width.output;
          std::vector<double> x = Stored(device, type, Values(d.planes * in, 1));
          if (method == Method::kMax) {
            constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
            constexpr double kInfinity = std::numeric_limits<double>::infinity();
            x[2] = x[x.size() - 3] = kNaN;
            x[in - 1] = kInfinity;
            // Planes of nothing else.
            std::fill(x.begin() + in, x.begin() + 2 * in, kNaN);
            std::fill(x.begin() + 2 * in, x.begin() + 3 * in, -kInfinity);
          }
          const Array dx(device, type, x), dy(device, type, Values(d.planes * out, 2));
          const Array mask(device, kFloat, Values(d.planes * out, 3));
          PoolArguments a;
          a.x = dx;
          a.y = dy;
          if (d.has_mask()) a.mask = mask;
          Multiplexer::Pooling(device, d)->Forward(a);
          const std::vector<double> expected = ChannelsLast(dy.Read(), one.channels, out);

          d.layout = Layout::kNHWC;
          d.channels = one.channels;
          ASSERT_FALSE(d.has_mask() || d.has_gradient());
          const Array last(device, type, ChannelsLast(x, one.channels, in));
          PoolArguments b;
          b.x = last;
          b.y = dy;
          for (const std::string& library : Multiplexer::PoolingLibraries(device, d)) {
            Multiplexer::PoolingBy(library, device, d)->Forward(b);
            EXPECT_EQ(dy.Read(), expected) << device->info().id << " " << library << d.name();
          }
          // As a part of a larger array.
          PoolDescriptor part = d;
          part.y_pitch = one.channels + 9;
          const std::vector<double> whole = AsPart(expected, one.channels, part.y_pitch, 4);
          const Array dwhole(device, type, std::vector<double>(whole.size(), -7));
          b.y = static_cast<DevicePtr>(dwhole) + 4 * static_cast<int64_t>(type.bytes());
          Multiplexer::Pooling(device, part)->Forward(b);
          EXPECT_EQ(dwhole.Read(), whole) << device->info().id << part.name();
          EXPECT_THROW(Multiplexer::PoolingBy("", device, d), Error);
        }
      }
    }
  }
}

// Maxima, masks, means and their gradients.
TEST(ChannelsLastPoolingTest, TrainsAsInCOrder) {
  using Method = PoolDescriptor::Method;
  struct Case {
    int64_t images, channels;
    PoolDescriptor::Axis height, width;
  };
  const Case cases[] = {{2, 3, {7, 3, 3, 2, 0}, {9, 4, 3, 2, 0}},
                        {1, 300, {6, 3, 2, 2, 0}, {4, 2, 2, 2, 0}},
                        {2, 16, {5, 3, 3, 2, 1}, {6, 4, 3, 2, 1}},
                        {3, 24, {4, 1, 4, 1, 0}, {4, 1, 4, 1, 0}}};
  for (Device* device : AllDevices()) {
    for (const DataType type : FloatTypes()) {
      for (const Case& one : cases) {
        for (const Method method : {Method::kMax, Method::kAverage}) {
          PoolDescriptor d;
          d.method = method;
          d.types = TypeTriple::Equal(type);
          d.planes = one.images * one.channels;
          d.height = one.height;
          d.width = one.width;
          const int64_t in = d.height.input * d.width.input, out = d.height.output * d.width.output;
          const std::vector<double> x = Values(d.planes * in, 1), e = Values(d.planes * out, 2);
          // y, mask and x_diff, in C order or in kNHWC.
          const auto run = [&](bool last) {
            PoolDescriptor own = d;
            if (last) {
              own.layout = Layout::kNHWC;
              own.channels = one.channels;
              own.trains = true;
            }
            EXPECT_TRUE(own.has_gradient() && own.has_mask() == (method == Method::kMax));
            const auto order = [&](const std::vector<double>& v, int64_t positions) {
              return last ? ChannelsLast(v, one.channels, positions) : v;
            };
            const Array dx(device, type, order(x, in)), de(device, type, order(e, out));
            const Array y(device, type, order(e, out)), mask(device, kFloat, order(e, out));
            const Array x_diff(device, type, order(x, in));
            PoolArguments a;
            a.x = dx;
            a.y = y;
            a.y_diff = de;
            a.x_diff = x_diff;
            if (own.has_mask()) a.mask = mask;
            const auto op = Multiplexer::Pooling(device, own);
            op->Forward(a);
            op->Backward(a);
            return std::vector<std::vector<double>>{y.Read(), mask.Read(), x_diff.Read()};
          };
          const auto expected = run(false), results = run(true);
          for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(results[i], ChannelsLast(expected[i], one.channels, i == 2 ? in : out))
                << device->info().id << " " << d.name() << ", result " << i;
          }
        }
      }
    }
  }
}

TEST(ChannelsLastPoolingTest, DrawsHaveCOrderOnly) {
  PoolDescriptor d;
  d.planes = 4;
  d.channels = 2;
  d.layout = Layout::kNHWC;
  d.height = d.width = {4, 2, 2, 2, 0};
  d.types = TypeTriple::Equal(kFloat);
  d.method = PoolDescriptor::Method::kDraw;
  EXPECT_THROW(Multiplexer::Pooling(Runtime::Get().cpu(), d), Error);
}

// All passes, each pair of layouts, against the operator for kNCHW, bit by bit.
TEST(ConvertingConvolutionTest, EqualsConvolutionInCOrder) {
  ConvDescriptor d;
  d.batch = 3;
  d.in_channels = 4;
  d.out_channels = 6;
  d.group = 2;
  d.geometry = {{7, 5}, {3, 3}, {2, 1}, {1, 1}, {}};
  d.backward_data = d.backward_weights = true;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.epilogue.stages = {ResidualSum{0.5f}, kPlainReLU};
  d.Normalize();
  const int64_t in = 35, out = d.geometry.output_count(), channels = d.out_channels;
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf}) {
      d.in = d.out = type;
      const auto run = [&](LayoutPair layouts, const std::string& library) {
        const bool x_last = layouts.x == Layout::kNHWC, y_last = layouts.y == Layout::kNHWC;
        ConvDescriptor own = d;
        own.x_layout = layouts.x;
        own.y_layout = layouts.y;
        auto op = library.empty() ? Multiplexer::Convolution(device, own)
                                  : Multiplexer::ConvolutionBy(library, device, own);
        const auto array = [&](int seed, int64_t c, int64_t positions, bool last) {
          const std::vector<double> v = Values(d.batch * c * positions, seed);
          return std::make_unique<Array>(device, type, last ? ChannelsLast(v, c, positions) : v);
        };
        const auto x = array(1, d.in_channels, in, x_last),
                   xd = array(2, d.in_channels, in, x_last);
        const auto y = array(3, channels, out, y_last), yd = array(4, channels, out, y_last);
        const auto residual = array(5, channels, out, y_last);
        const Array w(device, type, Values(d.weight_count(), 6));
        const Array wd(device, kFloat, Values(d.weight_count(), 7));
        const Array b(device, kFloat, Values(channels, 8)), bd(device, kFloat, Values(channels, 9));
        test::Memory memory(device, op.get());
        ConvArguments a{*x, w, {}, b, *y};
        a.epilogue.residual = *residual;
        op->Forward(memory(a));
        op->BackwardData(memory(ConvGradients{*x, w, {}, *yd, *xd}));
        op->BackwardWeights(memory(ConvGradients{*x, {}, {}, *yd, {}, wd}));
        op->BackwardBias(memory(ConvGradients{*x, {}, {}, *yd, {}, {}, bd}));
        std::vector<std::vector<double>> results{y->Read(), xd->Read(), wd.Read(), bd.Read()};
        // In C order.
        if (y_last) results[0] = ChannelsLast(results[0], out, channels);
        if (x_last) results[1] = ChannelsLast(results[1], in, d.in_channels);
        return results;
      };
      const auto expected = run({}, "");
      for (const Layout x : {Layout::kNCHW, Layout::kNHWC}) {
        for (const Layout y : {Layout::kNCHW, Layout::kNHWC}) {
          if (x == Layout::kNCHW && y == Layout::kNCHW) continue;
          EXPECT_EQ(run({x, y}, "converted"), expected) << device->info().id << " " << type.name();
        }
      }
    }
  }
}

// Each library that writes y as a part of a larger array, against the same one without a pitch.
TEST(PartConvolutionTest, EqualsTheWholeArray) {
  ConvDescriptor d;
  d.batch = 2;
  d.in_channels = 16;
  d.out_channels = 32;
  d.geometry = {{7, 5}, {3, 3}, {1, 1}, {1, 1}, {}};
  d.x_layout = d.y_layout = Layout::kNHWC;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.Normalize();
  const int64_t positions = 35, channels = d.out_channels, pitch = 56, first = 16;
  const std::vector<std::vector<Epilogue::Stage>> epilogues{
      {}, {kPlainReLU}, {ElementFunction{ElementFunction::Kind::kTanH, 0, 0}}};
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      for (const auto& stages : epilogues) {
        d.in = d.out = type;
        d.epilogue.stages = stages;
        d.y_pitch = 0;
        const Array x(device, type, Values(d.batch * d.in_channels * positions, 1));
        const Array w(device, type, Values(d.weight_count(), 2));
        const Array b(device, kFloat, Values(channels, 3));
        const auto run = [&](ConvOp* op, const std::vector<double>& before, int64_t offset) {
          const Array y(device, type, before);
          test::Memory memory(device, op);
          const DevicePtr at =
              static_cast<DevicePtr>(y) + offset * static_cast<int64_t>(type.bytes());
          op->Forward(memory(ConvArguments{x, w, {}, b, at}));
          return y.Read();
        };
        ConvDescriptor part = d;
        part.y_pitch = pitch;
        const std::vector<double> gaps(d.batch * positions * pitch, -7);
        const auto libraries = Multiplexer::ConvolutionLibraries(device, part);
        ASSERT_EQ(libraries.back(), "converted");
        for (const std::string& library : libraries) {
          const auto whole = library == "converted"
                                 ? Multiplexer::Convolution(device, d)
                                 : Multiplexer::ConvolutionBy(library, device, d);
          const std::vector<double> expected =
              run(whole.get(), Values(d.batch * positions * channels, 4), 0);
          const auto op = Multiplexer::ConvolutionBy(library, device, part);
          const std::vector<double> actual = run(op.get(), gaps, first);
          const std::string what =
              Concat(device->info().id, " ", library, " ", part.name(), part.epilogue.name());
          // cuDNN may choose another engine for a pitch. What lies between parts stays as it was.
          test::ExpectNear(
              actual, AsPart(expected, channels, pitch, first),
              test::ChoosesAlgorithms(device, library) ? test::Tolerance(device, library, type) : 0,
              what);
          for (size_t i = 0; i < actual.size(); ++i) {
            const int64_t c = static_cast<int64_t>(i) % pitch;
            if (c < first || c >= first + channels) ASSERT_EQ(actual[i], -7) << what;
          }
        }
      }
    }
  }
}

TEST(PartConvolutionTest, WhatHasNoPitch) {
  ConvDescriptor d;
  d.in_channels = d.out_channels = 8;
  d.geometry.input = d.geometry.kernel = {1};
  d.y_pitch = 24;
  EXPECT_THROW(d.Normalize(), Error);  // in C order
  d.y_layout = Layout::kNHWC;
  d.Normalize();
  ConvDescriptor other = d;
  other.backward_data = true;
  EXPECT_THROW(other.Normalize(), Error);
  other = d;
  other.epilogue.stages = {ResidualSum{1}};
  EXPECT_THROW(other.Normalize(), Error);
  other = d;
  other.y_pitch = 4;
  EXPECT_THROW(other.Normalize(), Error);
}

}  // namespace
}  // namespace caffe
