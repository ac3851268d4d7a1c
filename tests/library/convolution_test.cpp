#include <algorithm>
#include <array>

#include "caffe/core/error.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/layout_runs.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

ConvDescriptor Conv(int64_t batch, int64_t in, Shape input, int64_t out, Shape kernel,
                    Shape stride = {}, Shape pad = {}, Shape dilation = {}, int64_t group = 1) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry.input = std::move(input);
  d.geometry.kernel = std::move(kernel);
  d.geometry.stride = std::move(stride);
  d.geometry.pad = std::move(pad);
  d.geometry.dilation = std::move(dilation);
  d.backward_data = d.backward_weights = true;
  return d;
}

// Calls visit(x index, weight index, y index) for every product of the definition.
template <class Visit> void ForEachProduct(const ConvDescriptor& d, const Visit& visit) {
  const ConvGeometry& g = d.geometry;
  const Shape out = g.output();
  const int64_t in_count = g.input_count(), out_count = g.output_count();
  const int64_t taps = g.kernel_count(), per_in = d.in_channels / d.group;
  const int64_t per_out = d.out_channels / d.group;
  for (int64_t o = 0; o < out_count; ++o) {
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
      if (!inside) continue;
      for (int64_t n = 0; n < d.batch; ++n) {
        for (int64_t oc = 0; oc < d.out_channels; ++oc) {
          for (int64_t c = 0; c < per_in; ++c) {
            const int64_t channel = oc / per_out * per_in + c;
            visit((n * d.in_channels + channel) * in_count + at, (oc * per_in + c) * taps + tap,
                  (n * d.out_channels + oc) * out_count + o);
          }
        }
      }
    }
  }
}

void Check(ConvDescriptor d) {
  d.Normalize();
  d.epilogue.bias_type = d.master();
  const bool has_bias = d.epilogue.bias != Epilogue::Bias::kNone;
  const int64_t out_count = d.geometry.output_count();
  const auto x = Values(d.batch * d.in_channels * d.geometry.input_count(), 1);
  const auto w = Values(d.weight_count(), 2), bias = Values(d.out_channels, 3);
  const auto y_diff = Values(d.batch * d.out_channels * out_count, 4);
  const auto w_start = Values(w.size(), 5), b_start = Values(bias.size(), 6);
  std::vector<double> y(y_diff.size()), x_diff(x.size()), w_diff = w_start, b_diff = b_start;
  ForEachProduct(d, [&](int64_t ix, int64_t iw, int64_t iy) {
    y[iy] += x[ix] * w[iw];
    x_diff[ix] += y_diff[iy] * w[iw];
    w_diff[iw] += y_diff[iy] * x[ix];
  });
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / out_count % d.out_channels;
    if (has_bias) y[i] += bias[channel];
    y[i] = test::Stages(d.epilogue, y[i]);
    b_diff[channel] += y_diff[i];
  }
  for (Device* device : AllDevices()) {
    if (d.in == kDouble && !device->info().fp64) continue;
    for (const test::LayoutRun& run : test::LayoutRuns(device, d)) {
      const std::string& library = run.library;
      auto op = Multiplexer::ConvolutionBy(library, device, run.descriptor);
      EXPECT_EQ(op->library(), library);
      const std::string what = device->info().id + " " + library + " " + run.descriptor.name();
      const Array dx(device, d.in, run.X(x)), dw(device, d.in, w), db(device, d.master(), bias);
      const Array dy(device, d.out, std::vector<double>(y.size(), 99));
      test::Memory memory(device, op.get());
      op->Forward(memory(ConvArguments{dx, dw, {}, has_bias ? db : DevicePtr{}, dy}));
      test::ExpectNear(run.FromY(dy.Read()), y, test::Tolerance(device, library, d.out),
                       what + " forward");
      const Array dyd(device, d.out, run.Y(y_diff));
      if (d.backward_data) {
        const Array dxd(device, d.in, std::vector<double>(x.size(), 99));
        op->BackwardData(memory(ConvGradients{dx, dw, {}, dyd, dxd}));
        test::ExpectNear(run.FromX(dxd.Read()), x_diff, test::Tolerance(device, library, d.in),
                         what + " data");
      }
      if (d.backward_weights) {
        const Array dwd(device, d.master(), w_start);
        op->BackwardWeights(memory(ConvGradients{dx, {}, {}, dyd, {}, dwd}));
        test::ExpectNear(dwd.Read(), w_diff,
                         test::GradientTolerance(device, library, d.in, d.master()),
                         what + " weights");
        const Array dbd(device, d.master(), b_start);
        op->BackwardBias(memory(ConvGradients{dx, {}, {}, dyd, {}, {}, dbd}));
        test::ExpectNear(dbd.Read(), b_diff, test::Tolerance(device, library, d.master()),
                         what + " bias");
      }
    }
  }
}

