// cuDNN and cuBLASLt: what holds without a device. convolution_test.cpp, epilogue_test.cpp and
// gemm_test.cpp run their rows with all others.
#include "caffe/library/cudnn/conv_graph.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/library/cudnn/channels_last.hpp"
#include "caffe/library/tuning_table.hpp"
#include "library/library_support.hpp"
#include "support/epilogues.hpp"

namespace caffe {
namespace {

using cudnn::ChannelsLast;
using cudnn::ConvGraph;
using cudnn::ConvPass;
using cudnn::EngineChoice;
using test::AllDevices;
using test::Array;
using test::Values;

ConvDescriptor Nhwc(DataType type, int64_t batch, int64_t in, Shape input, int64_t out,
                    Shape kernel, Shape stride = {}, Shape pad = {}, int64_t group = 1) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry = {std::move(input), std::move(kernel), std::move(stride), std::move(pad), {}};
  d.in = d.out = type;
  d.x_layout = d.y_layout = Layout::kNHWC;
  d.backward_data = d.backward_weights = true;
  d.Normalize();
  return d;
}

// The position of element (n, c, axes…) of an image with channels last, and of (o, c, taps…) of
// weights.
int64_t Index(const Shape& extents, const Shape& at) {
  int64_t index = 0;
  for (size_t i = 0; i < extents.size(); ++i) index = index * extents[i] + at[i];
  return index;
}

// y = conv(x, w) with x [batch, axes…, channels], w [out, axes…, channels] and y likewise, groups
// one: in double.
std::vector<double> Convolve(const ConvDescriptor& d, const std::vector<double>& x,
                             const std::vector<double>& w) {
  const ConvGeometry& g = d.geometry;
  const Shape out = g.output();
  std::vector<double> y;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t oh = 0; oh < out[0]; ++oh) {
      for (int64_t ow = 0; ow < out[1]; ++ow) {
        for (int64_t o = 0; o < d.out_channels; ++o) {
          double sum = 0;
          for (int64_t kh = 0; kh < g.kernel[0]; ++kh) {
            for (int64_t kw = 0; kw < g.kernel[1]; ++kw) {
              const int64_t h = oh * g.stride[0] - g.pad[0] + kh * g.dilation[0];
              const int64_t u = ow * g.stride[1] - g.pad[1] + kw * g.dilation[1];
              if (h < 0 || h >= g.input[0] || u < 0 || u >= g.input[1]) continue;
              for (int64_t c = 0; c < d.in_channels; ++c) {
                sum += x[Index({d.batch, g.input[0], g.input[1], d.in_channels}, {n, h, u, c})] *
                       w[Index({d.out_channels, g.kernel[0], g.kernel[1], d.in_channels},
                               {o, kh, kw, c})];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

std::vector<ConvDescriptor> ImagesWithFewChannels(DataType type) {
  return {Nhwc(type, 2, 3, {23, 19}, 4, {11, 7}, {4, 4}), Nhwc(type, 3, 3, {9, 8}, 2, {3, 3}),
          Nhwc(type, 2, 1, {9, 10}, 3, {5, 3}, {2, 1}, {2, 1}),
          Nhwc(type, 2, 7, {8, 8}, 2, {3, 3}, {2, 2}, {1, 1}),
          // Strides that leave rows out, and more than the window.
          Nhwc(type, 1, 2, {11, 9}, 2, {2, 3}, {3, 4}, {0, 2}),
          Nhwc(type, 1, 3, {6, 7}, 2, {1, 1}, {2, 3})};
}

TEST(ChannelsLastTest, TheFormHasStride1AndWholeVectors) {
  const ConvDescriptor first = Nhwc(kHalf, 2, 3, {227, 227}, 96, {11, 11}, {4, 4});
  ConvDescriptor form = ChannelsLast::FormOf(first);
  EXPECT_EQ(form.in_channels, 48);
  EXPECT_EQ(form.geometry.kernel, (Shape{3, 3}));
  EXPECT_EQ(form.geometry.input, (Shape{57, 57}));
  EXPECT_EQ(form.geometry.output(), first.geometry.output());
  form = ChannelsLast::FormOf(Nhwc(kBfloat16, 2, 3, {224, 224}, 64, {7, 7}, {2, 2}, {3, 3}));
  EXPECT_EQ(form.in_channels, 16);
  EXPECT_EQ(form.geometry.kernel, (Shape{4, 4}));
  EXPECT_EQ(form.geometry.output(), (Shape{112, 112}));
  form = ChannelsLast::FormOf(Nhwc(kHalf, 2, 3, {224, 224}, 64, {3, 3}, {}, {1, 1}));
  EXPECT_EQ(form.in_channels, 8);
  EXPECT_EQ(form.geometry.pad, (Shape{1, 1}));
  for (const ConvDescriptor& same :
       {Nhwc(kFloat, 2, 3, {9, 9}, 4, {3, 3}), Nhwc(kHalf, 2, 8, {9, 9}, 4, {3, 3}, {2, 2}),
        Nhwc(kHalf, 2, 4, {9, 9}, 4, {3, 3}, {2, 2}, {}, 2)}) {
    EXPECT_EQ(ChannelsLast::FormOf(same).key(), same.key());
  }
  ConvDescriptor nchw = first;
  nchw.x_layout = nchw.y_layout = Layout::kNCHW;
  EXPECT_EQ(ChannelsLast::FormOf(nchw).key(), nchw.key());
}

// The form of a convolution computes the same sums, and its arrays come back unchanged.
TEST(ChannelsLastTest, TheFormComputesTheConvolution) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kHalf, kBfloat16}) {
      for (const ConvDescriptor& d : ImagesWithFewChannels(type)) {
        const std::string what = device->info().id + " " + d.name();
        ChannelsLast last(device, d);
        ASSERT_TRUE(last.changes_images() && last.changes_weights()) << what;
        const ConvDescriptor& form = last.form();
        const int64_t taps = d.geometry.kernel_count(), in = d.in_channels;
        const auto x = Values(d.batch * in * d.geometry.input_count(), 1);
        const auto w = Values(d.weight_count(), 2);
        const int64_t images = form.batch * form.in_channels * form.geometry.input_count();
        const Array dx(device, type, x), dw(device, type, w);
        const Array fx(device, type, std::vector<double>(images, 99));
        const Array fw(device, type, std::vector<double>(form.weight_count(), 99));
        EXPECT_EQ(last.image_bytes(), images * static_cast<int64_t>(type.bytes()));
        last.FoldImages(dx, fx);
        last.FoldWeights(dw, fw);
        // [out, channels, taps] -> [out, taps, channels]
        std::vector<double> w_last(w.size());
        for (int64_t i = 0; i < static_cast<int64_t>(w.size()); ++i) {
          const int64_t tap = i % taps, c = i / taps % in, o = i / taps / in;
          w_last[(o * taps + tap) * in + c] = w[i];
        }
        EXPECT_EQ(Convolve(form, fx.Read(), fw.Read()), Convolve(d, x, w_last)) << what;

        // Elements that no window reads have no place in the form: their gradient is 0.
        const Array back(device, type, std::vector<double>(x.size(), 99));
        last.UnfoldImages(fx, back);
        const auto unfolded = back.Read();
        const Shape out = d.geometry.output();
        for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
          const Shape& input = d.geometry.input;
          const int64_t u = i / in % input[1], h = i / in / input[1] % input[0];
          bool read = true;
          if (form.geometry.stride != d.geometry.stride) {
            read = (h + d.geometry.pad[0]) / d.geometry.stride[0] < form.geometry.input[0] &&
                   (u + d.geometry.pad[1]) / d.geometry.stride[1] < form.geometry.input[1];
          }
          ASSERT_EQ(unfolded[i], read ? x[i] : 0) << what << " element " << i;
        }
        // No window reads an element outside the form.
        EXPECT_EQ(Convolve(d, unfolded, w_last), Convolve(d, x, w_last)) << what;

        const auto start = Values(w.size(), 3);
        std::vector<double> expected = start;
        for (size_t i = 0; i < w.size(); ++i) expected[i] += w[i];
        for (const DataType stored : {kFloat, type}) {
          const Array sums(device, kFloat, start), gradient(device, stored, fw.Read());
          last.MakeAddition(device, stored);
          last.AddGradient(gradient, sums);
          EXPECT_EQ(sums.Read(), expected) << what << " " << stored.name();
        }
      }
    }
  }
}

// Groups, three axes, and NCHW, whose weights stay as they are.
TEST(ChannelsLastTest, MovesTheChannelsOfWeights) {
  for (Device* device : AllDevices()) {
    for (ConvDescriptor d :
         {Nhwc(kFloat, 1, 6, {5, 6}, 4, {3, 2}, {}, {}, 2),
          Nhwc(kHalf, 1, 8, {4, 5, 6}, 3, {2, 3, 2}), Nhwc(kFloat, 1, 2, {9}, 3, {4}, {2})}) {
      for (const Layout layout : {Layout::kNHWC, Layout::kNCHW}) {
        d.x_layout = d.y_layout = layout;
        const std::string what = device->info().id + " " + d.name();
        ChannelsLast last(device, d);
        const bool moves = layout == Layout::kNHWC;
        EXPECT_FALSE(last.changes_images()) << what;
        EXPECT_EQ(last.changes_weights(), moves) << what;
        const auto w = Values(d.weight_count(), 1), start = Values(w.size(), 2);
        const int64_t taps = d.geometry.kernel_count(), channels = d.in_channels / d.group;
        std::vector<double> ordered = w, sums = start;
        for (size_t i = 0; i < w.size(); ++i) {
          const int64_t tap = i % taps, c = i / taps % channels, o = i / taps / channels;
          if (moves) ordered[(o * taps + tap) * channels + c] = w[i];
          sums[i] += w[i];
        }
        if (moves) {
          const Array dw(device, d.in, w), folded(device, d.in, start);
          last.FoldWeights(dw, folded);
          EXPECT_EQ(folded.Read(), ordered) << what;
        }
        const Array gradient(device, kFloat, ordered), sum(device, kFloat, start);
        last.MakeAddition(device, kFloat);
        last.AddGradient(gradient, sum);
        EXPECT_EQ(sum.Read(), sums) << what;
      }
    }
  }
}

TEST(TuningTest, RowsAreText) {
  const TunedRow row{true, 0.125, "fused engine 53 knobs 2=1,13=4"};
  EXPECT_EQ(row.text(), "exhaustive 0.125 fused engine 53 knobs 2=1,13=4");
  const auto parsed = TunedRow::Parse(row.text());
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->exhaustive);
  EXPECT_EQ(parsed->milliseconds, 0.125);
  EXPECT_EQ(parsed->configuration, row.configuration);
  for (const char* damaged : {"", "quick", "quick 1", "quick x engine 1", "fast 1 engine 1",
                              "quick -1 engine 1", "quick nan engine 1"}) {
    EXPECT_FALSE(TunedRow::Parse(damaged)) << damaged;
  }
}

TEST(TuningTest, EnginesAreText) {
  for (const EngineChoice& choice :
       {EngineChoice{53, {}}, EngineChoice{0, {{2, 1}}}, EngineChoice{7, {{2, 1}, {13, 40}}}}) {
    EXPECT_EQ(EngineChoice::Parse(choice.text()), choice) << choice.text();
  }
  for (const char* damaged :
       {"", "engine", "engine -1", "engine x", "53", "engine 1 knobs", "engine 1 knobs 2",
        "engine 1 knobs 2=", "engine 1 knobs 2=1,", "engine 1 knobs 2:1", "engine 1 knob 2=1",
        "engine 1 knobs 2=1;3=4"}) {
    EXPECT_FALSE(EngineChoice::Parse(damaged)) << damaged;
  }
}

// A row that is stored is found again, and is not if anything that the choice depends on differs.
TEST(TuningTest, TheTableKeepsChoices) {
  Device* cpu = Runtime::Get().cpu();
  // The program cache outlives the process: the shape must be new.
  const std::string shape = Concat("a shape of process ", ::getpid(), " at ", ::time(nullptr));
  const TunedOperation operation{cpu, "a library", "1", "forward", shape, "half"};
  const size_t before = TunedChoices().size();
  StoreTuned(operation, {false, 2.5, "engine 3"}, 4);
  const auto row = FindTuned(operation);
  ASSERT_TRUE(row);
  EXPECT_FALSE(row->exhaustive);
  EXPECT_EQ(row->milliseconds, 2.5);
  EXPECT_EQ(row->configuration, "engine 3");
  ASSERT_EQ(TunedChoices().size(), before + 1);
  const TunedChoice reported = TunedChoices().back();
  EXPECT_EQ(reported.device, "cpu");
  EXPECT_EQ(reported.library, "a library");
  EXPECT_EQ(reported.operation, "forward " + shape);
  EXPECT_EQ(reported.configuration, "engine 3");
  EXPECT_EQ(reported.measured, 4);
  TunedOperation other = operation;
  other.version = "2";
  EXPECT_FALSE(FindTuned(other));
  other = operation;
  other.pass = "data";
  EXPECT_FALSE(FindTuned(other));
  other = operation;
  other.types = "float";
  EXPECT_FALSE(FindTuned(other));
  other = operation;
  other.shape = "another shape";
  EXPECT_FALSE(FindTuned(other));
  // A text that is not a row is ignored.
  Runtime::Get().program_cache().StoreTuning(operation.key(), "engine 3");
  EXPECT_FALSE(FindTuned(operation));
  {
    const TuneExhaustively exhaustively;
    StoreTuned(operation, {false, 2, "engine 4"}, 1);
    EXPECT_FALSE(FindTuned(operation)) << "it is not an exhaustive choice of this process";
    StoreTuned(operation, {true, 1, "engine 5"}, 9);
    ASSERT_TRUE(FindTuned(operation));
    EXPECT_EQ(FindTuned(operation)->configuration, "engine 5");
  }
  EXPECT_EQ(FindTuned(operation)->configuration, "engine 5");
  StoreTuned(operation, {false, 3, "engine 6"}, 2);
  EXPECT_EQ(FindTuned(operation)->configuration, "engine 5") << "quick replaced exhaustive";
}

// The properties of an H200, for which cuDNN finds engines although it is not present.
constexpr char kH200[] =
    R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "deviceName": "NVIDIA H200",
        "multiProcessorCount": 132, "maxSharedMemoryPerBlockOptin": 232448,
        "totalGlobalMem": 150000000000, "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "smClockRateKHz": 1980000,
        "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "warpSize": 32,
        "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32,
        "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0,
        "supportCoopLaunch": 1})";

class ConvGraphTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn::Find()) GTEST_SKIP() << "cuDNN is not installed";
    h200_ = cudnn::Descriptor(cudnn::descriptor::kDeviceProperties);
    h200_.Set(cudnn::attribute::kDeviceJson, cudnn::type::kChar, sizeof(kH200) - 1, kH200);
    if (!h200_.TryFinalize()) GTEST_SKIP() << "this cuDNN needs a device to find engines";
  }

  // The engines that need no compiler, which may need a driver.
  std::vector<EngineChoice> Engines(ConvDescriptor d, ConvPass pass, bool fused) const {
    d.Normalize();
    const ConvGraph graph({nullptr, &h200_}, d, pass, fused);
    std::vector<EngineChoice> found;
    for (int64_t i = 0; i < graph.engines(); ++i) {
      const EngineChoice choice{i, {}};
      const auto facts = graph.Check(choice);
      if (!facts || facts->compiled_at_run_time) continue;
      if (const auto plan = graph.Make(choice)) {
        EXPECT_GE(plan->workspace, 0);
        found.push_back(choice);
      }
    }
    return found;
  }

  static ConvDescriptor Grouped(DataType type, Layout layout) {
    ConvDescriptor d;
    d.batch = 8;
    d.in_channels = 96;
    d.out_channels = 256;
    d.group = 2;
    d.geometry.input = {27, 27};
    d.geometry.kernel = {5, 5};
    d.geometry.pad = {2, 2};
    d.in = d.out = type;
    d.x_layout = d.y_layout = layout;
    return d;
  }

  cudnn::Descriptor h200_;
};

