// Steps in codes that compute several layers: a residual sum behind a convolution, and layers that
// write their codes into the top of a Concat. Their codes are those of the layers one by one.
#include <algorithm>
#include <map>
#include <set>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/net/step_info.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

std::string LayerText(const std::string& type, const std::string& name,
                      const std::vector<std::string>& bottoms, const std::string& top,
                      const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "' ";
  for (const std::string& bottom : bottoms) text += "bottom: '" + bottom + "' ";
  return text + "top: '" + top + "' " + more + " } ";
}

std::string ConvText(const std::string& name, const std::string& bottom, int outputs, int kernel,
                     double weight, const std::string& more = "") {
  return LayerText(
      "Convolution", name, {bottom}, name,
      Concat("convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
             " pad: ", kernel / 2, " ", more, " weight_filler { type: 'uniform' min: ", -weight,
             " max: ", weight, " } bias_filler { type: 'uniform' min: -0.2 max: 0.2 } }"));
}

std::string TypeText(DataType type) {
  return "data_type: " + DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)) + " ";
}

NetParameter Calibrated(const std::string& text, std::vector<uint64_t> seeds = {5, 6}) {
  const auto net = MakeNet(text, Runtime::Get().cpu());
  net->set_observe(true);
  for (const uint64_t seed : seeds) {
    FillInputs(net.get(), seed);
    net->Forward();
  }
  NetParameter saved;
  net->ToProto(&saved);
  return saved;
}

std::vector<char> Codes(const Net& net, const std::string& blob) {
  const BlobBase& codes = *net.BlobByName(blob);
  EXPECT_TRUE(codes.type().is_quantized()) << blob;
  const char* bytes = static_cast<const char*>(codes.host_data());
  return {bytes, bytes + codes.bytes()};
}

class CodeFusionTest : public testing::TestWithParam<DeviceType> {
 protected:
  void TearDown() override { SetHostLevel(level_); }

  std::unique_ptr<Net> Make(const std::string& text, const NetParameter& saved) const {
    const auto [device, type] = GetParam();
    auto net = MakeNet(TypeText(type) + text, device);
    net->CopyTrainedLayersFrom(saved);
    return net;
  }
  // The levels of the CPU, which differ in layouts and instructions; other devices have one.
  std::vector<std::string> Levels() const {
    return GetParam().device->host_accessible() ? HostLevels() : std::vector<std::string>{level_};
  }
  static std::set<std::string> StepNames(Net* net) {
    std::set<std::string> names;
    for (const StepInfo& step : net->Steps()) names.insert(step.name());
    return names;
  }
  static int64_t LaunchesOfAForward(Net* net) {
    net->Forward();
    net->Forward();
    GetParam().device->ResetCounters();
    net->Forward();
    const DeviceCounters counters = GetParam().device->counters();
    EXPECT_EQ(counters.builds, 0);
    EXPECT_EQ(counters.allocations, 0);
    return counters.launches;
  }

  const std::string level_ = HostLevel();
};

// The branch `main` has the weights' size `weight`, so that its range is smaller or larger than
// that of the residual.
std::string ResidualText(double weight, const std::string& main, const std::string& sum,
                         const std::string& relu) {
  return InputText("data", {2, 5, 9, 7}) + ConvText("short", "data", 24, 1, 0.4) +
         ConvText("main", "short", 24, 3, weight, main) +
         LayerText("Eltwise", "sum", {"short", "main"}, "sum", sum) + relu +
         ConvText("last", relu.find("'out'") == std::string::npos ? "sum" : "out", 3, 1, 0.3);
}

struct ResidualCase {
  double weight;
  std::string main, sum, relu, step;
};

std::vector<ResidualCase> ResidualCases() {
  const std::string in_place = ReluText("relu", "sum");
  const std::string apart = LayerText("ReLU", "relu", {"sum"}, "out");
  return {{0.02, "", "", in_place, "main + sum + relu"},
          {0.3, "", "", apart, "main + sum + relu"},
          {0.1, "", "eltwise_param { coeff: -0.75 coeff: 1 }", in_place, "main + sum + relu"},
          {0.1, "", "eltwise_param { coeff: 3 coeff: 1 }", "", "main + sum"},
          {0.2, "group: 2", "", in_place, "main + sum + relu"},
          {0.4, "group: 24", "", in_place, "main + sum + relu"}};
}

