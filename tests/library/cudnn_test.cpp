// cuDNN and cuBLASLt: what holds without a device. convolution_test.cpp, epilogue_test.cpp and
// gemm_test.cpp run their rows with all others.
#include "caffe/library/cudnn/conv_graph.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/tuning_table.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using cudnn::ConvGraph;
using cudnn::ConvPass;
using cudnn::EngineChoice;
using test::AllDevices;
using test::Array;
using test::Values;

std::unique_ptr<Kernel> ChannelsLast(Device* device, DataType type, const char* kernel) {
  return ProgramBuilder(device, "channels last")
      .Types(type)
      .Body("conv/channels_last")
      .Build()
      ->CreateKernel(kernel);
}

TEST(ChannelsLastTest, PadsChannelsAndLeavesThemOut) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf, kBfloat16, kDouble}) {
      if (type == kDouble && !device->info().fp64) continue;
      const int64_t rows = 7, from = 3, to = 8;
      const auto x = Values(rows * from, 1);
      const Array dx(device, type, x), dy(device, type, std::vector<double>(rows * to, 99));
      const auto kernel = ChannelsLast(device, type, "pad_channels");
      kernel->Launch(LaunchRange(rows, to), {rows, from, to, DevicePtr(dx), DevicePtr(dy)});
      std::vector<double> expected;
      for (int64_t i = 0; i < rows * to; ++i) {
        expected.push_back(i % to < from ? x[i / to * from + i % to] : 0);
      }
      EXPECT_EQ(dy.Read(), expected) << device->info().id << " " << type.name();
      const Array back(device, type, std::vector<double>(rows * from, 99));
      kernel->Launch(LaunchRange(rows, from), {rows, to, from, DevicePtr(dy), DevicePtr(back)});
      EXPECT_EQ(back.Read(), x) << device->info().id << " " << type.name();
    }
  }
}

TEST(ChannelsLastTest, ReordersFiltersAndAddsTheirGradients) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf, kBfloat16, kDouble}) {
      if (type == kDouble && !device->info().fp64) continue;
      const int64_t out = 5, channels = 3, taps = 6, padded = 4;
      const auto w = Values(out * channels * taps, 1), start = Values(w.size(), 2);
      std::vector<double> expected(out * taps * padded), sums = start;
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t at = (o * channels + c) * taps + t;
            expected[(o * taps + t) * padded + c] = w[at];
            sums[at] += w[at];
          }
        }
      }
      const Array dw(device, type, w), sum(device, type, start);
      const Array last(device, type, std::vector<double>(expected.size(), 99));
      int64_t rows = out * taps;
      ChannelsLast(device, type, "filter_channels_last")
          ->Launch(LaunchRange(rows, padded),
                   {rows, channels, taps, padded, DevicePtr(dw), DevicePtr(last)});
      EXPECT_EQ(last.Read(), expected) << device->info().id << " " << type.name();
      rows = out * channels;
      ChannelsLast(device, type, "add_filter_gradient")
          ->Launch(LaunchRange(rows, taps),
                   {rows, channels, taps, padded, DevicePtr(last), DevicePtr(sum)});
      EXPECT_EQ(sum.Read(), sums) << device->info().id << " " << type.name();
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
  const TunedOperation operation{cpu, "a library", "1", "forward", "a shape of this test", "half"};
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
  EXPECT_EQ(reported.operation, "forward a shape of this test");
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
    const ConvGraph graph({nullptr, &h200_}, d, pass, d.in_channels, fused);
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
      if (type == kFloat) EXPECT_FALSE(Engines(d, ConvPass::kWeights, false).empty()) << what;
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

// Matrix units would compute float data as TF32. Some engines add in any order, or store partial sums
// in half.
TEST(ConvEngineTest, DoesNotUseEnginesThatRoundOrDoNotRepeat) {
  using cudnn::Note;
  const auto may = [](DataType type, std::vector<Note> notes) {
    std::vector<int> numbers;
    for (const Note note : notes) numbers.push_back(static_cast<int>(note));
    return cudnn::MayUse(type, numbers);
  };
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    EXPECT_TRUE(may(type, {}));
    EXPECT_TRUE(may(type, {Note::kStrictNan}));
    EXPECT_EQ(may(type, {Note::kTensorCore}), type != kFloat);
    EXPECT_EQ(may(type, {Note::kWinograd, Note::kWinograd6x6}), type == kFloat);
    EXPECT_EQ(may(type, {Note::kFft}), type == kFloat);
    for (const Note note : {Note::kDownConvertInputs, Note::kReducedPrecisionReduction,
                            Note::kNonDeterministic, Note::kWinograd13x13}) {
      EXPECT_FALSE(may(type, {note}));
      EXPECT_FALSE(may(type, {Note::kStrictNan, note}));
    }
  }
}

}  // namespace
}  // namespace caffe