TEST_F(ConvGraphTest, FindsEnginesForEveryPass) {
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      const ConvDescriptor d = Grouped(type, layout);
      const std::string what = d.name();
      EXPECT_FALSE(Engines(d, ConvPass::kForward, false).empty()) << what;
      EXPECT_FALSE(Engines(d, ConvPass::kData, false).empty()) << what;
      // Gradients in float of data of 16 bits have compiled engines only.
      if (type != kFloat) continue;
      EXPECT_FALSE(Engines(d, ConvPass::kWeights, false).empty()) << what;
    }
  }
}

TEST_F(ConvGraphTest, FusesEpiloguesOfFloat) {
  ConvDescriptor d = Grouped(kFloat, Layout::kNCHW);
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  EXPECT_FALSE(Engines(d, ConvPass::kForward, true).empty());
  d.epilogue.stages = {kPlainReLU};
  EXPECT_FALSE(Engines(d, ConvPass::kForward, true).empty());
  d.epilogue.stages = {ResidualSum{0.5f}, kPlainReLU};
  EXPECT_FALSE(Engines(d, ConvPass::kForward, true).empty());
}

TEST_F(ConvGraphTest, DescribesEveryEpilogueThatItFuses) {
  int fused = 0;
  for (const DataType type : {kFloat, kHalf}) {
    for (const ElementFunction& activation : test::Activations()) {
      for (const auto& stages : test::StagesWith(activation)) {
        for (const auto bias : {Epilogue::Bias::kNone, Epilogue::Bias::kPerRow}) {
          ConvDescriptor d = Grouped(type, Layout::kNHWC);
          d.epilogue.bias = bias;
          d.epilogue.stages = stages;
          d.Normalize();
          if (!cudnn::CanFuse(d.epilogue)) continue;
          const ConvGraph graph({nullptr, &h200_}, d, ConvPass::kForward, true);
          EXPECT_GT(graph.engines(), 0) << d.name() << d.epilogue.name();
          ++fused;
        }
      }
    }
  }
  EXPECT_GT(fused, 40);
}