TEST(ConvGeometryTest, OutputIsRoundedDown) {
  ConvGeometry g;
  g.input = {227, 10, 7};
  g.kernel = {11, 3, 3};
  g.stride = {4, 3, 1};
  g.pad = {0, 1, 2};
  g.dilation = {1, 2, 1};
  g.Normalize();
  EXPECT_EQ(g.output(), (Shape{55, 3, 9}));
  EXPECT_FALSE(g.pointwise());
}

TEST(ConvGeometryTest, RefusesWindowsThatDoNotFit) {
  ConvGeometry g;
  g.input = {4};
  g.kernel = {6};
  EXPECT_THROW(g.Normalize(), Error);
  g.pad = {1};
  g.Normalize();
  EXPECT_EQ(g.output(), Shape{1});
  g.kernel = {0};
  EXPECT_THROW(g.Normalize(), Error);
  g.input = Shape(7, 5);
  EXPECT_THROW(g.Normalize(), Error);
}

TEST(ConvolutionTest, LeNet) {
  Check(Conv(3, 1, {28, 28}, 20, {5, 5}));
  Check(Conv(3, 20, {12, 12}, 50, {5, 5}));
}

TEST(ConvolutionTest, StridePadDilationGroup) {
  Check(Conv(2, 4, {13, 11}, 6, {3, 3}, {1, 1}, {1, 1}));
  Check(Conv(2, 4, {13, 11}, 6, {3, 5}, {2, 3}, {2, 1}));
  Check(Conv(3, 4, {13, 12}, 6, {3, 2}, {1, 2}, {0, 3}, {2, 3}));
  Check(Conv(2, 6, {9, 9}, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 3));
  Check(Conv(1, 8, {9, 9}, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 8));
  // Windows that lie in the padding altogether.
  Check(Conv(1, 2, {3, 3}, 2, {2, 2}, {1, 1}, {3, 3}));
}

// A window that is larger than the padded input by less than the stride has one position, as in
// BVLC's Caffe, where C++ rounds the quotient towards 0. What it sees behind the padding is 0, too.
TEST(ConvolutionTest, WindowsThatReachBeyondThePadding) {
  for (const DataType type : {kFloat, kDouble, kHalf, kBfloat16}) {
    for (ConvDescriptor d : {Conv(2, 3, {2, 3}, 4, {3, 5}, {2, 3}),
                             Conv(2, 4, {5, 2}, 6, {3, 5}, {1, 2}, {0, 1}, {}, 2),
                             Conv(1, 2, {4, 3}, 3, {3, 2}, {4, 3}, {0, 0}, {2, 3}),
                             Conv(3, 2, {2, 4}, 2, {4, 3}, {3, 1}, {0, 1}, {}, 2),
                             Conv(3, 2, {2, 4}, 4, {3, 5}, {2, 2}, {}, {}, 2),
                             Conv(2, 3, {3}, 2, {5}, {3}), Conv(2, 2, {3}, 2, {5}, {3}, {}, {}, 2),
                             Conv(1, 2, {2, 3, 2}, 3, {3, 3, 4}, {2, 1, 3})}) {
      d.in = d.out = type;
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      Check(d);
    }
  }
  ConvGeometry g;
  g.input = {3};
  g.kernel = {5};
  g.stride = {2};
  EXPECT_THROW(g.Normalize(), Error);
  g.stride = {3};
  g.Normalize();
  EXPECT_EQ(g.output(), Shape{1});
}

