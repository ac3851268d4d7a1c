// Every layer of the float kinds in types of users, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "support/devices.hpp"
#include "support/layer_samples.hpp"
#include "support/layer_tester.hpp"
#include "support/plain_kernels.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

// Numbers that each of the types holds exactly, with short products and sums.
Numbers ShortNumbers(int64_t count, uint64_t seed) {
  Numbers numbers = TestNumbers(count, seed);
  for (double& number : numbers)
    number = std::round(number * 8) / 8 + (number > 0 ? 0.125 : -0.125);
  return numbers;
}

// A sample's layer with such numbers in bottoms and parameters.
class Probe {
 public:
  Probe(const std::string& type, const LayerSample& sample, Device* device, DataType data_type)
      : sample_(sample),
        tester_("type: '" + type + "' " +
                    (sample.parameters.find("phase") == std::string::npos ? "phase: TEST " : "") +
                    sample.parameters,
                device, TypeTriple::Equal(data_type), sample.bottoms, sample.tops) {
    if (auto* memory = dynamic_cast<MemoryData*>(&tester_.layer())) {
      memory->Reset(numbers_.data(), numbers_.data(), 2);
    }
    uint64_t seed = 11;
    for (const auto& blob : tester_.layer().blobs()) {
      Numbers values = ShortNumbers(blob->count(), ++seed);
      for (double& value : values) value = std::abs(value);  // variances are positive
      blob->SetData(values);
    }
    if (data_type.is_scaled()) SetScales();
    const std::vector<int>& labels = TraitsOf(type).float_bottoms;
    for (size_t b = 0; b < sample.bottoms.size(); ++b) {
      const auto bottom = static_cast<int>(b);
      if (std::find(labels.begin(), labels.end(), bottom) != labels.end()) continue;
      tester_.SetBottom(bottom, ShortNumbers(tester_.bottom(bottom).count(), b + 3));
    }
    for (const auto& [index, values] : sample.given) tester_.SetBottom(index, values);
  }
  LayerTester& tester() { return tester_; }
  std::vector<Numbers> Forward() {
    tester_.Forward();
    std::vector<Numbers> tops;
    for (int t = 0; t < sample_.tops; ++t) tops.push_back(tester_.Top(t));
    return tops;
  }
  // The gradients of bottoms and parameters.
  std::vector<Numbers> Backward() {
    for (int t = 0; t < sample_.tops; ++t) {
      tester_.SetTopDiff(t, ShortNumbers(tester_.top(t).count(), t + 31));
    }
    tester_.Backward();
    std::vector<Numbers> diffs;
    for (size_t b = 0; b < sample_.bottoms.size(); ++b) {
      const auto bottom = static_cast<int>(b);
      if (tester_.bottom(bottom).has_diff()) diffs.push_back(tester_.BottomDiff(bottom));
    }
    for (const auto& blob : tester_.layer().blobs()) {
      if (blob->has_diff()) diffs.push_back(blob->DiffAsDouble());
    }
    return diffs;
  }

 private:
  // Layers that only move elements need one scale for all; others have another one for the tops.
  void SetScales() {
    const LayerTraits& traits = TraitsOf(tester_.layer().type());
    const bool one = traits.moves_elements || traits.top_memory != TopMemory::kOwn ||
                     tester_.layer().Facts().range == LayerFacts::Range::kCarried;
    for (size_t b = 0; b < sample_.bottoms.size(); ++b) {
      tester_.bottom(static_cast<int>(b)).set_range({0.25, 0, true});
    }
    for (int t = 0; t < sample_.tops; ++t) tester_.top(t).set_range({one ? 0.25 : 0.125, 0, true});
  }

  const LayerSample& sample_;
  const std::vector<float> numbers_{1, 2, 3, 4, 5, 6, 7, 8};
  LayerTester tester_;
};

// Types of a text in one, two and four bytes, one with a scale for each blob, and one of a table.
std::vector<DataType> Types() {
  return {DataTypeByName("fp8_e4m3"), DataTypeByName("float10"),
          RegisterType("layers_float24", 24, "small_float_value(code, 8, 15, 1)",
                       "small_float_code(v, 8, 15, 1)"),
          RegisterType("layers_scaled8", 8, "small_float_value(code, 4, 3, 0)",
                       "small_float_code(v, 4, 3, 0)", {.scaled = true}),
          RegisterType("layers_fixed8", 8, [](uint32_t code) {
            return static_cast<float>(static_cast<int8_t>(code)) / 8;
          })};
}

// On devices other than the CPU one type takes the time to compile; that all of them do is tested
// in tests/device.
std::vector<Device*> DevicesOf(DataType type) {
  std::vector<Device*> devices = TestDevices();
  if (type.name() == "fp8_e4m3" || type.is_scaled()) return devices;
  std::erase_if(devices, [](Device* device) { return device->backend() != "cpu"; });
  return devices;
}

