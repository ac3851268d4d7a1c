// Nets in quant8 and quant16: ranges observed in float, saved, loaded; casts between types.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

std::string Typed(DataType type) {
  const std::string name = type == kQuant8    ? "CAFFE_INT8_QUANTIZED"
                           : type == kQuant16 ? "CAFFE_INT16_QUANTIZED"
                           : type == kHalf    ? "CAFFE_HALF"
                                              : "CAFFE_FLOAT";
  return " bottom_data_type: " + name + " compute_data_type: " + name + " top_data_type: " + name;
}

// data -> conv -> relu in place -> pool -> two readers -> … -> prob; float at both ends.
std::string NetText(DataType type, bool relu_in_place = true) {
  const std::string t = Typed(type), relu = relu_in_place ? "conv" : "relu";
  return InputText("data", {4, 2, 8, 8}) +
         "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'" + t +
         " convolution_param { num_output: 6 kernel_size: 3 pad: 1"
         " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
         " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } } "
         "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: '" +
         relu + "'" + t +
         " } "
         "layer { name: 'pool' type: 'Pooling' bottom: '" +
         relu + "' top: 'pool'" + t + " pooling_param { kernel_size: 2 stride: 2 } } " +
         "layer { name: 'flat' type: 'Flatten' bottom: 'pool' top: 'flat'" + t + " } " +
         InnerProductText("ip1", "flat", 5, t) + InnerProductText("ip2", "pool", 7, t) +
         "layer { name: 'prob1' type: 'Softmax' bottom: 'ip1' top: 'prob1' } "
         "layer { name: 'prob2' type: 'Softmax' bottom: 'ip2' top: 'prob2' } ";
}

// Weights and ranges of the float net.
NetParameter Calibrated(const std::string& text) {
  const auto net = MakeNet(text, Cpu());
  net->set_observe(true);
  for (const uint64_t seed : {5, 6, 7}) {
    FillInputs(net.get(), seed);
    net->Forward();
  }
  NetParameter saved;
  net->ToProto(&saved);
  return saved;
}

std::vector<int> Codes(const BlobBase& blob) {
  std::vector<int> codes(blob.count());
  const char* data = static_cast<const char*>(blob.host_data());
  for (int64_t i = 0; i < blob.count(); ++i) {
    std::memcpy(&codes[i], data + i * blob.type().bytes(), blob.type().bytes());
  }
  return codes;
}

double MeanError(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

class QuantizedNetTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedNetTest, ComputesNearlyWhatTheFloatNetDoes) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated(NetText(kFloat));
  const auto reference = MakeNet(NetText(kFloat), device);
  reference->CopyTrainedLayersFrom(weights);
  FillInputs(reference.get(), 6);
  reference->Forward();
  for (const bool in_place : {true, false}) {
    const auto net = MakeNet(NetText(type, in_place), device);
    if (in_place) {
      net->CopyTrainedLayersFrom(weights);
    } else {
      net->CopyTrainedLayersFrom(Calibrated(NetText(kFloat, false)));
      for (const char* layer : {"conv", "ip1", "ip2"}) {
        for (int b = 0; b < 2; ++b) {
          net->LayerByName(layer)->blobs()[b]->SetData(
              reference->LayerByName(layer)->blobs()[b]->DataAsDouble());
        }
      }
    }
    FillInputs(net.get(), 6);
    net->Forward();
    EXPECT_EQ(net->BlobByName("pool")->type(), type);
    EXPECT_TRUE(net->BlobByName("pool")->range().observed);
    for (const char* blob : {"prob1", "prob2"}) {
      const double error = MeanError(Values(*net, blob), Values(*reference, blob));
      EXPECT_LT(error, type == kQuant8 ? 5e-3 : 3e-5) << blob << (in_place ? " in place" : "");
      EXPECT_GT(error, 0);
    }
  }
}