// Images, groups and channels of an odd number of elements: an operand of 16 bits then begins where
// no float could, and so does what stands for a bias that is not there.
TEST(ConvolutionTest, OddCountsOfNarrowTypes) {
  uint32_t state = 17;
  const auto draw = [&state](int64_t first, int64_t last) {
    state = state * 1664525u + 1013904223u;
    return first + (state >> 16) % (last - first + 1);
  };
  for (int i = 0; i < 24; ++i) {
    const int64_t group = draw(1, 3), kernel = draw(1, 3), extent = draw(3, 9);
    ConvDescriptor d =
        Conv(draw(1, 5), group * draw(1, 3), {extent, draw(kernel, 9)}, group * draw(1, 4),
             {kernel, draw(1, 3)}, {draw(1, 2), draw(1, 2)}, {draw(0, 1), draw(1, 2)}, {}, group);
    d.in = d.out = i % 2 ? kHalf : kBfloat16;
    if (i % 3 == 0) d.epilogue.bias = Epilogue::Bias::kPerRow;
    if (i % 4 == 0) d.epilogue.stages = {kPlainReLU};
    if (i % 5 < 3) d.workspace_limit = draw(1, 2000);  // several chunks
    Check(d);
  }
  // Three outputs a group, 27 elements each: the second group begins 54 bytes into y.
  ConvDescriptor d = Conv(3, 2, {5, 5}, 6, {3, 3}, {}, {}, {}, 2);
  d.in = d.out = kHalf;
  d.workspace_limit = 1;
  Check(d);
}

TEST(ConvolutionTest, Pointwise) {
  Check(Conv(3, 7, {6, 5}, 10, {1, 1}));
  Check(Conv(2, 8, {6, 5}, 4, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 2));
  Check(Conv(2, 3, {6, 5}, 4, {1, 1}, {2, 2}));
}

TEST(ConvolutionTest, OtherNumbersOfAxes) {
  Check(Conv(2, 3, {31}, 5, {4}, {2}, {1}, {2}));
  Check(Conv(2, 3, {5, 6, 7}, 4, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}));
  Check(Conv(1, 2, {3, 4, 3, 4}, 2, {2, 2, 2, 2}, {1, 2, 1, 1}, {0, 1, 0, 1}));
  Check(Conv(1, 1, {2, 3, 2, 3, 2, 3}, 2, {1, 2, 2, 2, 1, 2}));
}

TEST(ConvolutionTest, TypesAndEpilogues) {
  for (const DataType type : {kFloat, kDouble, kHalf, kBfloat16}) {
    ConvDescriptor d = Conv(3, 4, {9, 8}, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2);
    d.in = d.out = type;
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    Check(d);
    d.epilogue.stages = {kPlainReLU};
    Check(d);
    d.epilogue.bias = Epilogue::Bias::kNone;
    Check(d);
    d = Conv(2, 2, {3, 5, 4}, 4, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 2);
    d.in = d.out = type;
    Check(d);
  }
  ConvDescriptor d = Conv(2, 4, {9, 8}, 6, {3, 3});
  d.backward_data = d.backward_weights = false;
  d.in = kHalf;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  Check(d);
}

// A small workspace: several blocks of rows, several chunks of images, the last one shorter.
TEST(ConvolutionTest, WorkspaceInPieces) {
  for (const DataType type : {kFloat, kHalf}) {
    ConvDescriptor d = Conv(5, 4, {9, 8}, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2);
    d.in = d.out = type;
    d.workspace_limit = 12000;
    Check(d);
    d.workspace_limit = 1;
    Check(d);
    d = Conv(5, 4, {9, 8}, 6, {1, 1});
    d.in = d.out = type;
    d.workspace_limit = 1000;
    Check(d);
  }
}

