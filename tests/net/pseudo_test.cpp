// Mode pseudo: blobs and weights with the values of codes, in float.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/calibration/comparison.hpp"
#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

std::string Typed(DataType type) {
  return "data_type: " + DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)) + " ";
}

// An entry of the net's list. A method that clips: training does not move the range.
std::string Range(const std::string& name, double low, double high,
                  const std::string& method = "mse") {
  return "quantizer { name: '" + name + "' observed_min: " + std::to_string(low) +
         " observed_max: " + std::to_string(high) + " method: '" + method + "' } ";
}

const char* const kPseudo = "state { quantizer_mode: CAFFE_QUANT_PSEUDO } ";
const char* const kPseudo16 =
    "state { quantizer_mode: CAFFE_QUANT_PSEUDO pseudo_target_type: CAFFE_INT16_QUANTIZED } ";

void ExpectNear(const std::vector<double>& values, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

class PseudoTest : public testing::TestWithParam<DeviceType> {
 protected:
  // ip = W data, of 2 x 2; both ranges have the step 0.01. The gradient of ip is 1.
  std::unique_ptr<Net> Net2x2(const std::string& more, Phase phase) {
    auto net =
        MakeNet(more + Typed(GetParam().type) + Range("data", -1, 1.55) + Range("ip", -0.4, 2.15) +
                    "force_backward: true " + InputText("data", {2, 2}) +
                    InnerProductText("ip", "data", 2, "loss_weight: 1"),
                GetParam().device, phase);
    net->params()[0]->SetData({1.27, 0.634, -0.254, 0.1});
    net->params()[1]->SetData({0, 0});
    net->BlobByName("data")->SetData({0.123, -1.2, 1.7, 0.0049});
    return net;
  }
  double tolerance() const { return 4 * Tolerance(GetParam().type); }
};

TEST_P(PseudoTest, ValuesAndGradientsAreThoseByHand) {
  const auto net = Net2x2(kPseudo, TRAIN);
  net->Forward();
  // -1.2 and 1.7 are clamped. The weights have the steps 0.01 and 0.002.
  ExpectNear(Values(*net, "data"), {0.12, -1, 1.55, 0}, tolerance());
  // The first one of the sums -0.4776, -0.13048, 1.9685 and -0.3937 is clamped.
  ExpectNear(Values(*net, "ip"), {-0.4, -0.13, 1.97, -0.39}, tolerance());
  net->ClearParamDiffs();
  net->Backward();
  ExpectNear(net->params()[1]->DiffAsDouble(), {1, 2}, tolerance());
  ExpectNear(net->params()[0]->DiffAsDouble(), {1.55, 0, 0.12 + 1.55, -1}, tolerance());
  // -1.2 and 1.7 are outside the range.
  ExpectNear(net->BlobByName("data")->DiffAsDouble(), {-0.254, 0, 0, 0.63 + 0.1}, tolerance());
  EXPECT_NEAR(net->params()[0]->DataAsDouble()[1], 0.634, 1e-7);  // the master
}

TEST_P(PseudoTest, SixteenBitsAreFiner) {
  const auto net = Net2x2(kPseudo16, TRAIN);
  net->Forward();
  ExpectNear(Values(*net, "data"), {0.123, -1, 1.55, 0.0049}, tolerance() + 2e-5);
  const double low = 1.27 * 0.123 - 0.634, other = -0.254 * 0.123 - 0.1;
  EXPECT_LT(low, -0.4);
  ExpectNear(Values(*net, "ip"),
             {-0.4, other, 1.27 * 1.55 + 0.634 * 0.0049, -0.254 * 1.55 + 0.00049},
             tolerance() + 1e-4);
}

TEST_P(PseudoTest, ModesChangeAtRunTime) {
  const auto net = Net2x2("", TRAIN);
  net->Forward();
  const std::vector<double> plain = Values(*net, "ip");
  const auto run = [&] {
    net->BlobByName("data")->SetData({0.123, -1.2, 1.7, 0.0049});
    net->Forward();
    return Values(*net, "ip");
  };
  net->set_quantizer_mode(CAFFE_QUANT_PSEUDO);
  EXPECT_TRUE(net->is_pseudo());
  ExpectNear(run(), {-0.4, -0.13, 1.97, -0.39}, tolerance());
  // Each quantizer has a mode of its own.
  net->SetQuantizerMode("data", CAFFE_QUANT_PASSIVE);
  net->SetQuantizerMode("ip", CAFFE_QUANT_PASSIVE);
  ExpectNear(run(),
             {1.27 * 0.123 - 0.63 * 1.2, -0.254 * 0.123 - 0.12, 1.27 * 1.7 + 0.63 * 0.0049,
              -0.254 * 1.7 + 0.00049},
             tolerance());
  net->SetQuantizerMode("ip_blobs_0_quant", CAFFE_QUANT_PASSIVE);
  EXPECT_EQ(run(), plain);
  net->SetQuantizerMode("data", CAFFE_QUANT_PSEUDO);
  run();
  ExpectNear(Values(*net, "data"), {0.12, -1, 1.55, 0}, tolerance());
  net->SetPseudoType("data", kQuant16);
  run();
  ExpectNear(Values(*net, "data"), {0.123, -1, 1.55, 0.0049}, tolerance() + 2e-5);
  net->set_quantizer_mode(CAFFE_QUANT_PASSIVE);
  EXPECT_FALSE(net->is_pseudo());
  EXPECT_EQ(run(), plain);
}

TEST_P(PseudoTest, TrainingMovesRangesByOnePercent) {
  const auto make = [&](const std::string& range, Phase phase) {
    return MakeNet(kPseudo + Typed(GetParam().type) + range + InputText("data", {2, 2}) +
                       InnerProductText("ip", "data", 2),
                   GetParam().device, phase);
  };
  const auto run = [](Net* net, std::vector<double> values) {
    net->BlobByName("data")->SetData(values);
    net->Forward();
    return net->Ranges().at("data");
  };
  const auto net = make("", TRAIN);
  caffe::Range range = run(net.get(), {-2, 1, 4, 0});  // the first batch sets the range
  EXPECT_EQ(range.low, -2);
  EXPECT_EQ(range.high, 4);
  EXPECT_EQ(net->Ranges().count("ip"), 1u);
  range = run(net.get(), {-1, 1, 8, NAN});
  EXPECT_NEAR(range.low, -1.99, 1e-6);
  EXPECT_NEAR(range.high, 4.04, 1e-6);
  range = run(net.get(), {NAN, NAN, INFINITY, NAN});  // no finite value: no change
  EXPECT_NEAR(range.high, 4.04, 1e-6);
  // A file has the range, and training goes on from there.
  NetParameter file;
  net->ToProto(&file);
  const auto other = make("", TRAIN);
  other->CopyTrainedLayersFrom(file);
  EXPECT_EQ(other->Ranges().at("data").high, range.high);
  EXPECT_NEAR(run(other.get(), {0, 0, 8, 0}).high, 4.04 + 0.01 * 3.96, 1e-6);
  // Another mode keeps the range, and mode pseudo moves it on.
  const double last = other->Ranges().at("data").high;
  other->set_quantizer_mode(CAFFE_QUANT_PASSIVE);
  EXPECT_EQ(other->Ranges().at("data").high, last);
  other->set_quantizer_mode(CAFFE_QUANT_PSEUDO);
  EXPECT_NEAR(run(other.get(), {0, 0, 8, 0}).high, last + 0.01 * (8 - last), 1e-6);
  other->set_quantizer_mode(CAFFE_QUANT_OBSERVE);
  EXPECT_EQ(run(other.get(), {0, 0, 8, 0}).high, 8);
  // In phase TEST nothing moves; nor does a range that clips, except with pseudo_reset_observed.
  EXPECT_EQ(run(make(Range("data", -1, 1, "min_max"), TEST).get(), {-2, 1, 4, 0}).high, 1);
  EXPECT_EQ(run(make(Range("data", -1, 1, "mse"), TRAIN).get(), {-2, 1, 4, 0}).high, 1);
  EXPECT_NEAR(run(make(Range("data", -1, 1, "min_max"), TRAIN).get(), {-2, 1, 4, 0}).high, 1.03,
              1e-6);
  const auto reset = MakeNet(
      kPseudo + Typed(GetParam().type) + Range("ip", -100, 100) + InputText("data", {2, 2}) +
          InnerProductText("ip", "data", 2, "top_quantizer { pseudo_reset_observed: true }"),
      GetParam().device, TRAIN);
  run(reset.get(), {1, 1, 1, 1});
  EXPECT_LT(reset->Ranges().at("ip").high, 10);
}

// Infinities become the ends of the range; NaN is propagated.
TEST_P(PseudoTest, WhatIsNotFinite) {
  const auto net = Net2x2(kPseudo, TEST);
  net->BlobByName("data")->SetData({INFINITY, -INFINITY, NAN, 1});
  net->Forward();
  const std::vector<double> data = Values(*net, "data");
  ExpectNear({data[0], data[1], data[3]}, {1.55, -1, 1}, tolerance());
  EXPECT_TRUE(std::isnan(data[2]));
}

// The rounding itself has the same bits everywhere: with unit vectors, ip has the weights' values.
TEST_P(PseudoTest, BitsAreThoseOfTheCpu) {
  std::vector<std::vector<double>> results[2];
  for (int place = 0; place < 2; ++place) {
    const auto net = MakeNet(kPseudo + Typed(GetParam().type) + InputText("data", {16, 16}) +
                                 "layer { name: 'p' type: 'Power' bottom: 'data' top: 'p' "
                                 "loss_weight: 0.5 power_param { scale: 3 shift: -0.1 } } " +
                                 InputText("one", {16, 16}) + InnerProductText("ip", "one", 40),
                             place ? GetParam().device : Cpu(), TRAIN);
    std::vector<double> one(256, 0);
    for (int i = 0; i < 16; ++i) one[17 * i] = 1;
    for (int i = 0; i < 3; ++i) {
      net->BlobByName("data")->SetData(TestNumbers(256, 5 + i));
      net->BlobByName("one")->SetData(one);
      net->Forward();
      for (const char* blob : {"data", "p", "ip"}) results[place].push_back(Values(*net, blob));
    }
    const auto range = net->Ranges().at("p");
    results[place].push_back({range.low, range.high});
  }
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(All, PseudoTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// The gradient of the loss, by differences, of the net whose blobs stay unrounded: with 16 bits the
// steps are far below the differences, and outside the range it is 0.
TEST(PseudoGradientTest, IsThatOfDifferencesWithinTheRange) {
  const auto net = MakeNet(
      kPseudo16 + Typed(kDouble) + Range("data", -2, 2) + Range("ip", -0.5, 0.5) +
          InputText("data", {3, 4}) + InputText("target", {3, 2}) +
          InnerProductText("ip", "data", 2) +
          "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'target' top: 'loss' }",
      Cpu(), TRAIN);
  FillInputs(net.get());
  const std::vector<double> data = Values(*net, "data");
  net->ClearParamDiffs();
  net->Forward();
  net->Backward();
  const std::vector<double> gradient = net->params()[1]->DiffAsDouble();
  const std::vector<double> bias = net->params()[1]->DataAsDouble();
  int clamped = 0;
  for (const double value : Values(*net, "ip")) clamped += std::abs(value) > 0.4999;
  EXPECT_GT(clamped, 0);
  EXPECT_LT(clamped, 6);
  for (size_t i = 0; i < bias.size(); ++i) {
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<double> moved = bias;
      moved[i] += side ? 0.004 : -0.004;
      net->params()[1]->SetData(moved);
      net->BlobByName("data")->SetData(data);
      net->Forward();
      loss[side] = Values(*net, "loss")[0];
    }
    net->params()[1]->SetData(bias);
    EXPECT_NEAR(gradient[i], (loss[1] - loss[0]) / 0.008, 3e-3) << i;
  }
}

// ---- Which blobs are rounded, and that the numbers are those of an integer net.

const char* const kConvNet =
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
    "  num_output: 8 kernel_size: 3 bias_term: false weight_filler { type: 'xavier' } } } "
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'bn' } "
    "layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'scale' scale_param { bias_term: true "
    "  filler { type: 'uniform' min: 0.5 max: 1.5 } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'scale' top: 'relu' } "
    "layer { name: 'pool' type: 'Pooling' bottom: 'relu' top: 'pool' pooling_param { "
    "  pool: MAX kernel_size: 2 stride: 2 } } "
    "layer { name: 'left' type: 'Convolution' bottom: 'pool' top: 'left' convolution_param { "
    "  num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } } "
    "layer { name: 'right' type: 'Convolution' bottom: 'pool' top: 'right' convolution_param { "
    "  num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } } "
    "layer { name: 'sum' type: 'Eltwise' bottom: 'left' bottom: 'right' top: 'sum' } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'sum' top: 'ip' inner_product_param { "
    "  num_output: 5 weight_filler { type: 'xavier' } } } ";

std::string ConvNet(const std::string& more) {
  return more + InputText("data", {4, 3, 10, 10}) + kConvNet;
}

// The calibrated weights of kConvNet.
NetParameter CalibratedConvNet() {
  const auto net = MakeNet(ConvNet(""), Cpu());
  net->LayerByName("bn")->blobs()[0]->SetData({0.1, -0.1, 0.2, 0, 0, 0.3, -0.2, 0.1});
  net->LayerByName("bn")->blobs()[1]->SetData({1, 0.5, 0.7, 1, 0.9, 0.6, 0.8, 1});
  net->LayerByName("bn")->blobs()[2]->SetData({1});
  net->set_observe(true);
  FillInputs(net.get());
  net->Forward();
  NetParameter file;
  net->ToProto(&file);
  return file;
}

class PseudoNetTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PseudoNetTest, IsWithinAStepOfTheIntegerNet) {
  const auto [device, type] = GetParam();
  const NetParameter file = CalibratedConvNet();
  const auto integer = MakeNet(ConvNet(Typed(type)), device);
  const auto pseudo = MakeNet(ConvNet(type == kQuant8 ? kPseudo : kPseudo16), device);
  const auto plain = MakeNet(ConvNet(""), device);
  for (Net* net : {integer.get(), pseudo.get(), plain.get()}) {
    net->CopyTrainedLayersFrom(file);
    FillInputs(net);
    net->Forward();
  }
  int64_t differ = 0, all = 0;
  for (const std::string blob : {"relu", "pool", "left", "sum", "ip"}) {
    const QuantRange range = integer->BlobByName(blob)->range();
    const std::vector<float> real = RealValues(*integer->BlobByName(blob));
    const std::vector<double> values = Values(*pseudo, blob), floats = Values(*plain, blob);
    double plain_error = 0, error = 0;
    for (size_t i = 0; i < real.size(); ++i) {
      EXPECT_NEAR(values[i], real[i], 1.01 * range.scale) << blob << " " << i;
      differ += std::abs(values[i] - real[i]) > range.scale / 2;
      error += std::abs(values[i] - real[i]);
      plain_error += std::abs(floats[i] - real[i]);
      ++all;
    }
    EXPECT_LT(error, plain_error / 2) << blob;  // the mode does something, and the right thing
  }
  EXPECT_LT(differ, all / 50) << differ << " of " << all;
}