// The largest finite value.
double Limit(DataType type) {
  if (HasFunctions(type)) return std::numeric_limits<float>::max();
  double limit = 0;
  for (const float value : TableOf(type).values()) {
    if (std::isfinite(value)) limit = std::max<double>(limit, value);
  }
  return type.is_scaled() ? limit / 8 : limit;
}

// A value that was rounded to a type may have been rounded before, in a sum or an exponential that
// the layer stores: two steps of the type around it.
void ExpectRounded(const std::vector<Numbers>& actual, const std::vector<Numbers>& wanted,
                   DataType type, const std::string& what) {
  ASSERT_EQ(actual.size(), wanted.size()) << what;
  const bool fine = HasFunctions(type);
  const double relative = type.name() == "fp8_e4m3"  ? 0.13
                          : type.is_scaled()         ? 0.13
                          : type.name() == "float10" ? 0.07
                          : fine                     ? 1e-4
                                                     : 0.02;
  // On devices a Deconvolution, and the gradient of a Convolution, adds columns of the type.
  const bool columns = what.find("onvolution") != std::string::npos;
  const double absolute = fine                             ? 1e-4
                          : columns                        ? 0.3
                          : type.name() == "layers_fixed8" ? 0.26
                                                           : 0.02;
  const double limit = Limit(type);
  for (size_t a = 0; a < actual.size(); ++a) {
    ASSERT_EQ(actual[a].size(), wanted[a].size()) << what;
    for (size_t i = 0; i < actual[a].size(); ++i) {
      const double expected = std::clamp(wanted[a][i], -limit, limit);
      const double found = std::clamp(actual[a][i], -limit, limit);
      ASSERT_NEAR(found, expected, relative * std::abs(expected) + absolute)
          << what << ", array " << a << ", element " << i;
    }
  }
}

class CustomTypesTest : public testing::TestWithParam<std::string> {
 protected:
  static const LayerTraits& Traits() { return TraitsOf(GetParam()); }
  static bool ComputesFloats() {
    const auto& types = Traits().types;
    return std::find(types.begin(), types.end(), kFloat) != types.end() && !Traits().converts;
  }
  const PlainKernels plain_;
};

// The tops are those of the float layer, rounded, and the same on every device.
TEST_P(CustomTypesTest, Forward) {
  if (!ComputesFloats()) GTEST_SKIP() << "no layer of the float kinds";
  for (const LayerSample& sample : LayerSamples().at(GetParam())) {
    Probe wide(GetParam(), sample, Runtime::Get().cpu(), kFloat);
    const std::vector<Numbers> wanted = wide.Forward();
    for (const DataType type : Types()) {
      // Sources, losses and states have no ranges: nets compute them in float, or refuse the type.
      const std::set<std::string> states{"CarriedState", "StoredState", "LSTMSteps"};
      if (type.is_scaled() && (Traits().data || Traits().loss || states.count(GetParam())))
        continue;
      const std::string what = GetParam() + " " + sample.parameters + " in " + type.name();
      Probe host(GetParam(), sample, Runtime::Get().cpu(), type);
      const std::vector<Numbers> tops = host.Forward();
      ExpectRounded(tops, wanted, type, what);
      for (Device* device : DevicesOf(type)) {
        Probe probe(GetParam(), sample, device, type);
        ExpectRounded(probe.Forward(), tops, type, what + " on " + device->info().id);
      }
    }
  }
}

// Backward runs in them, too.
TEST_P(CustomTypesTest, Backward) {
  if (!ComputesFloats() || !Traits().backward) GTEST_SKIP() << "no gradient in float kinds";
  for (const LayerSample& sample : LayerSamples().at(GetParam())) {
    // In the phase TEST the expectation, which has no gradient.
    if (sample.parameters.find("STOCHASTIC") != std::string::npos) continue;
    Probe wide(GetParam(), sample, Runtime::Get().cpu(), kFloat);
    wide.Forward();
    const std::vector<Numbers> wanted = wide.Backward();
    for (const DataType type : Types()) {
      if (type.is_scaled()) continue;
      if (type.name() == "layers_fixed8") continue;  // its steps are as large as gradients
      const std::string what = GetParam() + " " + sample.parameters + " in " + type.name();
      for (Device* device : DevicesOf(type)) {
        Probe probe(GetParam(), sample, device, type);
        probe.Forward();
        ExpectRounded(probe.Backward(), wanted, type, what + " on " + device->info().id);
      }
    }
  }
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names = LayerRegistry::Get().Names();
  std::erase_if(names, NeedsNet);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Layers, CustomTypesTest, testing::ValuesIn(AllNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace caffe