// Tiles that reach over the edges, blocks of 16 images that are not full, padding.
TEST(ConvolutionTest, Winograd) {
  for (const ConvDescriptor& d :
       {Conv(19, 9, {12, 12}, 11, {5, 5}), Conv(33, 8, {7, 10}, 8, {5, 5}, {1, 1}, {2, 1}),
        Conv(16, 13, {6, 7}, 10, {3, 3}, {1, 1}, {1, 2}), Conv(3, 8, {9, 15}, 17, {3, 3})}) {
    const auto libraries = Multiplexer::ConvolutionLibraries(Runtime::Get().cpu(), d);
    EXPECT_NE(std::find(libraries.begin(), libraries.end(), "winograd"), libraries.end());
    ConvDescriptor full = d;
    full.epilogue.bias = Epilogue::Bias::kPerRow;
    Check(full);
    full.epilogue.stages = {kPlainReLU};
    Check(full);
  }
  // Several strips of tiles.
  Check(Conv(2, 40, {30, 30}, 24, {3, 3}, {1, 1}, {1, 1}));
  for (const ConvDescriptor& d :
       {Conv(64, 8, {9, 9}, 8, {3, 3}, {2, 2}), Conv(64, 8, {9, 9}, 8, {3, 3}, {}, {}, {2, 2}),
        Conv(64, 8, {9, 9}, 8, {3, 3}, {}, {}, {}, 2), Conv(64, 8, {9, 9}, 8, {4, 4}),
        Conv(64, 1, {9, 9}, 8, {3, 3})}) {
    const auto libraries = Multiplexer::ConvolutionLibraries(Runtime::Get().cpu(), d);
    EXPECT_EQ(std::find(libraries.begin(), libraries.end(), "winograd"), libraries.end());
  }
}

// The direct kernels: several strips of rows, strides that leave columns out, windows in the
// padding altogether, several outputs of a channel, one axis, types and epilogues.
TEST(ConvolutionTest, Depthwise) {
  for (const ConvDescriptor& d :
       {Conv(2, 3, {70, 90}, 3, {3, 3}, {1, 1}, {1, 1}, {}, 3),
        Conv(1, 2, {70, 90}, 4, {5, 5}, {2, 2}, {2, 2}, {}, 2),
        Conv(1, 2, {60, 100}, 2, {3, 3}, {3, 2}, {1, 0}, {2, 1}, 2),
        Conv(1, 2, {5, 1500}, 2, {3, 3}, {1, 1}, {1, 1}, {}, 2),
        Conv(3, 4, {13, 12}, 8, {3, 2}, {1, 2}, {0, 3}, {2, 3}, 4),
        Conv(2, 5, {9, 11}, 15, {5, 3}, {3, 4}, {2, 1}, {}, 5),
        Conv(1, 2, {3, 3}, 2, {2, 2}, {1, 1}, {3, 3}, {}, 2),
        Conv(1, 2, {2, 3}, 2, {1, 1}, {4, 5}, {}, {}, 2),
        Conv(2, 3, {9, 8}, 3, {1, 1}, {}, {}, {}, 3), Conv(2, 3, {131}, 6, {4}, {2}, {1}, {2}, 3),
        Conv(9, 2, {40, 40}, 2, {3, 3}, {1, 1}, {1, 1}, {}, 2)}) {
    for (Device* device : AllDevices()) {
      EXPECT_EQ(Multiplexer::ConvolutionLibraries(device, d)[0], "depthwise") << d.name();
      EXPECT_STREQ(Multiplexer::Convolution(device, d)->library(), "depthwise");
    }
    Check(d);
  }
  for (const DataType type : {kFloat, kDouble, kHalf, kBfloat16}) {
    ConvDescriptor d = Conv(3, 4, {9, 8}, 8, {3, 3}, {1, 1}, {1, 1}, {}, 4);
    d.in = d.out = type;
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    Check(d);
    d.epilogue.stages = {kPlainReLU};
    Check(d);
    d.epilogue.bias = Epilogue::Bias::kNone;
    Check(d);
  }
  ConvDescriptor narrow = Conv(2, 4, {9, 8}, 4, {3, 3}, {}, {}, {}, 4);
  narrow.backward_data = narrow.backward_weights = false;
  narrow.in = kHalf;
  narrow.epilogue.bias = Epilogue::Bias::kPerRow;
  Check(narrow);
  for (const ConvDescriptor& d :
       {Conv(2, 1, {9, 9}, 4, {3, 3}), Conv(2, 4, {9, 9}, 4, {3, 3}, {}, {}, {}, 2),
        Conv(2, 2, {4, 4, 4}, 2, {3, 3, 3}, {}, {}, {}, 2),
        // More than the CPU's kernels hold.
        Conv(1, 2, {3, 4000}, 2, {3, 3}, {}, {}, {}, 2),
        Conv(1, 2, {17, 17}, 2, {17, 17}, {}, {}, {}, 2)}) {
    const auto libraries = Multiplexer::ConvolutionLibraries(Runtime::Get().cpu(), d);
    EXPECT_EQ(std::find(libraries.begin(), libraries.end(), "depthwise"), libraries.end());
  }
}