TEST_P(CodeFusionTest, AResidualSumRepeatsTheCodesOfTheLayers) {
  for (const ResidualCase& one : ResidualCases()) {
    const std::string text = ResidualText(one.weight, one.main, one.sum, one.relu);
    const NetParameter saved = Calibrated(text);
    const std::string result = one.relu.find("'out'") == std::string::npos ? "sum" : "out";
    std::vector<char> expected;
    for (const std::string& level : Levels()) {
      SetHostLevel(level);
      const auto fused = Make(text, saved), layers = Make(text, saved);
      layers->set_after_forward([](int) {});
      for (const uint64_t seed : {8, 9}) {
        for (Net* net : {fused.get(), layers.get()}) {
          FillInputs(net, seed);
          net->Forward();
        }
      }
      EXPECT_TRUE(StepNames(fused.get()).count(one.step)) << text;
      const std::vector<char> codes = Codes(*layers, result);
      EXPECT_EQ(Codes(*fused, "last"), Codes(*layers, "last")) << level << " " << text;
      EXPECT_EQ(Codes(*fused, result), codes) << level << " " << text;
      EXPECT_GT(std::set<char>(codes.begin(), codes.end()).size(), 20u) << "many codes";
      if (expected.empty()) expected = codes;
      EXPECT_EQ(codes, expected) << level;
    }
  }
}

// Two launches less than the layers one by one: the sum and ReLU.
TEST_P(CodeFusionTest, AResidualSumHasNoLaunchOfItsOwn) {
  if (GetParam().device->can_capture()) GTEST_SKIP() << "a graph is one launch";
  const std::string text = ResidualText(0.1, "", "", ReluText("relu", "sum"));
  const NetParameter saved = Calibrated(text);
  const auto fused = Make(text, saved), kept = Make(text, saved);
  // The step ends with a blob that is kept.
  kept->Keep({"main"});
  for (Net* net : {fused.get(), kept.get()}) FillInputs(net);
  int conversions = 0;
  for (const StepInfo& step : kept->Steps()) conversions += step.conversions;
  for (const StepInfo& step : fused->Steps()) conversions -= step.conversions;
  EXPECT_EQ(LaunchesOfAForward(kept.get()) - LaunchesOfAForward(fused.get()), 2 + conversions);
}

// Branches of a Concat, whose tops have 16 and 32 channels.
std::string JoinText(int batch) {
  return InputText("data", {batch, 3, 8, 6}) + ConvText("squeeze", "data", 4, 1, 0.4) +
         ReluText("relu_squeeze", "squeeze") + ConvText("one", "squeeze", 16, 1, 0.1) +
         ReluText("relu_one", "one") + ConvText("three", "squeeze", 32, 3, 0.4) +
         ReluText("relu_three", "three") +
         LayerText("Pooling", "mean", {"squeeze"}, "mean",
                   "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }") +
         ConvText("wide", "mean", 16, 1, 0.7) +
         LayerText("Concat", "fire", {"one", "three", "wide"}, "fire") +
         ConvText("last", "fire", 5, 3, 0.3);
}

int CopiesOf(Net* net) {
  for (const StepInfo& step : net->Steps()) {
    if (step.layer_types[0] == "Concat") return step.copies;
  }
  return -1;
}

bool InNhwc(Net* net) {
  const std::vector<StepInfo> steps = net->Steps();
  return std::any_of(steps.begin(), steps.end(),
                     [](const StepInfo& step) { return step.layouts.y == Layout::kNHWC; });
}

// The ranges that a net observes: a blob that only the Concat reads has that of the Concat's top.
TEST_P(CodeFusionTest, ObservedRangesOfAConcatAreTied) {
  if (GetParam().device != Runtime::Get().cpu()) GTEST_SKIP() << "files do not depend on devices";
  const NetParameter saved = Calibrated(JoinText(1));
  std::map<std::string, QuantizerParameter> ranges;
  for (const QuantizerParameter& one : saved.quantizer()) ranges[one.name()] = one;
  for (const char* blob : {"one", "three", "wide"}) {
    EXPECT_EQ(ranges[blob].method(), "tied") << blob;
    EXPECT_EQ(ranges[blob].observed_min(), ranges["fire"].observed_min()) << blob;
    EXPECT_EQ(ranges[blob].observed_max(), ranges["fire"].observed_max()) << blob;
  }
  for (const char* blob : {"squeeze", "mean", "fire", "one@one"}) {
    EXPECT_EQ(ranges[blob].method(), "min_max") << blob;
  }
  EXPECT_LT(ranges["one@one"].observed_max(), ranges["fire"].observed_max());
}

