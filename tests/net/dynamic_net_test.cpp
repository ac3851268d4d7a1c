// Nets in mode dynamic: codes whose ranges are those of the values of each forward.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

constexpr char kDynamic[] =
    " compute_data_type: CAFFE_INT8_QUANTIZED bottom_quantizer { mode: CAFFE_QUANT_DYNAMIC } ";
constexpr char kState[] =
    "data_type: CAFFE_INT8_QUANTIZED state { quantizer_mode: CAFFE_QUANT_DYNAMIC } ";

// A product over windows, computed by loops in 64 bits.
struct Case {
  int64_t batch = 1, channels = 1, height = 1, width = 1, outputs = 1, group = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride = 1, pad_h = 0, pad_w = 0, dilation = 1;
  bool bias = true;
  double offset = 0, factor = 1;  // of the values of x

  int64_t out(int64_t in, int64_t kernel, int64_t pad) const {
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  }
  int64_t out_h() const { return out(height, kernel_h, pad_h); }
  int64_t out_w() const { return out(width, kernel_w, pad_w); }

  std::string Text() const {
    return InputText("x", {batch, channels, height, width}) +
           Concat("layer { name: 'y' type: 'Convolution' bottom: 'x' top: 'y'", kDynamic,
                  "convolution_param { num_output: ", outputs, " group: ", group,
                  " kernel_h: ", kernel_h, " kernel_w: ", kernel_w, " stride: ", stride,
                  " pad_h: ", pad_h, " pad_w: ", pad_w, " dilation: ", dilation,
                  bias ? "" : " bias_term: false",
                  " weight_filler { type: 'uniform' min: -0.5 max: 0.7 }"
                  " bias_filler { type: 'uniform' min: -2 max: 2 } } } ");
  }
};

struct Grid {
  float scale, inverse;
  int zero;
  // The code of a value, less the zero point.
  int64_t Code(float x) const {
    if (std::isnan(x)) return 0;
    const float v = x * inverse, low = static_cast<float>(-zero),
                high = 255.0f - static_cast<float>(zero);
    return std::lround(v > low ? (v < high ? v : high) : low);
  }
};

Grid GridOf(const std::vector<float>& x) {
  float low = 0, high = 0;
  for (const float value : x) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Grid grid{};
  grid.scale = high / 255.0f - low / 255.0f;
  if (low == high) grid.scale = 1;
  grid.inverse = 1.0f / grid.scale;
  grid.zero = static_cast<int>(std::lround(std::min(-low / grid.scale, 255.0f)));
  return grid;
}

std::vector<float> Floats(const BlobBase& blob) {
  const std::vector<double> values = blob.DataAsDouble();
  return {values.begin(), values.end()};
}

// y of the case, by loops over `depth` products for each output.
std::vector<float> Expected(const Case& c, const std::vector<float>& x, const LayerBase& layer) {
  const std::vector<float> w = Floats(*layer.blobs()[0]);
  const std::vector<float> b = c.bias ? Floats(*layer.blobs()[1]) : std::vector<float>(c.outputs);
  const Grid grid = GridOf(x);
  const int64_t group_in = c.channels / c.group, group_out = c.outputs / c.group;
  const int64_t depth = group_in * c.kernel_h * c.kernel_w;
  std::vector<float> y;
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t o = 0; o < c.outputs; ++o) {
      double largest = 0;
      for (int64_t i = 0; i < depth; ++i) {
        largest = std::max<double>(largest, std::abs(w[o * depth + i]));
      }
      const double scale = largest == 0 ? 1 : largest / 127;
      for (int64_t at = 0; at < c.out_h() * c.out_w(); ++at) {
        int64_t sum = 0;
        for (int64_t i = 0; i < depth; ++i) {
          const int64_t channel = o / group_out * group_in + i / (c.kernel_h * c.kernel_w);
          const int64_t tap = i % (c.kernel_h * c.kernel_w);
          const int64_t h = at / c.out_w() * c.stride - c.pad_h + tap / c.kernel_w * c.dilation;
          const int64_t v = at % c.out_w() * c.stride - c.pad_w + tap % c.kernel_w * c.dilation;
          if (h < 0 || h >= c.height || v < 0 || v >= c.width) continue;
          const float value = x[((n * c.channels + channel) * c.height + h) * c.width + v];
          sum += grid.Code(value) * std::lround(w[o * depth + i] / scale);
        }
        const float product = static_cast<float>(sum) * (grid.scale * static_cast<float>(scale));
        y.push_back(product + b[o]);
      }
    }
  }
  return y;
}