// Every code of every blob, on every device and for fused and unfused steps alike within a device.
TEST_P(QuantizedNetTest, CodesEqualThoseOfTheCpu) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated(NetText(kFloat));
  const auto net = MakeNet(NetText(type), device), host = MakeNet(NetText(type), Cpu());
  for (Net* each : {net.get(), host.get()}) {
    each->CopyTrainedLayersFrom(weights);
    FillInputs(each, 8);
    each->Forward();
  }
  for (const char* blob : {"conv", "pool", "flat", "ip1", "ip2"}) {
    EXPECT_EQ(Codes(*net->BlobByName(blob)), Codes(*host->BlobByName(blob))) << blob;
  }
  // Layer by layer the convolution has a range of its own, and the ReLU rescales.
  for (Net* each : {net.get(), host.get()}) {
    each->set_after_forward([](int) {});
    each->Forward();
  }
  EXPECT_EQ(Codes(*net->BlobByName("conv")), Codes(*host->BlobByName("conv")));
}

// Dropout, Permute, ShuffleChannel, Tile, Crop, Reshape and Slice pass their range on; Concat
// of several has one of its own, which a blob that only it reads gets.
TEST_P(QuantizedNetTest, LayersWithoutArithmeticCarryRanges) {
  const auto [device, type] = GetParam();
  const auto text = [](DataType data_type) {
    const std::string t = Typed(data_type);
    return InputText("data", {2, 2, 4, 4}) +
           "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'" + t +
           " convolution_param { num_output: 4 kernel_size: 1"
           " weight_filler { type: 'uniform' min: -1 max: 1 } } } "
           "layer { name: 'drop' type: 'Dropout' bottom: 'conv' top: 'conv'" +
           t +
           " } "
           "layer { name: 'permuted' type: 'Permute' bottom: 'conv' top: 'permuted'" +
           t +
           " permute_param { order: 0 order: 2 order: 1 } } "
           "layer { name: 'mixed' type: 'ShuffleChannel' bottom: 'permuted' top: 'mixed'" +
           t +
           " shuffle_channel_param { group: 2 } } "
           "layer { name: 'tiled' type: 'Tile' bottom: 'mixed' top: 'tiled'" +
           t +
           " tile_param { axis: 2 tiles: 2 } } "
           "layer { name: 'cropped' type: 'Crop' bottom: 'tiled' bottom: 'data' top: 'cropped'" +
           t +
           " crop_param { offset: 3 offset: 0 } } "
           "layer { name: 'shaped' type: 'Reshape' bottom: 'cropped' top: 'shaped'" +
           t +
           " reshape_param { shape { dim: 0 dim: -1 } } } "
           "layer { name: 'cut' type: 'Slice' bottom: 'shaped' top: 'a' top: 'b'" +
           t +
           " } "
           "layer { name: 'relu' type: 'ReLU' bottom: 'a' top: 'r'" +
           t +
           " } "
           "layer { name: 'joined' type: 'Concat' bottom: 'r' bottom: 'b' top: 'joined'" +
           t + " } " +
           "layer { name: 'out' type: 'Quantizer' bottom: 'joined' top: 'out' "
           "top_data_type: CAFFE_FLOAT } ";
  };
  const NetParameter weights = Calibrated(text(kFloat));
  const auto net = MakeNet(text(type), device), reference = MakeNet(text(kFloat), device);
  for (Net* each : {net.get(), reference.get()}) {
    each->CopyTrainedLayersFrom(weights);
    FillInputs(each, 6);
    each->Forward();
  }
  const double scale = net->BlobByName("conv")->range().scale;
  for (const char* blob : {"permuted", "mixed", "tiled", "cropped", "shaped", "a", "b"}) {
    EXPECT_EQ(net->BlobByName(blob)->range().scale, scale) << blob;
  }
  EXPECT_EQ(net->BlobByName("r")->range().scale, net->BlobByName("joined")->range().scale);
  const std::vector<double> actual = Values(*net, "out"), expected = Values(*reference, "out");
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 4 * scale) << i;
}