// Images or results of one position: several strides of their arrays are equal.
TEST(ConvolutionTest, OnePosition) {
  for (ConvDescriptor d :
       {Conv(8, 64, {1, 1}, 40, {1, 1}), Conv(3, 33, {1, 1}, 24, {1, 1}),
        Conv(4, 16, {7, 7}, 24, {7, 7}), Conv(4, 16, {1, 1}, 24, {3, 3}, {}, {1, 1}),
        Conv(5, 16, {1}, 32, {1}), Conv(4, 32, {1, 5}, 16, {1, 1})}) {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      d.in = d.out = type;
      d.epilogue.stages.clear();
      d.epilogue.bias = Epilogue::Bias::kNone;
      Check(d);
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      Check(d);
      d.epilogue.stages = {kPlainReLU};
      Check(d);
    }
  }
}

// One launch a pass, no allocation, no wait, no workspace but for sums; the same bits again.
TEST(ConvolutionTest, DepthwiseCountersAndRepetition) {
  for (Device* device : AllDevices()) {
    const ConvDescriptor d = Conv(4, 3, {40, 40}, 3, {3, 3}, {1, 1}, {1, 1}, {}, 3);
    const size_t count = 4 * 3 * 1600;
    const Array x(device, kFloat, Values(count, 1)), w(device, kFloat, Values(27, 2));
    const Array y(device, kFloat, Values(count, 3));
    const Array first(device, kFloat, std::vector<double>(27));
    const Array second(device, kFloat, std::vector<double>(27));
    auto op = Multiplexer::Convolution(device, d);
    test::Memory memory(device, op.get());
    const ConvArguments forward = memory(ConvArguments{x, w, {}, {}, y});
    ConvGradients gradients = memory(ConvGradients{x, w, {}, y, x, first});
    device->ResetCounters();
    op->Forward(forward);
    op->BackwardData(gradients);
    DeviceCounters counters = device->counters();
    EXPECT_EQ(counters.launches + counters.library_calls, 2) << device->info().id;
    op->BackwardWeights(gradients);
    gradients.w_diff = second;
    op->BackwardWeights(gradients);
    counters = device->counters();
    EXPECT_EQ(counters.syncs + counters.allocations + counters.builds, 0) << device->info().id;
    EXPECT_EQ(first.Read(), second.Read()) << device->info().id;
  }
}

// A channel with NaN in its bias or weights is NaN after a ReLU, too: in every library and kernel,
// in whole vectors and in the remaining elements.
TEST(ConvolutionTest, ReluKeepsWhatIsNoNumber) {
  for (const DataType type : {kFloat, kDouble, kHalf, kBfloat16}) {
    for (ConvDescriptor d :
         {Conv(3, 4, {9, 8}, 6, {3, 3}, {1, 1}, {1, 1}, {}, 2), Conv(3, 7, {6, 5}, 10, {1, 1}),
          Conv(19, 9, {12, 11}, 11, {5, 5}), Conv(3, 4, {9, 8}, 8, {3, 3}, {}, {1, 1}, {}, 4)}) {
      d.in = d.out = type;
      d.backward_data = d.backward_weights = false;
      d.epilogue.stages = {kPlainReLU};
      d.Normalize();
      d.epilogue.bias_type = d.master();
      const int64_t taps = d.weight_count() / d.out_channels, out = d.geometry.output_count();
      const auto x = Values(d.batch * d.in_channels * d.geometry.input_count(), 1);
      for (const bool in_bias : {true, false}) {
        d.epilogue.bias = in_bias ? Epilogue::Bias::kPerRow : Epilogue::Bias::kNone;
        auto w = Values(d.weight_count(), 2), bias = Values(d.out_channels, 3);
        if (in_bias) {
          bias[1] = std::nan("");
        } else {
          // All of them: the padding leaves some out.
          std::fill_n(w.begin() + taps, taps, std::nan(""));
        }
        for (Device* device : AllDevices()) {
          if (type == kDouble && !device->info().fp64) continue;
          const Array dx(device, type, x), dw(device, type, w), db(device, d.master(), bias);
          for (const test::LayoutRun& run : test::LayoutRuns(device, d)) {
            const std::string& library = run.library;
            const Array dy(device, type, std::vector<double>(d.batch * d.out_channels * out));
            const auto op = Multiplexer::ConvolutionBy(library, device, run.descriptor);
            test::Memory memory(device, op.get());
            op->Forward(memory(ConvArguments{dx, dw, {}, in_bias ? db : DevicePtr{}, dy}));
            const std::vector<double> y = run.FromY(dy.Read());
            size_t wrong = 0;
            for (size_t i = 0; i < y.size(); ++i) {
              const int64_t channel = static_cast<int64_t>(i) / out % d.out_channels;
              wrong += channel == 1 ? !std::isnan(y[i]) : !(y[i] >= 0);
            }
            EXPECT_EQ(wrong, 0u) << device->info().id << " " << library << " " << d.name();
          }
        }
      }
    }
  }
}