std::vector<double> Inputs(const Case& c, uint64_t seed) {
  std::vector<double> x = TestNumbers(c.batch * c.channels * c.height * c.width, seed);
  for (double& value : x) value = static_cast<float>(c.factor * (value + c.offset));
  return x;
}

class DynamicNetTest : public testing::TestWithParam<Device*> {};

TEST_P(DynamicNetTest, ConvolutionsAreThoseOfTheLoops) {
  std::mt19937 random(7);
  const auto any = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int cases = CompilesSlowly(*GetParam()) ? 6 : 40;
  for (int i = 0; i < cases; ++i) {
    Case c;
    c.group = any(0, 3) == 0 ? 2 : 1;
    c.batch = any(1, 3);
    c.channels = c.group * any(1, 9);
    c.outputs = c.group * any(2, 40);
    c.kernel_h = any(1, 3);
    c.kernel_w = any(1, 4);
    c.stride = any(1, 2);
    c.pad_h = any(0, 2);
    c.pad_w = any(0, 2);
    c.dilation = any(1, 2);
    c.height = any(5, 12);
    c.width = any(7, 14);
    c.bias = any(0, 2) > 0;
    c.offset = any(-1, 1) * 1.5;  // all negative, both signs, all positive
    c.factor = std::pow(10.0, any(-3, 3));
    const auto net = MakeNet(c.Text(), GetParam());
    // The second forward has a range of its own.
    for (const double factor : {1.0, 0.01}) {
      c.factor *= factor;
      net->BlobByName("x")->SetData(Inputs(c, i));
      net->Forward();
      const std::vector<float> expected =
          Expected(c, Floats(*net->BlobByName("x")), *net->LayerByName("y"));
      EXPECT_EQ(Floats(*net->BlobByName("y")), expected) << c.Text();
    }
  }
}

TEST_P(DynamicNetTest, InnerProductsAreThoseOfTheLoops) {
  int seed = 1;
  for (const auto& [rows, depth, outputs] :
       std::vector<std::tuple<int, int, int>>{{1, 10, 3}, {5, 70, 33}, {9, 500, 64}, {3, 4, 1}}) {
    for (const bool transpose : {false, true}) {
      const auto net =
          MakeNet(InputText("x", {rows, depth}) +
                      Concat("layer { name: 'y' type: 'InnerProduct' bottom: 'x' top: 'y'",
                             kDynamic, "inner_product_param { num_output: ", outputs,
                             transpose ? " transpose: true" : "",
                             " weight_filler { type: 'uniform' min: -0.5 max: 0.7 }"
                             " bias_filler { type: 'uniform' min: -2 max: 2 } } } "),
                  GetParam());
      Case c;
      c.batch = rows;
      c.channels = depth;
      c.outputs = outputs;
      c.offset = seed % 3 - 1;
      net->BlobByName("x")->SetData(Inputs(c, ++seed));
      net->Forward();
      // The loops read weights in rows.
      const auto plain = MakeNet(c.Text(), Cpu());
      std::vector<double> w = net->params()[0]->DataAsDouble();
      if (transpose) {
        const std::vector<double> columns = w;
        for (int o = 0; o < outputs; ++o) {
          for (int k = 0; k < depth; ++k) w[o * depth + k] = columns[k * outputs + o];
        }
      }
      plain->params()[0]->SetData(w);
      plain->params()[1]->SetData(net->params()[1]->DataAsDouble());
      EXPECT_EQ(Floats(*net->BlobByName("y")),
                Expected(c, Floats(*net->BlobByName("x")), *plain->LayerByName("y")))
          << rows << " " << depth << " " << outputs << " " << transpose;
    }
  }
}