// The codes stay, and the range of the top is the bottom's, times 1 - ratio: exactly.
TEST_P(QuantizedNetTest, DropoutThatScalesInTestScalesTheRange) {
  const auto [device, type] = GetParam();
  const auto text = [](DataType data_type) {
    const std::string t = Typed(data_type);
    const auto drop = [&](const std::string& bottom, const std::string& top) {
      return "layer { name: 'drop_" + bottom + "' type: 'Dropout' bottom: '" + bottom + "' top: '" +
             top + "' dropout_param { dropout_ratio: 0.3 scale_train: false }" + t + " } ";
    };
    return InputText("data", {2, 6}) + InnerProductText("a", "data", 8, t) + drop("a", "b") +
           InnerProductText("c", "b", 8, t) + drop("c", "c") +
           "layer { name: 'd' type: 'ReLU' bottom: 'c' top: 'd'" + t + " } " + drop("d", "e") +
           "layer { name: 'f' type: 'Concat' bottom: 'b' bottom: 'e' top: 'f'" + t + " } " +
           "layer { name: 'out' type: 'Quantizer' bottom: 'f' top: 'out' "
           "top_data_type: CAFFE_FLOAT } ";
  };
  const NetParameter weights = Calibrated(text(kFloat));
  const auto net = MakeNet(text(type), device), host = MakeNet(text(type), Cpu());
  const auto reference = MakeNet(text(kFloat), device);
  for (Net* each : {net.get(), host.get(), reference.get()}) {
    each->CopyTrainedLayersFrom(weights);
    FillInputs(each, 6);
    each->Forward();
  }
  for (const char* blob : {"a", "b", "c", "d", "e", "f"}) {
    EXPECT_EQ(Codes(*net->BlobByName(blob)), Codes(*host->BlobByName(blob))) << blob;
  }
  const auto check = [&](const char* from, const char* to) {
    const QuantRange bottom = net->BlobByName(from)->range(), top = net->BlobByName(to)->range();
    EXPECT_EQ(Codes(*net->BlobByName(to)), Codes(*net->BlobByName(from)));
    EXPECT_EQ(top.zero, bottom.zero);
    EXPECT_NEAR(top.scale / bottom.scale, 0.7, 1e-7);
  };
  check("a", "b");
  check("d", "e");
  const double scale = net->BlobByName("f")->range().scale;
  const std::vector<double> actual = Values(*net, "out"), expected = Values(*reference, "out");
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 4 * scale) << i;
}

TEST_P(QuantizedNetTest, AFusedReluRoundsOnceAndAnUnfusedOneTwice) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(NetText(type), device);
  net->CopyTrainedLayersFrom(Calibrated(NetText(kFloat)));
  FillInputs(net.get(), 9);
  net->Forward();
  const std::vector<int> fused = Codes(*net->BlobByName("conv"));
  net->set_after_forward([](int) {});
  net->Forward();
  const std::vector<int> apart = Codes(*net->BlobByName("conv"));
  int most = 0, different = 0;
  for (size_t i = 0; i < fused.size(); ++i) {
    most = std::max(most, std::abs(fused[i] - apart[i]));
    different += fused[i] != apart[i];
  }
  EXPECT_LE(most, 2);
  EXPECT_GT(different, 0) << "a range of its own, which is wider than that behind the ReLU";
}

TEST_P(QuantizedNetTest, ASecondForwardOnlyComputes) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(NetText(type), device);
  net->CopyTrainedLayersFrom(Calibrated(NetText(kFloat)));
  FillInputs(net.get(), 9);
  net->Forward();
  const std::vector<int> first = Codes(*net->BlobByName("ip1"));
  device->ResetCounters();
  net->Forward();
  const DeviceCounters counters = device->counters();
  EXPECT_EQ(counters.uploads, 0);
  EXPECT_EQ(counters.builds, 0);
  EXPECT_EQ(counters.allocations, 0);
  EXPECT_EQ(counters.syncs, 0);
  EXPECT_EQ(Codes(*net->BlobByName("ip1")), first);
}

TEST_P(QuantizedNetTest, ANetThatMovesKeepsItsRanges) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(NetText(type), Cpu());
  net->CopyTrainedLayersFrom(Calibrated(NetText(kFloat)));
  FillInputs(net.get(), 9);
  net->Forward();
  const std::vector<int> codes = Codes(*net->BlobByName("ip1"));
  net->SetDevice(device);
  FillInputs(net.get(), 9);
  net->Forward();
  EXPECT_EQ(Codes(*net->BlobByName("ip1")), codes);
}