// The cost of a pass on a device: im2col and a product per chunk and group, or one call of cuDNN;
// no allocation, no wait.
TEST(ConvolutionTest, CountersAndRepetition) {
  for (Device* device : AllDevices()) {
    ConvDescriptor d = Conv(4, 4, {9, 8}, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2);
    const Array x(device, kFloat, Values(4 * 4 * 72, 1)), w(device, kFloat, Values(108, 2));
    const Array y(device, kFloat, Values(4 * 6 * 72, 3)), dw(device, kFloat, Values(108, 4));
    for (const test::LayoutRun& run : test::LayoutRuns(device, d)) {
      const std::string& library = run.library;
      auto op = Multiplexer::ConvolutionBy(library, device, run.descriptor);
      test::Memory memory(device, op.get());
      const ConvArguments forward = memory(ConvArguments{x, w, {}, {}, y});
      ConvGradients gradients = memory(ConvGradients{x, w, {}, y, x, dw});
      device->ResetCounters();
      op->Forward(forward);
      DeviceCounters counters = device->counters();
      const int64_t expected = device->host_accessible() || library == "cudnn" ? 1 : 3;
      // Conversions cost as much as the arrays need.
      if (library != "converted") {
        EXPECT_EQ(counters.launches + counters.library_calls, expected) << library;
      }
      op->BackwardData(gradients);
      op->BackwardWeights(gradients);
      counters = device->counters();
      EXPECT_EQ(counters.syncs + counters.allocations + counters.builds, 0) << library;
      // The same bits again.
      const Array first(device, kFloat, std::vector<double>(108));
      const Array second(device, kFloat, std::vector<double>(108));
      gradients.w_diff = first;
      op->BackwardWeights(gradients);
      gradients.w_diff = second;
      op->BackwardWeights(gradients);
      EXPECT_EQ(first.Read(), second.Read()) << library;
    }
  }
}

// oneDNN, where it is built in, computes these descriptors in every pair of layouts, or in none: it
// has no kernel of its own for some of them with AVX2 alone.
TEST(ConvolutionTest, OneDnnTakesBothLayouts) {
  Device* cpu = Runtime::Get().cpu();
  const auto knows = [&](const ConvDescriptor& d) {
    const auto libraries = Multiplexer::ConvolutionLibraries(cpu, d);
    return std::find(libraries.begin(), libraries.end(), "onednn") != libraries.end();
  };
  if (!knows(Conv(1, 8, {9, 9}, 16, {3, 3}))) {
    GTEST_SKIP() << "without oneDNN, or without its kernels for this processor";
  }
  int known = 0;
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    for (ConvDescriptor d :
         {Conv(2, 3, {23, 20}, 16, {7, 7}, {2, 2}, {3, 3}), Conv(2, 16, {8, 9}, 32, {1, 1}),
          Conv(3, 16, {8, 9}, 24, {3, 3}, {}, {2, 2}, {2, 2}),
          Conv(1, 24, {9, 8}, 16, {5, 5}, {}, {2, 2}, {}, 2),
          Conv(2, 32, {9, 8}, 32, {3, 3}, {}, {1, 1}, {}, 32), Conv(5, 1, {9, 9}, 17, {5, 5})}) {
      d.in = d.out = type;
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      int pairs = 0;
      for (const test::LayoutRun& run : test::LayoutRuns(cpu, d)) pairs += run.library == "onednn";
      EXPECT_EQ(pairs, knows(d) ? 4 : 0) << d.name();
      known += knows(d);
      Check(d);
    }
  }
  EXPECT_GE(known, 3 * 4) << "of 6 descriptors in 3 types";
}