INSTANTIATE_TEST_SUITE_P(All, PseudoNetTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

// Whether all values are multiples of the step of the blob's range. A pooling carries codes.
bool IsRounded(const Net& net, const std::string& blob) {
  const caffe::Range range = net.Ranges().at(blob == "pool" ? "relu" : blob);
  const double step = (std::max(range.high, 0.0) - std::min(range.low, 0.0)) / 255;
  const std::vector<double> values = Values(net, blob);
  return std::all_of(values.begin(), values.end(), [&](double value) {
    return std::abs(value / step - std::round(value / step)) < 1e-2;
  });
}

TEST(PseudoTopsTest, OneRoundingForEachStepOfAnIntegerNet) {
  for (const Phase phase : {TEST, TRAIN}) {
    const auto net = MakeNet(
        ConvNet(kPseudo) + InputText("label", {4}) +
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' "
            "} layer { name: 'sigmoid' type: 'Sigmoid' bottom: 'left' top: 'sigmoid' } ",
        Cpu(), phase);
    net->CopyTrainedLayersFrom(CalibratedConvNet());
    if (phase == TEST) {
      NetParameter sigmoid = ParseNet(Range("sigmoid", 0, 1));
      NetParameter file = CalibratedConvNet();
      *file.add_quantizer() = sigmoid.quantizer(0);
      net->CopyTrainedLayersFrom(file);
    }
    FillInputs(net.get());
    net->Forward();
    for (const std::string blob :
         {"data", "relu", "pool", "left", "right", "sum", "ip", "sigmoid"}) {
      EXPECT_TRUE(IsRounded(*net, blob)) << blob;
    }
    for (const std::string blob : {"conv", "bn", "scale"}) {
      EXPECT_FALSE(IsRounded(*net, blob)) << blob;
    }
    EXPECT_EQ(Values(*net, "label"), (std::vector<double>{0, 1, 0, 1}));
  }
}

TEST(PseudoTopsTest, BlobsWithoutARangeStayAsTheyAre) {
  const auto net = MakeNet("name: 'raw' " + ConvNet(kPseudo), Cpu());
  FillInputs(net.get());
  const std::vector<double> data = Values(*net, "data");
  testing::internal::CaptureStderr();
  net->Forward();
  EXPECT_EQ(Values(*net, "data"), data);
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "net raw: blob data has no range yet"));
}

