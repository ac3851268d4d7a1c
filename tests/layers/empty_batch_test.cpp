#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// How a layer is set up where the defaults (bottoms of shape [batch, 3, 4, 4], no parameters, the
// fewest bottoms and tops) do not do.
struct Shaping {
  std::string parameters;
  std::vector<Shape> bottoms;  // without the batch
  int tops = 1;
};

const std::map<std::string, Shaping> kSetups{
    {"Accuracy", {"", {{3}, {}}}},
    {"Axpy", {"", {{3}, {3, 4, 4}, {3, 4, 4}}}},
    {"Clip", {"clip_param { min: -0.5 max: 0.5 }", {{3, 4, 4}}}},
    {"Concat", {"", {{3, 4, 4}, {2, 4, 4}}}},
    {"ContrastiveLoss", {"", {{3}, {3}, {}}}},
    {"Convolution", {"convolution_param { num_output: 2 kernel_size: 3 }", {{3, 4, 4}}}},
    {"Deconvolution", {"convolution_param { num_output: 2 kernel_size: 3 }", {{3, 4, 4}}}},
    {"Crop", {"", {{3, 4, 4}, {3, 2, 2}}}},
    {"EuclideanLoss", {"", {{3}, {3}}}},
    {"HingeLoss", {"", {{3}, {}}}},
    {"InnerProduct", {"inner_product_param { num_output: 2 }", {{3, 4, 4}}}},
    {"Log", {"log_param { shift: 3 }", {{3, 4, 4}}}},
    {"Permute", {"permute_param { order: 0 order: 2 }", {{3, 4, 4}}}},
    {"MultinomialLogisticLoss", {"", {{3}, {}}}},
    {"Pooling", {"pooling_param { kernel_size: 2 }", {{3, 4, 4}}}},
    {"Power", {"power_param { power: 2.5 shift: 3 }", {{3, 4, 4}}}},
    {"Reduction", {"reduction_param { axis: 1 operation: ASUM }", {{3, 4, 4}}}},
    {"Reshape", {"reshape_param { shape { dim: 0 dim: 48 } }", {{3, 4, 4}}}},
    {"ShuffleChannel", {"shuffle_channel_param { group: 3 }", {{3, 4, 4}}}},
    {"SigmoidCrossEntropyLoss", {"", {{3}, {3}}}},
    {"Silence", {"", {{3, 4, 4}}, 0}},
    {"Slice", {"slice_param { axis: 1 slice_point: 1 }", {{3, 4, 4}}, 2}},
    {"SmoothL1Loss", {"", {{3}, {3}}}},
    {"SoftmaxWithLoss", {"", {{3}, {}}}},
    {"Split", {"", {{3, 4, 4}}, 2}},
    {"Tile", {"tile_param { tiles: 2 }", {{3, 4, 4}}}},
};
// It opens a file.
const std::vector<std::string> kLeftOut{"HDF5Output"};

std::vector<Shape> Shapes(const Shaping& setup, int64_t batch) {
  std::vector<Shape> shapes = setup.bottoms;
  for (Shape& shape : shapes) shape.insert(shape.begin(), batch);
  return shapes;
}

class EmptyBatchTest : public testing::TestWithParam<DeviceType> {};

void Pass(LayerTester& layer, const LayerTraits& traits, const Shaping& setup) {
  const int tops = setup.tops;
  for (const int i : traits.float_bottoms) {
    if (i >= static_cast<int>(setup.bottoms.size())) continue;
    layer.SetBottom(i, std::vector<double>(layer.bottom(i).count(), 0));  // labels
  }
  layer.Forward();
  for (int i = 0; i < tops; ++i) {
    for (const double value : layer.Top(i)) EXPECT_FALSE(std::isnan(value));
    if (traits.backward) layer.RandomTopDiff(i);
  }
  if (traits.backward) layer.Backward();
}

// A layer that cannot be set up without parameters that this file does not know (in a later
// version, say) is left out; those of kSetups are not.
TEST_P(EmptyBatchTest, EveryLayerRunsForwardAndBackward) {
  const auto [device, type] = GetParam();
  int tried = 0;
  for (const std::string& name : LayerRegistry::Get().Names()) {
    const LayerTraits& traits = LayerRegistry::Get().Traits(name);
    const bool left_out = std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end();
    if (traits.data || left_out) continue;
    const auto known = kSetups.find(name);
    Shaping setup;
    if (known != kSetups.end()) {
      setup = known->second;
    } else {
      setup.bottoms.assign(std::max(1, traits.min_bottom), Shape{3, 4, 4});
      setup.tops = std::max(1, traits.min_top);
    }
    const std::string text = "type: '" + name + "' " + setup.parameters;
    const TypeTriple types = TypeTriple::Equal(type);
    try {
      LayerTester whole(text, device, types, Shapes(setup, 2), setup.tops);
      Pass(whole, traits, setup);
    } catch (const Error& error) {
      EXPECT_EQ(known, kSetups.end()) << error.what();
      continue;
    }
    ++tried;
    try {
      LayerTester empty(text, device, types, Shapes(setup, 0), setup.tops);
      Pass(empty, traits, setup);
      if (traits.in_place && traits.backward) {
        RunInPlace(empty, static_cast<int>(setup.bottoms.size()));
      }
      // To an empty batch and back.
      LayerTester changing(text, device, types, Shapes(setup, 2), setup.tops);
      for (const int64_t batch : {2, 0, 2}) {
        const std::vector<Shape> shapes = Shapes(setup, batch);
        for (size_t i = 0; i < shapes.size(); ++i) {
          changing.bottom(static_cast<int>(i)).Reshape(shapes[i]);
        }
        Pass(changing, traits, setup);
      }
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  EXPECT_GE(tried, 25);
}

INSTANTIATE_TEST_SUITE_P(Devices, EmptyBatchTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