// Gradients of half data that are stored in float or in half. Engines for float compile their
// kernels, which needs a driver: cuDNN must at least accept both graphs.
TEST_F(ConvGraphTest, DescribesGradientsOfHalfData) {
  for (const DataType type : {kHalf, kBfloat16}) {
    ConvDescriptor d = Grouped(type, Layout::kNHWC);
    d.Normalize();
    for (const bool fused : {false, true}) {
      const ConvGraph graph({nullptr, &h200_}, d, ConvPass::kWeights, fused);
      EXPECT_GT(graph.engines(), 0) << d.name() << " " << fused;
    }
  }
}

TEST_F(ConvGraphTest, DescribesOneToThreeAxes) {
  for (const Shape& kernel : {Shape{3}, Shape{3, 3}, Shape{3, 3, 3}}) {
    ConvDescriptor d = Grouped(kFloat, Layout::kNCHW);
    d.group = 1;
    d.geometry.input = Shape(kernel.size(), 9);
    d.geometry.kernel = kernel;
    d.geometry.pad = Shape(kernel.size(), 1);
    EXPECT_FALSE(Engines(d, ConvPass::kForward, false).empty()) << kernel.size();
    EXPECT_FALSE(Engines(d, ConvPass::kData, false).empty()) << kernel.size();
    EXPECT_FALSE(Engines(d, ConvPass::kWeights, false).empty()) << kernel.size();
  }
}