TEST_P(QuantizedNetTest, SavesAndLoadsWeightsAndRanges) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(NetText(type), device);
  net->CopyTrainedLayersFrom(Calibrated(NetText(kFloat)));
  FillInputs(net.get(), 9);
  net->Forward();
  NetParameter saved;
  net->ToProto(&saved);
  const auto again = MakeNet(NetText(type), device);
  again->CopyTrainedLayersFrom(saved);
  FillInputs(again.get(), 9);
  again->Forward();
  EXPECT_EQ(Codes(*again->BlobByName("ip2")), Codes(*net->BlobByName("ip2")));
  // The range of the weights gives their scale and the middle zero point back, by one formula.
  const int most = type.info().code_max;
  int found = 0;
  for (const QuantizerParameter& entry : saved.quantizer()) {
    if (entry.name() != "conv_blobs_0_quant") continue;
    ++found;
    ASSERT_EQ(entry.channel_min_size(), 6);
    const std::vector<double> scales = net->LayerByName("conv")->Facts().weighted->code_scales();
    for (int c = 0; c < 6; ++c) {
      const double scale = (entry.channel_max(c) - entry.channel_min(c)) / most;
      EXPECT_NEAR(scale, scales[c], 1e-12);
      EXPECT_EQ(std::round(-entry.channel_min(c) / scale), (most + 1) / 2);
      EXPECT_LE(entry.observed_min(), entry.channel_min(c));
      EXPECT_GE(entry.observed_max(), entry.channel_max(c));
    }
  }
  EXPECT_EQ(found, 1);
}

TEST_P(QuantizedNetTest, ARangeThatWasNeverObservedIsAnErrorWhenItIsNeeded) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(NetText(type), device);
  FillInputs(net.get(), 9);
  EXPECT_TRUE(Holds(MessageOf([&] { net->Forward(); }), "blob data was ever observed"));
  NetParameter weights = Calibrated(NetText(kFloat));
  for (int i = 0; i < weights.quantizer_size(); ++i) {
    if (weights.quantizer(i).name() == "ip1") weights.mutable_quantizer()->DeleteSubrange(i, 1);
  }
  net->CopyTrainedLayersFrom(weights);
  const std::string message = MessageOf([&] { net->Forward(); });
  for (const char* part : {"ip1 (InnerProduct)", "blob ip1", "CAFFE_QUANT_OBSERVE"}) {
    EXPECT_TRUE(Holds(message, part));
  }
  // For measuring time alone.
  net->UsePlaceholderRanges();
  net->Forward();
  EXPECT_EQ(Values(*net, "prob1").size(), 20u);
}

