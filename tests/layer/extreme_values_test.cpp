// Every layer with the largest numbers, infinities, NaN, huge labels and indices in all of its
// bottoms: its kernels write nothing beyond their buffers, and what they cannot compute is an
// error.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/quant/observer.hpp"
#include "support/codes.hpp"
#include "support/guarded_device.hpp"
#include "support/layer_samples.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// The values of bottoms in turns. The first one mixes them.
const std::vector<std::vector<double>>& Fillings() {
  constexpr double kMost = std::numeric_limits<float>::max(), kLeast = 0x1p-149;
  static const std::vector<std::vector<double>> fillings{
      {kMost, -kMost, NAN, INFINITY, -INFINITY, kLeast, -kLeast, -0.0, 2147483648.0, -1, 1e9, 3},
      {NAN},
      {-kMost},
      {kMost},
      {INFINITY},
      {-INFINITY},
      {kLeast},
      {1e9},
      {2147483647.0},
      {-2147483648.0},
      {9.3e18},
      {0}};
  return fillings;
}

class ExtremeValuesTest : public testing::TestWithParam<std::string> {
 protected:
  // Whether the layer computes in this type.
  static bool Supports(const LayerTraits& traits, DataType type) {
    if (traits.types.empty()) return type.is_float();
    return std::find(traits.types.begin(), traits.types.end(), type) != traits.types.end();
  }
  // With codes, too: all of them, or the first or the last.
  static void Fill(BlobBase* blob, const std::vector<double>& filling, size_t begin) {
    if (blob->type().is_quantized()) {
      const auto last = static_cast<int64_t>(blob->type().info().code_max);
      const std::vector<int64_t> same(blob->count(), filling[0] > 0 ? last : 0);
      SetCodesOf(blob, filling.size() > 1 ? TestCodes(blob->count(), blob->type()) : same);
      return;
    }
    std::vector<double> values(blob->count());
    for (size_t i = 0; i < values.size(); ++i) values[i] = filling[(i + begin) % filling.size()];
    blob->SetData(values);
  }
};

TEST_P(ExtremeValuesTest, StayInTheirBuffers) {
  const LayerTraits& traits = LayerRegistry::Get().Traits(GetParam());
  GuardedDevice device(Runtime::Get().cpu());
  for (const LayerSample& sample : LayerSamples().at(GetParam())) {
    if (sample.bottoms.empty()) continue;
    const bool phase = sample.parameters.find("phase") != std::string::npos;
    for (const DataType type : {kFloat, kHalf, kBfloat16, kDouble, kQuant8, kQuant16}) {
      if (!Supports(traits, type)) continue;
      const std::string where = sample.parameters + " " + type.name();
      const std::string text =
          Concat("type: '", GetParam(), "' ", phase || !type.is_float() ? "" : "phase: TRAIN ",
                 sample.parameters);
      std::unique_ptr<LayerTester> layer;
      try {
        layer = std::make_unique<LayerTester>(text, &device, TypeTriple::Equal(type),
                                              sample.bottoms, sample.tops);
      } catch (const Error&) {
        continue;  // not in this type
      }
      for (const std::vector<double>& filling : Fillings()) {
        for (size_t b = 0; b < sample.bottoms.size(); ++b) {
          Fill(&layer->bottom(b), filling, b);
        }
        try {
          layer->Forward();
          for (int t = 0; t < sample.tops; ++t) layer->Top(t);
          if (traits.backward && type.is_float()) {
            for (int t = 0; t < sample.tops; ++t) layer->RandomTopDiff(t);
            layer->Backward();
          }
        } catch (const Error&) {
          // Labels and regions that do not exist are errors.
        }
        ASSERT_EQ(device.TakeDamage(), "") << where << ", " << filling[0];
      }
    }
  }
}

std::vector<std::string> Types() {
  std::vector<std::string> types;
  for (const auto& [type, samples] : LayerSamples()) types.push_back(type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Layers, ExtremeValuesTest, testing::ValuesIn(Types()),
                         [](const auto& info) { return info.param; });

// Ranges and histograms are not those of a layer.
TEST(ExtremeObserverTest, StaysInItsBuffers) {
  GuardedDevice device(Runtime::Get().cpu());
  for (const DataType type : FloatTypes()) {
    RangeObserver observer(type, &device);
    for (const std::vector<double>& filling : Fillings()) {
      for (const int64_t count : {3, 9001}) {
        const auto blob = MakeBlob(type, &device, {count}, "x");
        std::vector<double> values(count);
        for (size_t i = 0; i < values.size(); ++i) values[i] = filling[i % filling.size()];
        blob->SetData(values);
        observer.Observe(*blob);
        observer.ReadHistogram();
        ASSERT_EQ(device.TakeDamage(), "") << type.name() << ", " << filling[0];
      }
    }
  }
}

TEST(GuardedDeviceTest, FindsAWriteBeforeAndAfterABuffer) {
  GuardedDevice device(Runtime::Get().cpu());
  const DevicePtr memory = device.Allocate(512, "a test");
  char* const data = memory.address();
  EXPECT_EQ(device.TakeDamage(), "");
  data[-4] = 0;
  EXPECT_EQ(device.TakeDamage(), "byte -4 of a buffer of 512 bytes was written");
  data[512] = 0;
  EXPECT_EQ(device.TakeDamage(), "byte 512 of a buffer of 512 bytes was written");
  EXPECT_EQ(device.TakeDamage(), "");
  device.Free(memory);
}

}  // namespace
}  // namespace caffe