TEST_P(DynamicNetTest, ZerosInfinitiesAndNanHaveDefinedResults) {
  Case c;
  c.batch = 2;
  c.channels = 3;
  c.height = c.width = 4;
  c.outputs = 5;
  c.kernel_h = c.kernel_w = 3;
  c.pad_h = c.pad_w = 1;
  const auto net = MakeNet(c.Text(), GetParam());
  const auto run = [&](std::vector<double> x) {
    net->BlobByName("x")->SetData(x);
    net->Forward();
    const std::vector<float> y = Floats(*net->BlobByName("y"));
    EXPECT_EQ(y, Expected(c, {x.begin(), x.end()}, *net->LayerByName("y")));
    for (const float value : y) EXPECT_TRUE(std::isfinite(value)) << value;
    return y;
  };
  std::vector<double> x(96, 0);
  const std::vector<float> zeros = run(x);
  const std::vector<float> bias = Floats(*net->params()[1]);
  for (size_t i = 0; i < zeros.size(); ++i) EXPECT_EQ(zeros[i], bias[i / 16 % 5]);
  // Without a finite value.
  EXPECT_EQ(run(std::vector<double>(96, NAN)), zeros);
  // The range is that of the others.
  x = Inputs(c, 4);
  x[5] = INFINITY;
  x[50] = -INFINITY;
  x[70] = NAN;
  EXPECT_NE(run(x), zeros);
  // Largest floats: neither the range nor its scale is infinite.
  x.assign(96, 3e38);
  x[7] = -3e38;
  net->BlobByName("x")->SetData(x);
  net->Forward();
  for (const float value : Floats(*net->BlobByName("y"))) EXPECT_FALSE(std::isnan(value));
}

// BatchNorm and Scale are folded, the others compute in float; LRN and losses do in every net.
std::string NetText(const std::string& state) {
  const auto conv = [](const std::string& name, const std::string& bottom, int outputs) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "' convolution_param { num_output: " + std::to_string(outputs) +
           " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.4 max: 0.4 }"
           " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } } ";
  };
  return state + InputText("data", {2, 3, 12, 12}) + conv("conv1", "data", 16) +
         "layer { name: 'scale' type: 'Scale' bottom: 'conv1' top: 'conv1' scale_param { "
         "bias_term: "
         "true filler { type: 'uniform' min: 0.5 max: 1.5 } } } " +
         ReluText("relu1", "conv1") +
         "layer { name: 'pool' type: 'Pooling' bottom: 'conv1' top: 'pool'"
         " pooling_param { kernel_size: 2 stride: 2 } } " +
         conv("conv2", "pool", 16) +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'conv2' bottom: 'pool' top: 'sum' } "
         "layer { name: 'dw' type: 'Convolution' bottom: 'sum' top: 'dw' convolution_param { "
         "num_output: 16 group: 16 kernel_size: 3 weight_filler { type: 'uniform' min: -0.4 max: "
         "0.4 } } } " +
         InnerProductText("score", "dw", 10) +
         "layer { name: 'prob' type: 'Softmax' bottom: 'score' top: 'prob' } ";
}

TEST_P(DynamicNetTest, ComputesNearlyWhatTheFloatNetDoes) {
  Device* const device = GetParam();
  const auto net = MakeNet(NetText(kState), device), host = MakeNet(NetText(kState), Cpu()),
             reference = MakeNet(NetText(""), device);
  const TypeTriple dynamic{kQuant8, kFloat, kFloat};
  for (const char* layer : {"conv1", "conv2", "score"}) {
    EXPECT_EQ(net->LayerByName(layer)->types(), dynamic) << layer;
  }
  for (const char* layer : {"relu1", "pool", "sum", "dw", "prob"}) {
    EXPECT_EQ(net->LayerByName(layer)->types(), TypeTriple::Equal(kFloat)) << layer;
  }
  for (const double factor : {1.0, 100.0}) {
    std::vector<double> x = TestNumbers(2 * 3 * 144, 9);
    for (double& value : x) value *= factor;
    for (Net* each : {net.get(), host.get(), reference.get()}) {
      each->BlobByName("data")->SetData(x);
      each->Forward();
    }
    EXPECT_FALSE(net->lacks_ranges());
    const std::vector<double> y = Values(*net, "score"), wanted = Values(*reference, "score");
    double noise = 0, signal = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      noise += (y[i] - wanted[i]) * (y[i] - wanted[i]);
      signal += wanted[i] * wanted[i];
    }
    EXPECT_GT(noise, 0);
    EXPECT_GT(10 * std::log10(signal / noise), 30) << factor;
    EXPECT_EQ(Values(*net, "conv1"), Values(*host, "conv1"));
  }
}

TEST_P(DynamicNetTest, NothingWaitsWithinAForward) {
  Device* const device = GetParam();
  const auto net = MakeNet(NetText(kState), device);
  FillInputs(net.get());
  for (int i = 0; i < 3; ++i) net->Forward();
  device->Synchronize();
  const DeviceCounters before = device->counters();
  net->Forward();
  const DeviceCounters after = device->counters();
  EXPECT_EQ(after.syncs, before.syncs);
  EXPECT_EQ(after.downloads, before.downloads);
  EXPECT_EQ(after.uploads, before.uploads);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.builds, before.builds);
}