// Forward passes whose x is copied to the order of oneDNN: few channels, over one thread's blocks
// and over several; points that see padding, with bounds and sums after them.
TEST(ConvolutionTest, OneDnnCopiesItsInput) {
  Device* cpu = Runtime::Get().cpu();
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    for (ConvDescriptor d :
         {Conv(1, 3, {96, 100}, 16, {3, 3}, {2, 2}), Conv(2, 4, {9, 8}, 16, {3, 3}, {}, {1, 1}),
          Conv(3, 2, {70, 75}, 16, {3, 3}, {}, {1, 1}), Conv(2, 16, {8, 9}, 24, {1, 1}, {}, {1, 2}),
          Conv(1, 32, {5, 5}, 40, {1, 1}, {}, {0, 2}),
          Conv(2, 3, {4, 5}, 16, {1, 1}, {}, {2, 1})}) {
      d.in = d.out = type;
      d.backward_data = d.backward_weights = false;
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      Check(d);
      d.epilogue.stages = {kPlainReLU};
      Check(d);
    }
  }
}

// Windows of one element of half kinds, which oneDNN's rows widen block by block: several blocks
// and parts of output rows, strides, bounds, and other types of y.
TEST(ConvolutionTest, OneDnnWidensBlocksOfPoints) {
  for (const DataType type : {kHalf, kBfloat16}) {
    for (ConvDescriptor d :
         {Conv(1, 600, {9, 11}, 500, {1, 1}), Conv(3, 24, {8, 9}, 40, {1, 1}),
          Conv(2, 32, {15, 13}, 24, {1, 1}, {2, 3}), Conv(2, 16, {37}, 8, {1}, {2}),
          Conv(2, 16, {5, 7, 9}, 8, {1, 1, 1}, {1, 2, 2}), Conv(1, 1024, {1, 1}, 40, {1, 1})}) {
      d.in = d.out = type;
      d.backward_data = d.backward_weights = false;
      Check(d);
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      d.epilogue.stages = {kPlainReLU};
      Check(d);
      d.out = kFloat;
      Check(d);
    }
  }
}

// Few products of one image: the threads share its channels, and read blocks of input channels.
TEST(ConvolutionTest, ThreadsShareChannelsOfSmallImages) {
  for (const DataType type : {kFloat, kDouble, kBfloat16}) {
    for (ConvDescriptor d :
         {Conv(1, 20, {12, 12}, 50, {5, 5}), Conv(1, 1, {28, 28}, 20, {5, 5}),
          Conv(1, 24, {18, 18}, 33, {3, 3}), Conv(1, 40, {9, 24}, 7, {1, 1}),
          Conv(1, 8, {34, 34}, 6, {3, 3}, {}, {}, {}, 2), Conv(1, 30, {18}, 12, {3}),
          Conv(1, 3, {5, 7, 26}, 9, {3, 3, 3}), Conv(1, 4, {9, 9}, 1, {2, 2}, {}, {}, {2, 2})}) {
      d.in = d.out = type;
      d.backward_data = d.backward_weights = false;
      d.epilogue.bias = Epilogue::Bias::kPerRow;
      Check(d);
      d.epilogue.stages = {kPlainReLU};
      Check(d);
    }
  }
}