TEST_P(QuantizedNetTest, TrainingIsAnErrorWhenItIsTried) {
  const auto [device, type] = GetParam();
  const std::string text =
      InputText("data", {2, 3}) + InputText("label", {2}) +
      InnerProductText("ip", "data", 4, Typed(type)) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";
  const auto net = MakeNet(text, device, 0);
  NetParameter ranges;
  for (const char* name : {"data", "ip"}) {
    QuantizerParameter* entry = ranges.add_quantizer();
    entry->set_name(name);
    entry->set_observed_min(-1);
    entry->set_observed_max(1);
  }
  net->CopyTrainedLayersFrom(ranges);
  net->Forward();
  const std::string message = MessageOf([&] { net->Backward(); });
  EXPECT_TRUE(Holds(message, "train in a float type"));
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedNetTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

// --- Names of ranges -----------------------------------------------------------------------------

TEST(NetRangesTest, NamesOfTheForkAreRead) {
  NetParameter weights = Calibrated(NetText(kFloat));
  std::map<std::string, QuantizerParameter> ranges;
  for (const QuantizerParameter& entry : weights.quantizer()) ranges[entry.name()] = entry;
  weights.clear_quantizer();
  const auto add = [&](const std::string& name, double low, double high) {
    QuantizerParameter* entry = weights.add_quantizer();
    entry->set_name(name);
    entry->set_observed_min(low);
    entry->set_observed_max(high);
  };
  // The fork stores one range of conv, with its ReLU in place, and one for each copy of pool.
  add("data", -1, 1);
  add("conv", -3, 3.5);
  add("pool_pool_0_split_0", 0, 2);
  add("pool_pool_0_split_1", -0.5, 1);
  add("ip1", -4, 4);
  add("ip2", -5, 5);
  add("conv_blobs_0_quant", -0.5, 0.5);
  add("prob1_net_quant", 0, 1);
  const auto net = MakeNet(NetText(kQuant8), Cpu());
  net->CopyTrainedLayersFrom(weights);
  const auto read = net->Ranges();
  EXPECT_EQ(read.at("pool").low, -0.5);
  EXPECT_EQ(read.at("pool").high, 2);
  EXPECT_EQ(read.size(), 5u) << "data, conv, pool, ip1, ip2";
  FillInputs(net.get(), 9);
  net->Forward();
  // Codes of pool are those of conv even if the file has another range for pool: MAX carries the
  // range.
  EXPECT_EQ(net->BlobByName("pool")->range().scale, net->BlobByName("conv")->range().scale);
}

// The fork's nets hold codes and their affine ranges; they become float weights again.
TEST(NetRangesTest, WeightsStoredAsCodesAreDecoded) {
  for (const DataType type : {kQuant8, kQuant16}) {
    const std::string text = InputText("data", {1, 3}) + InnerProductText("ip", "data", 2);
    NetParameter file = ParseNet(text);
    const double step = 4.0 / type.info().code_max;  // of [-1, 3]
    const int zero = static_cast<int>(std::round(1 / step));
    std::vector<double> expected;
    for (int b = 0; b < 2; ++b) {
      BlobProto* blob = file.mutable_layer(1)->add_blobs();
      blob->mutable_shape()->add_dim(2);
      if (b == 0) blob->mutable_shape()->add_dim(3);
      blob->set_data_type(static_cast<DataTypeProto>(type.info().proto));
      for (int i = 0; i < (b == 0 ? 6 : 2); ++i) {
        const int code = i * type.info().code_max / 5;
        blob->mutable_packed_data()->append(reinterpret_cast<const char*>(&code), type.bytes());
        if (b == 0) expected.push_back(static_cast<float>((code - zero) * step));
      }
    }
    const auto net = MakeNet(text, Cpu());
    EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(file); }), "ip_blobs_0_quant"));
    for (const char* name : {"ip_blobs_0_quant", "ip_blobs_1_quant"}) {
      QuantizerParameter* entry = file.add_quantizer();
      entry->set_name(name);
      entry->set_observed_min(-1);
      entry->set_observed_max(3);
    }
    net->CopyTrainedLayersFrom(file);
    ExpectNear(net->LayerByName("ip")->blobs()[0]->DataAsDouble(), expected, 1e-6, type.name());
    // By channel: the second row has another range.
    QuantizerParameter* entry = file.mutable_quantizer(0);
    for (const double factor : {1.0, 2.0}) {
      entry->add_channel_min(-1 * factor);
      entry->add_channel_max(3 * factor);
    }
    for (int i = 3; i < 6; ++i) expected[i] *= 2;
    net->CopyTrainedLayersFrom(file);
    ExpectNear(net->LayerByName("ip")->blobs()[0]->DataAsDouble(), expected, 1e-6, type.name());
  }
}

// The weights are not lost for the sake of a range.
// The version that each layer of one name makes has a range of its own, in a net and in its file.
TEST(NetRangesTest, LayersOfOneNameHaveRangesOfTheirOwn) {
  const auto text = [](const std::vector<std::string>& names, DataType type) {
    const std::string t = Typed(type);
    return InputText("data", {4, 6}) + InnerProductText(names[0], "data", 8, t) +
           "layer { name: '" + names[1] + "' type: 'Power' bottom: '" + names[0] + "' top: '" +
           names[0] + "' power_param { scale: -0.1 shift: 1 }" + t + " } layer { name: '" +
           names[2] + "' type: 'Sigmoid' bottom: '" + names[0] + "' top: '" + names[0] + "'" + t +
           " } " + InnerProductText("out", names[0], 3, t);
  };
  const std::vector<std::string> same{"x", "x", "x"}, unique{"x", "y", "z"};
  const NetParameter weights = Calibrated(text(same, kFloat)),
                     wanted = Calibrated(text(unique, kFloat));
  const auto ranges = [](const NetParameter& file) {
    std::map<std::string, std::pair<float, float>> found;
    for (const QuantizerParameter& entry : file.quantizer()) {
      found[entry.name()] = {entry.observed_min(), entry.observed_max()};
    }
    return found;
  };
  auto renamed = ranges(wanted);
  renamed["x@x#2"] = renamed.at("x@y");
  renamed.erase("x@y");
  EXPECT_EQ(ranges(weights), renamed);
  std::vector<int> codes[2];
  for (const int i : {0, 1}) {
    const auto net = MakeNet(text(i ? unique : same, kQuant8), Cpu());
    net->CopyTrainedLayersFrom(i ? wanted : weights);
    net->set_after_forward([](int) {});  // no layers are fused
    FillInputs(net.get(), 6);
    net->Forward();
    codes[i] = Codes(*net->BlobByName("out"));
  }
  EXPECT_EQ(codes[0], codes[1]);
  // A file that was written when they had one range.
  NetParameter old = weights;
  for (int e = old.quantizer_size(); e-- > 0;) {
    QuantizerParameter* entry = old.mutable_quantizer(e);
    if (entry->name() == "x@x#2") old.mutable_quantizer()->DeleteSubrange(e, 1);
  }
  const auto net = MakeNet(text(same, kQuant8), Cpu());
  net->CopyTrainedLayersFrom(old);
  FillInputs(net.get(), 6);
  EXPECT_NO_THROW(net->Forward());
}