// A layer in mode dynamic between layers whose ranges were observed.
TEST_P(DynamicNetTest, KnownRangesAndDynamicOnesMix) {
  Device* const device = GetParam();
  const auto text = [](const std::string& types, const std::string& middle) {
    return types + InputText("data", {4, 20}) + InnerProductText("a", "data", 30) +
           InnerProductText("b", "a", 30, middle) + InnerProductText("c", "b", 5);
  };
  const auto reference = MakeNet(text("", ""), Cpu());
  reference->set_observe(true);
  FillInputs(reference.get());
  reference->Forward();
  NetParameter trained;
  reference->ToProto(&trained);
  const std::string codes = "data_type: CAFFE_INT8_QUANTIZED ";
  const auto net = MakeNet(text(codes, kDynamic), device);
  net->CopyTrainedLayersFrom(trained);
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->LayerByName("a")->types(), TypeTriple::Equal(kQuant8));
  EXPECT_EQ(net->LayerByName("b")->types(), (TypeTriple{kQuant8, kFloat, kFloat}));
  EXPECT_EQ(net->BlobByName("b")->type(), kFloat);
  EXPECT_EQ(net->BlobByName("c")->type(), kQuant8);
  const std::vector<double> y = Values(*net, "b"), wanted = Values(*reference, "b");
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 0.1);
}

INSTANTIATE_TEST_SUITE_P(Devices, DynamicNetTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST(DynamicModeTest, FilesKeepCodesOfWeights) {
  const auto net = MakeNet(NetText(kState), Cpu());
  FillInputs(net.get());
  net->Forward();
  NetParameter file;
  net->ToProto(&file);
  const auto other = MakeNet(NetText(kState), Cpu());
  other->CopyTrainedLayersFrom(file);
  FillInputs(other.get());
  other->Forward();
  EXPECT_EQ(Values(*other, "prob"), Values(*net, "prob"));
}

TEST(DynamicModeTest, ErrorsNameTheLayerAndTheCure) {
  const auto error = [](const std::string& more, const std::string& state = "") {
    return MessageOf([&] {
      const auto net =
          MakeNet(state + InputText("x", {2, 6}) + InnerProductText("ip", "x", 3, more), Cpu());
      net->Forward();
    });
  };
  const std::string mode = "bottom_quantizer { mode: CAFFE_QUANT_DYNAMIC } ";
  EXPECT_TRUE(Holds(error(mode),
                    "ip (InnerProduct): bottom_quantizer has mode "
                    "CAFFE_QUANT_DYNAMIC, but the layer computes in float"))
      << error(mode);
  EXPECT_TRUE(Holds(error(mode + "compute_data_type: CAFFE_INT16_QUANTIZED"),
                    "ip (InnerProduct): codes of type quant16 need ranges"));
  EXPECT_TRUE(Holds(error(mode + "compute_data_type: CAFFE_INT8_QUANTIZED "
                                 "bottom_data_type: CAFFE_INT8_QUANTIZED"),
                    "remove bottom_data_type"));
  EXPECT_TRUE(Holds(error("top_quantizer { mode: CAFFE_QUANT_DYNAMIC } "),
                    "ip (InnerProduct): top_quantizer: mode CAFFE_QUANT_DYNAMIC belongs to "
                    "bottom_quantizer"));
  const auto net = MakeNet(InputText("x", {2, 6}) + InnerProductText("ip", "x", 3), Cpu());
  EXPECT_TRUE(Holds(MessageOf([&] { net->set_quantizer_mode(CAFFE_QUANT_DYNAMIC); }),
                    "cannot be set after the net was made"));
  const auto deep = InputText("x", {1, 32769}) + InnerProductText("ip", "x", 1, kDynamic);
  EXPECT_TRUE(Holds(MessageOf([&] { MakeNet(deep, Cpu())->Forward(); }),
                    "32769 products in a sum are more than the 32768"));
}

TEST(DynamicModeTest, AModeWithoutCodesIsAWarning) {
  testing::internal::CaptureStderr();
  MakeNet("state { quantizer_mode: CAFFE_QUANT_DYNAMIC } " + InputText("x", {2, 6}) +
              InnerProductText("ip", "x", 3),
          Cpu());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "no layer multiplies codes in this mode")) << log;
}

}  // namespace
}  // namespace caffe
