// Convolutions by windows of 3x3, and batches in pieces, against other operators.
#include "caffe/core/error.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/library_support.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

std::unique_ptr<ConvOp> Own(Device* device, const ConvDescriptor& d) {
  return Multiplexer::ConvolutionBy("generated", device, d);
}

ConvDescriptor Conv(int64_t batch, int64_t in, const Shape& input, int64_t out, const Shape& kernel,
                    const Shape& stride, const Shape& pad, int64_t group) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry.input = input;
  d.geometry.kernel = kernel;
  d.geometry.stride = stride;
  d.geometry.pad = pad;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.Normalize();
  return d;
}

// The results of an operator for numbers that depend on the descriptor only.
std::vector<double> Results(Device* device, ConvOp* op) {
  const ConvDescriptor& d = op->descriptor();
  const int64_t y_count = d.batch * d.out_channels * d.geometry.output_count();
  const Array x(device, d.in, Values(d.batch * d.in_channels * d.geometry.input_count(), 1));
  const Array w(device, d.in, Values(d.weight_count(), 2));
  const Array bias(device, d.master(), Values(d.out_channels, 3));
  const Array residual(device, d.out, Values(y_count, 4));
  const Array y(device, d.out, std::vector<double>(y_count, 99));
  ConvArguments a{x, w, {}, bias, y};
  if (d.epilogue.sum()) a.epilogue.residual = residual;
  test::Memory memory(device, op);
  op->Forward(memory(a));
  return y.Read();
}

void ExpectSame(const std::vector<double>& actual, const std::vector<double>& expected,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << what << " " << i;
  }
}

TEST(SmallWindowsTest, EqualTheConvolution) {
  const std::vector<ConvDescriptor> all{
      Conv(2, 3, {35, 31}, 8, {11, 11}, {4, 4}, {0, 0}, 1),  // CaffeNet's conv1
      Conv(3, 4, {9, 12}, 6, {5, 5}, {1, 1}, {2, 2}, 2),     // CaffeNet's conv2
      Conv(4, 3, {17, 18}, 4, {7, 7}, {2, 2}, {3, 3}, 1),    // GoogLeNet's conv1
      Conv(1, 2, {8, 11}, 3, {5, 3}, {1, 1}, {0, 2}, 1),
      Conv(2, 2, {13, 10}, 2, {3, 8}, {2, 3}, {1, 4}, 1),
      Conv(2, 2, {9, 9}, 2, {9, 9}, {1, 1}, {0, 0}, 1),
  };
  int run = 0;
  for (Device* device : AllDevices()) {
    if (device->host_accessible()) continue;
    for (ConvDescriptor d : all) {
      // One image at a time, several, and all.
      for (const int64_t most : {1, 3 * 4 * 60 * 60 * 4, 1 << 20}) {
        const ConvLibrary row = SmallWindowsLibrary(&Own, most);
        if (run % 2) d.epilogue.stages = {ResidualSum{0.5f}, kPlainReLU};
        ASSERT_TRUE(row.Supports(device, d)) << d.name();
        const auto op = row.make(device, d);
        EXPECT_STREQ(op->library(), "small_windows");
        ExpectSame(Results(device, op.get()), Results(device, Own(device, d).get()),
                   Concat(device->info().id, " ", d.name(), " ", most));
        ++run;
      }
    }
  }
  if (run == 0) GTEST_SKIP() << "needs an OpenCL or CUDA device";
}

TEST(SmallWindowsTest, RefuseWhatTheyDoNotHelp) {
  const ConvLibrary row = SmallWindowsLibrary(&Own);
  ConvDescriptor d = Conv(2, 4, {9, 12}, 6, {5, 5}, {1, 1}, {2, 2}, 1);
  EXPECT_FALSE(row.Supports(Runtime::Get().cpu(), d));
  for (Device* device : AllDevices()) {
    if (device->host_accessible()) continue;
    EXPECT_TRUE(row.Supports(device, d));
    const auto refuses = [&](const ConvDescriptor& other) { return !row.Supports(device, other); };
    EXPECT_TRUE(refuses(Conv(2, 4, {9, 12}, 6, {3, 3}, {1, 1}, {1, 1}, 1))) << "is one";
    EXPECT_TRUE(refuses(Conv(2, 4, {9, 12}, 6, {1, 1}, {2, 2}, {0, 0}, 1)));
    EXPECT_TRUE(refuses(Conv(2, 4, {9, 12}, 6, {2, 2}, {1, 1}, {0, 0}, 1)));
    EXPECT_TRUE(refuses(Conv(2, 4, {9, 12}, 4, {5, 5}, {1, 1}, {2, 2}, 4))) << "single channels";
    EXPECT_TRUE(refuses(Conv(2, 4, {9, 12}, 6, {3, 3}, {2, 2}, {1, 1}, 1)))
        << "4 times the products";
    d.backward_data = true;
    EXPECT_TRUE(refuses(d));
    EXPECT_THROW(row.make(device, d), Error);
    d.backward_data = false;
    // In the table they are behind libraries that are preferred.
    EXPECT_NE(Multiplexer::ConvolutionLibraries(device, d)[0], "small_windows");
    const ScopedVariable setting("CAFFE_LIBRARY", "conv=small_windows");
    EXPECT_EQ(Multiplexer::ConvolutionLibraries(device, d)[0], "small_windows");
  }
}

// A library whose workspace grows with the batch.
TEST(PiecesTest, ComputeTheSameWithLessMemory) {
  int run = 0;
  for (Device* device : AllDevices()) {
    if (device->host_accessible()) continue;
    ConvDescriptor d = Conv(12, 3, {10, 9}, 4, {3, 3}, {1, 1}, {1, 1}, 1);
    d.epilogue.stages = {ResidualSum{}, kPlainReLU};
    ConvLibrary own;
    own.name = "generated";
    own.make = &Own;
    const auto whole = Own(device, d);
    const int64_t bytes = whole->workspace_bytes();
    ASSERT_GT(bytes, 0);
    const std::vector<double> expected = Results(device, whole.get());
    for (const int64_t most : {bytes, bytes / 2, bytes / 5, int64_t{1}}) {
      const auto op = InPieces(own, most).make(device, d);
      EXPECT_EQ(op->descriptor().batch, 12);
      EXPECT_EQ(op->workspace_bytes() <= most, most > 1) << op->workspace_bytes() << " " << most;
      EXPECT_LE(op->workspace_bytes(), bytes);
      ExpectSame(Results(device, op.get()), expected, Concat(device->info().id, " ", most));
      ++run;
    }
    // Backward passes are not divided.
    d.backward_weights = true;
    EXPECT_EQ(InPieces(own, 1).make(device, d)->workspace_bytes(),
              Own(device, d)->workspace_bytes());
  }
  if (run == 0) GTEST_SKIP() << "needs an OpenCL or CUDA device";
}

}  // namespace
}  // namespace caffe