TEST(NetRangesTest, ARangeThatIsNoneIsNamedAndLeftOut) {
  const std::string text = InputText("data", {1, 3}) + InnerProductText("ip", "data", 2);
  const NetParameter sound = Calibrated(text);
  const std::vector<double> weights(sound.layer(1).blobs(0).data().begin(),
                                    sound.layer(1).blobs(0).data().end());
  using Fault = std::function<void(QuantizerParameter*)>;
  const auto ends = [](double low, double high) -> Fault {
    return [=](QuantizerParameter* entry) {
      entry->set_observed_min(low);
      entry->set_observed_max(high);
    };
  };
  for (const Fault& spoil : {ends(1, -1), ends(NAN, 1), ends(0, INFINITY), ends(-1.7e308, 1.7e308),
                             Fault([](QuantizerParameter* entry) { entry->add_channel_min(-1); }),
                             Fault([](QuantizerParameter* entry) {
                               entry->add_channel_min(-1);
                               entry->add_channel_max(NAN);
                             })}) {
    NetParameter file = sound;
    for (QuantizerParameter& entry : *file.mutable_quantizer()) {
      if (entry.name() == "data") spoil(&entry);
    }
    const auto net = MakeNet(text, Cpu());
    net->LayerByName("ip")->blobs()[0]->SetData(std::vector<double>(6, 0));
    testing::internal::CaptureStderr();
    net->CopyTrainedLayersFrom(file);
    EXPECT_TRUE(
        Holds(testing::internal::GetCapturedStderr(), "ignoring the stored range of 'data'"));
    EXPECT_EQ(net->LayerByName("ip")->blobs()[0]->DataAsDouble(), weights);
    EXPECT_EQ(net->Ranges().count("data"), 0u);
    EXPECT_EQ(net->Ranges().count("ip"), 1u);
    // Where it is needed, its absence is an error.
    const auto codes = MakeNet(
        InputText("data", {1, 3}) + InnerProductText("ip", "data", 2, Typed(kQuant8)), Cpu());
    codes->CopyTrainedLayersFrom(file);
    EXPECT_TRUE(Holds(MessageOf([&] { codes->Forward(); }), "blob data was ever observed"));
  }
}

TEST(NetRangesTest, ARangeOfThePrototxtThatIsNoneIsLeftOut) {
  const std::string text =
      "quantizer { name: 'b' observed_min: 2 observed_max: 1 } layer { name: 'data' type: 'Input' "
      "top: 'a' top: 'b' input_param { shape { dim: 2 } } "
      "top_quantizer { observed_min: inf observed_max: inf } }";
  testing::internal::CaptureStderr();
  const auto net = MakeNet(text, Cpu());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "stored range of 'a': [inf, inf]"));
  EXPECT_TRUE(Holds(log, "stored range of 'b': [2, 1]"));
  EXPECT_TRUE(net->Ranges().empty());
}

TEST(NetRangesTest, ThePrototxtMayGiveRangesAndAskForObserving) {
  const std::string text =
      "state { quantizer_mode: CAFFE_QUANT_OBSERVE } quantizer { name: 'b' observed_min: -2 "
      "observed_max: 1 } layer { name: 'data' type: 'Input' top: 'a' top: 'b' "
      "input_param { shape { dim: 2 } } top_quantizer { observed_min: -3 observed_max: 4 } }";
  const auto net = MakeNet(text, Cpu());
  EXPECT_TRUE(net->observe());
  EXPECT_EQ(net->Ranges().at("a").low, -3);
  EXPECT_EQ(net->Ranges().at("a").high, 4);
  EXPECT_EQ(net->Ranges().at("b").low, -2);
}