// The choices for an operation, by the text of its descriptor.
std::vector<TunedChoice> ChoicesFor(const std::string& library, const std::string& part) {
  std::vector<TunedChoice> found;
  for (const TunedChoice& choice : TunedChoices()) {
    if (choice.library == library && choice.operation.find(part) != std::string::npos) {
      found.push_back(choice);
    }
  }
  return found;
}

class CudaLibrariesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (Device* device : AllDevices()) {
      if (device->backend() == "cuda") device_ = device;
    }
    if (!device_) GTEST_SKIP() << "no CUDA device";
  }

  Device* device_ = nullptr;
};

TEST_F(CudaLibrariesTest, HalfKindsPreferChannelsLast) {
  if (!cudnn::Find()) GTEST_SKIP() << "cuDNN is not installed";
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    for (const bool train : {false, true}) {
      ConvDescriptor d = Nhwc(type, 8, 64, {14, 14}, 64, {3, 3}, {}, {1, 1});
      d.backward_data = d.backward_weights = train;
      const std::string library = Multiplexer::Convolution(device_, d)->library();
      // Whether our matrix units compute a forward pass with few results faster is measured.
      EXPECT_TRUE(library == "cudnn" || (!train && library == "matrix")) << d.name() << library;
      if (train || type != kFloat) {
        EXPECT_EQ(Multiplexer::PreferredLayout(device_, d),
                  type == kFloat ? Layout::kNCHW : Layout::kNHWC)
            << d.name() << " " << train;
      }
      // Our own kernels compute depthwise convolutions.
      d.group = 64;
      EXPECT_EQ(Multiplexer::PreferredLayout(device_, d), Layout::kNCHW) << d.name();
    }
  }
}