// In phase TEST the first backward pass runs layers again: they must have the same values.
TEST(PseudoTopsTest, ABackwardPassInPhaseTestChangesNoBlob) {
  const auto net = MakeNet(ConvNet(kPseudo), Cpu());
  net->CopyTrainedLayersFrom(CalibratedConvNet());
  FillInputs(net.get());
  net->Forward();
  std::vector<std::vector<double>> before;
  const std::vector<std::string> blobs = {"data", "relu", "pool", "left", "sum", "ip"};
  for (const std::string& blob : blobs) before.push_back(Values(*net, blob));
  net->RequestGradients({"data"});
  net->BlobByName("ip")->SetDiff(std::vector<double>(20, 1));
  net->Backward();
  for (size_t i = 0; i < blobs.size(); ++i)
    EXPECT_EQ(Values(*net, blobs[i]), before[i]) << blobs[i];
}

TEST(PseudoTopsTest, QuantizersHaveNames) {
  const auto net = MakeNet(
      InputText("data", {1, 4}) + InnerProductText("a", "data", 4) + ReluText("r", "a"), Cpu());
  EXPECT_EQ(net->quantizers(), (std::vector<std::string>{"data", "a@a", "a_blobs_0_quant", "a"}));
  EXPECT_TRUE(Holds(MessageOf([&] { net->SetQuantizerMode("b", CAFFE_QUANT_PSEUDO); }),
                    "has no quantizer 'b'"));
  EXPECT_TRUE(Holds(MessageOf([&] { net->set_pseudo_type(kHalf); }), "known: int8 int16"));
}

}  // namespace
}  // namespace caffe