TEST(NetRangesTest, WorkInPlaceLeavesCodesThatAnotherLayerReads) {
  const auto text = [](DataType type, const std::string& top) {
    const std::string t = Typed(type);
    return InputText("data", {2, 3, 4, 4}) +
           "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'" + t +
           " convolution_param { num_output: 4 kernel_size: 3 "
           "weight_filler { type: 'uniform' min: -0.5 max: 0.5 } } } "
           "layer { name: 'flat' type: 'Flatten' bottom: 'conv' top: 'flat'" +
           t + " } layer { name: 'relu' type: 'ReLU' bottom: 'flat' top: '" + top + "'" + t +
           " } layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'" + t +
           " pooling_param { pool: AVE kernel_size: 2 } } ";
  };
  const auto net = MakeNet(text(kQuant8, "flat"), Cpu()),
             apart = MakeNet(text(kQuant8, "relu"), Cpu());
  net->CopyTrainedLayersFrom(Calibrated(text(kFloat, "flat")));
  apart->CopyTrainedLayersFrom(Calibrated(text(kFloat, "relu")));
  for (Net* each : {net.get(), apart.get()}) {
    FillInputs(each, 6);
    each->Forward();
  }
  EXPECT_EQ(Codes(*net->BlobByName("pool")), Codes(*apart->BlobByName("pool")));
  EXPECT_EQ(Codes(*net->BlobByName("flat")), Codes(*apart->BlobByName("relu")));
}

TEST(NetRangesTest, JoiningPiecesOfOneRangeNeedsNoOther) {
  const auto text = [](DataType type) {
    const std::string t = Typed(type);
    return InputText("data", {2, 4}) + InnerProductText("ip", "data", 6, t) +
           "layer { name: 'cut' type: 'Slice' bottom: 'ip' top: 'a' top: 'b'" + t +
           " } layer { name: 'join' type: 'Concat' bottom: 'b' bottom: 'a' top: 'joined'" + t +
           " } ";
  };
  NetParameter weights = Calibrated(text(kFloat));
  auto* ranges = weights.mutable_quantizer();
  for (int i = ranges->size() - 1; i >= 0; --i) {
    if (ranges->Get(i).name() == "joined") ranges->DeleteSubrange(i, 1);
  }
  for (Device* device : TestDevices()) {
    const auto net = MakeNet(text(kQuant8), device);
    net->CopyTrainedLayersFrom(weights);
    FillInputs(net.get());
    net->Forward();
    const std::vector<int> whole = Codes(*net->BlobByName("ip")),
                           joined = Codes(*net->BlobByName("joined"));
    for (int i = 0; i < 12; ++i) EXPECT_EQ(joined[i], whole[i / 6 * 6 + (i + 3) % 6]) << i;
  }
}

TEST(NetRangesTest, ALayerWhoseTopHasATypeOfItsOwnAndTwoReaders) {
  const auto text = [](DataType type, DataType top) {
    const std::string t = Typed(type);
    std::string own = t;
    own.replace(own.find("top_data_type"), std::string::npos,
                Typed(top).substr(Typed(top).find("top_data_type")));
    return InputText("data", {2, 3}) + InnerProductText("a", "data", 4, own) +
           "layer { name: 's' type: 'Sigmoid' bottom: 'a' top: 's' } " +
           InnerProductText("b", "a", 5, t);
  };
  const NetParameter weights = Calibrated(text(kFloat, kFloat));
  for (DataType type : {kHalf, kQuant8}) {
    const auto net = MakeNet(text(type, kFloat), Cpu());
    net->CopyTrainedLayersFrom(weights);
    FillInputs(net.get());
    net->Forward();
    EXPECT_EQ(net->blob_names(), (std::vector<std::string>{"data", "a", "s", "b"}));
    EXPECT_EQ(net->BlobByName("a")->type(), kFloat);
  }
}

}  // namespace
}  // namespace caffe