TEST_P(CodeFusionTest, TiedBranchesWriteIntoTheConcat) {
  const NetParameter saved = Calibrated(JoinText(1));
  std::vector<char> expected;
  for (const std::string& level : Levels()) {
    SetHostLevel(level);
    const auto net = Make(JoinText(1), saved),
               apart = Make("reduced_memory_inference: false " + JoinText(1), saved);
    int64_t launches[2];
    for (int pass = 0; pass < 2; ++pass) {
      for (Net* each : {net.get(), apart.get()}) {
        FillInputs(each, 11 + pass);
        each->Forward();
      }
      EXPECT_EQ(Codes(*net, "last"), Codes(*apart, "last")) << level;
    }
    EXPECT_EQ(CopiesOf(net.get()), 0) << level;
    EXPECT_EQ(CopiesOf(apart.get()), 3) << level;
    if (!GetParam().device->can_capture()) {
      launches[0] = LaunchesOfAForward(apart.get());
      launches[1] = LaunchesOfAForward(net.get());
      EXPECT_EQ(launches[0] - launches[1], 3) << level;
    }
    for (const char* blob : {"fire", "one", "three", "wide"}) {
      EXPECT_EQ(Codes(*net, blob), Codes(*apart, blob)) << blob << " " << level;
    }
    const std::vector<char> codes = Codes(*net, "last");
    if (expected.empty()) expected = codes;
    EXPECT_EQ(codes, expected) << level;
  }
}

// The parts of larger batches need layers that write rows with a pitch: those of the CPU in NHWC.
TEST_P(CodeFusionTest, PartsOfSeveralImages) {
  const NetParameter saved = Calibrated(JoinText(3));
  const auto net = Make(JoinText(3), saved),
             apart = Make("reduced_memory_inference: false " + JoinText(3), saved);
  for (Net* each : {net.get(), apart.get()}) {
    FillInputs(each);
    each->Forward();
  }
  EXPECT_EQ(CopiesOf(net.get()), InNhwc(net.get()) ? 0 : 3);
  EXPECT_EQ(Codes(*net, "last"), Codes(*apart, "last"));
  EXPECT_EQ(Codes(*net, "fire"), Codes(*apart, "fire"));
}

// The ranges of a file are used as they are: a Concat rescales codes of other ranges. The plan
// follows when ranges change, with and without a new shape of the input.
TEST_P(CodeFusionTest, ThePlanFollowsTheRanges) {
  const NetParameter tied = Calibrated(JoinText(1));
  NetParameter apart = tied;
  for (QuantizerParameter& one : *apart.mutable_quantizer()) {
    if (one.name() == "one") one.set_observed_max(one.observed_max() / 2);
  }
  const auto net = Make(JoinText(1), tied);
  const auto expect_equal = [&](const NetParameter& ranges, int copies) {
    const auto fresh = Make("reduced_memory_inference: false " + JoinText(1), ranges);
    for (Net* each : {net.get(), fresh.get()}) {
      each->input_blobs()[0]->Reshape(net->input_blobs()[0]->shape());
      FillInputs(each, 4);
      each->Forward();
    }
    EXPECT_EQ(CopiesOf(net.get()), copies);
    EXPECT_EQ(Codes(*net, "last"), Codes(*fresh, "last"));
    EXPECT_EQ(Codes(*net, "one"), Codes(*fresh, "one"));
  };
  expect_equal(tied, 0);
  net->CopyTrainedLayersFrom(apart);
  expect_equal(apart, 1);
  net->CopyTrainedLayersFrom(tied);
  expect_equal(tied, 0);
  net->CopyTrainedLayersFrom(apart);
  net->input_blobs()[0]->Reshape({1, 3, 10, 5});
  expect_equal(apart, 1);
}

INSTANTIATE_TEST_SUITE_P(All, CodeFusionTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