// Where oneDNN is the fastest: with many products for each element that is converted to NHWC;
// without conversions almost everywhere; never for gradients.
TEST(ConvolutionTest, OneDnnIsPreferredWhereItIsFaster) {
  Device* cpu = Runtime::Get().cpu();
  ConvDescriptor d = Conv(1, 64, {56, 56}, 64, {3, 3}, {}, {1, 1});
  d.backward_data = d.backward_weights = false;
  const auto has = [&](const ConvDescriptor& of) {
    const auto libraries = Multiplexer::ConvolutionLibraries(cpu, of);
    return std::find(libraries.begin(), libraries.end(), "onednn") != libraries.end();
  };
  if (!has(d)) GTEST_SKIP() << "without oneDNN, or without its kernels for this processor";
  const auto first = [&](const ConvDescriptor& of) {
    return Multiplexer::ConvolutionLibraries(cpu, of)[0];
  };
  EXPECT_EQ(first(d), "onednn");
  EXPECT_EQ(Multiplexer::PreferredLayout(cpu, d), Layout::kNHWC);
  ConvDescriptor training = d;
  training.backward_data = training.backward_weights = true;
  EXPECT_NE(first(training), "onednn");
  EXPECT_EQ(Multiplexer::PreferredLayout(cpu, training), Layout::kNCHW);
  ConvDescriptor points = Conv(1, 64, {56, 56}, 64, {1, 1});
  points.backward_data = points.backward_weights = false;
  EXPECT_EQ(first(points), "openblas");
  EXPECT_EQ(Multiplexer::PreferredLayout(cpu, points), Layout::kNHWC);
  points.x_layout = points.y_layout = Layout::kNHWC;
  EXPECT_EQ(first(points), "onednn");
  ConvDescriptor depthwise = Conv(1, 512, {14, 14}, 512, {3, 3}, {}, {1, 1}, {}, 512);
  depthwise.backward_data = depthwise.backward_weights = false;
  EXPECT_EQ(first(depthwise), "depthwise");
  EXPECT_EQ(Multiplexer::PreferredLayout(cpu, depthwise), Layout::kNHWC);
  ConvDescriptor small = Conv(1, 20, {12, 12}, 50, {5, 5});
  small.backward_data = small.backward_weights = false;
  EXPECT_NE(first(small), "onednn");
  EXPECT_EQ(Multiplexer::PreferredLayout(cpu, small), Layout::kNCHW);
}

TEST(ConvolutionTest, RefusesWhatItCanNotDo) {
  Device* cpu = Runtime::Get().cpu();
  EXPECT_THROW(Multiplexer::Convolution(cpu, Conv(1, 6, {5, 5}, 4, {3, 3}, {}, {}, {}, 4)), Error);
  ConvDescriptor d = Conv(1, 2, {5, 5}, 4, {3, 3});
  d.backward_data = false;
  auto op = Multiplexer::Convolution(cpu, d);
  EXPECT_THROW(op->BackwardData({}), Error);
  d.in = kQuant8;
  d.out = kQuant8;
  EXPECT_THROW(Multiplexer::Convolution(cpu, d), Error);
}

TEST(BiasTest, AddsActivatesAndSums) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf, kBfloat16, kDouble}) {
      if (type == kDouble && !device->info().fp64) continue;
      const DataType master = type == kDouble ? kDouble : kFloat;
      // With inner = 1 and many rows work groups share the sums, 32 channels each.
      for (const auto [outer, channels, inner] : std::vector<std::array<int64_t, 3>>{
               {5, 3, 1}, {5, 3, 7}, {5, 3, 3000}, {1501, 3, 1}, {4100, 70, 1}}) {
        const auto x = Values(outer * channels * inner, 1), bias = Values(channels, 2);
        std::vector<double> plain = x, relu = x, sums = bias;
        for (size_t i = 0; i < x.size(); ++i) {
          const int64_t c = static_cast<int64_t>(i) / inner % channels;
          plain[i] = x[i] + bias[c];
          relu[i] = std::max(x[i], 0.0);
          sums[c] += x[i];
        }
        Epilogue add, activate, both;
        add.bias = both.bias = Epilogue::Bias::kPerRow;
        activate.stages = both.stages = {kPlainReLU};
        BiasOp op(device, type, master, outer, channels, inner, add, true);
        BiasOp relu_op(device, type, master, outer, channels, inner, activate, false);
        BiasOp both_op(device, type, master, outer, channels, inner, both, false);
        const Array dx(device, type, x), db(device, master, bias), dy(device, type, x);
        const std::string what = device->info().id + " " + type.name();
        op.Forward(dx, db, dy);
        test::ExpectNear(dy.Read(), plain, test::Tolerance(type), what);
        relu_op.Forward(dx, {}, dy);
        test::ExpectNear(dy.Read(), relu, test::Tolerance(type), what);
        const test::Bytes workspace(device, op.workspace_bytes());
        op.Backward(dx, db, workspace);
        test::ExpectNear(db.Read(), sums, test::Tolerance(master), what);
        const Array nan(device, type, std::vector<double>(x.size(), std::nan("")));
        for (BiasOp* activated : {&relu_op, &both_op}) {
          activated->Forward(nan, activated == &both_op ? db : DevicePtr{}, dy);
          for (const double y : dy.Read()) ASSERT_TRUE(std::isnan(y)) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace caffe