TEST_F(CudaLibrariesTest, MeasureAnOperationOnce) {
  if (!cudnn::Find()) GTEST_SKIP() << "cuDNN is not installed";
  const ConvDescriptor d = Nhwc(kHalf, 3, 32, {17, 19}, 40, {3, 3}, {}, {1, 1});
  const auto make = [&] { return Multiplexer::ConvolutionBy("cudnn", device_, d); };
  const auto choices = [&] { return ChoicesFor("cudnn", d.name() + " pad 1x1"); };
  make();
  const size_t first = choices().size();
  EXPECT_EQ(first, 3u) << "forward, data and weights";
  for (const TunedChoice& choice : choices()) {
    EXPECT_EQ(choice.device, device_->info().id);
    EXPECT_GT(choice.milliseconds, 0) << choice.operation;
  }
  make();
  EXPECT_EQ(choices().size(), first);
  const TuneExhaustively exhaustively;
  make();
  ASSERT_EQ(choices().size(), 2 * first);
  for (size_t i = first; i < 2 * first; ++i) {
    EXPECT_GT(choices()[i].measured, 0) << choices()[i].operation;
  }
  make();
  EXPECT_EQ(choices().size(), 2 * first);
}

// Matrix units would compute float data as TF32. Some engines add in any order, or store partial
// sums in half.
TEST(ConvEngineTest, DoesNotUseEnginesThatRoundOrDoNotRepeat) {
  using cudnn::Note;
  const auto may = [](DataType type, std::vector<Note> notes, int64_t window = 3) {
    std::vector<int> numbers;
    for (const Note note : notes) numbers.push_back(static_cast<int>(note));
    return cudnn::MayUse(type, window, numbers);
  };
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    EXPECT_TRUE(may(type, {}));
    EXPECT_TRUE(may(type, {Note::kStrictNan}));
    EXPECT_EQ(may(type, {Note::kTensorCore}), type != kFloat);
    EXPECT_EQ(may(type, {Note::kWinograd, Note::kWinograd4x4}), type == kFloat);
    EXPECT_FALSE(may(type, {Note::kWinograd, Note::kWinograd4x4}, 5));
    EXPECT_FALSE(may(type, {Note::kWinograd}, 5));
    EXPECT_EQ(may(type, {Note::kFft}), type == kFloat);
    EXPECT_EQ(may(type, {Note::kFft}, 5), type == kFloat);
    for (const Note note : {Note::kDownConvertInputs, Note::kReducedPrecisionReduction,
                            Note::kNonDeterministic, Note::kWinograd6x6, Note::kWinograd13x13}) {
      EXPECT_FALSE(may(type, {note}));
      EXPECT_FALSE(may(type, {Note::kStrictNan, note}));
    }
  }
}

}  // namespace
}  // namespace caffe
