// Files with half weights and codes, loaded by nets that compute in these types.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/weights_file.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/quant/packed_parameter.hpp"
#include "caffe/transform/transform.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

constexpr int kInputs = 1024, kOutputs = 512;
const char* const kWeighted[] = {"conv", "ip"};

Device* Cpu() { return Runtime::Get().cpu(); }

std::string TypeName(DataType type) {
  return DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto));
}

// Float at both ends.
std::string NetText(DataType type, int outputs = kOutputs, const std::string& behind_conv = "") {
  const std::string name = TypeName(type);
  const std::string t = Concat(" bottom_data_type: ", name, " compute_data_type: ", name,
                               " top_data_type: ", name, " ");
  return InputText("x", {2, 8, 8, 8}) +
         "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'a' " + t +
         "convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'uniform' "
         "min: -0.2 max: 0.2 } bias_filler { type: 'uniform' min: -0.2 max: 0.2 } } } " +
         behind_conv + "layer { name: 'flat' type: 'Flatten' bottom: 'a' top: 'flat' " + t + " } " +
         InnerProductText("ip", "flat", outputs, t) +
         "layer { name: 'out' type: 'TanH' bottom: 'ip' top: 'out' } ";
}

// The float net with ranges of its blobs, its weights stored in `type`.
NetParameter Stored(DataType type, const std::string& text) {
  const auto net = MakeNet(text, Cpu());
  net->set_observe(true);
  FillInputs(net.get());
  net->Forward();
  NetParameter model;
  net->ToProto(&model);
  TransformNotes notes;
  if (type == kFloat) return model;
  return type.is_quantized() ? QuantizeWeights(std::move(model), type, &notes)
                             : RoundWeights(std::move(model), type, &notes);
}
NetParameter Stored(DataType type) { return Stored(type, NetText(kFloat)); }

BlobBase& Weights(const Net& net, const std::string& layer) {
  return *net.LayerByName(layer)->blobs()[0];
}

const BlobProto& WeightsIn(const NetParameter& file, const std::string& layer) {
  for (const LayerParameter& one : file.layer()) {
    if (one.name() == layer) return one.blobs(0);
  }
  CAFFE_THROW("no layer ", layer);
}

const QuantizerParameter* RangeIn(const NetParameter& file, const std::string& layer) {
  for (const QuantizerParameter& one : file.quantizer()) {
    if (one.name() == layer + "_blobs_0_quant") return &one;
  }
  return nullptr;
}

class PackedWeightsTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(const NetParameter& file, const std::string& text) const {
    auto net = MakeNet(text, device_);
    net->CopyTrainedLayersFrom(file);
    FillInputs(net.get());
    return net;
  }
  std::unique_ptr<Net> Make(const NetParameter& file) const { return Make(file, NetText(type_)); }
  static Numbers Output(Net* net) {
    net->Forward();
    return Values(*net, "out");
  }
  // Whether no weights exist in float.
  static void ExpectNoMasters(const Net& net, bool expected = true) {
    for (const char* layer : kWeighted) {
      EXPECT_EQ(Weights(net, layer).data_memory()->stored(), !expected) << layer;
    }
  }

  Device* const device_ = GetParam().device;
  const DataType type_ = GetParam().type;
};

TEST_P(PackedWeightsTest, OperatorsTakeTheStoredElements) {
  const NetParameter file = Stored(type_);
  const auto net = Make(file);
  const Numbers out = Output(net.get());
  ExpectNoMasters(*net);
  for (const char* layer : kWeighted) {
    if (!type_.is_quantized()) continue;
    // The scales are those of the file, bit for bit.
    const QuantizerParameter& range = *RangeIn(file, layer);
    const Numbers scales = net->LayerByName(layer)->Facts().weighted->code_scales();
    ASSERT_EQ(range.channel_scale_size(), static_cast<int>(scales.size()));
    for (size_t c = 0; c < scales.size(); ++c) {
      EXPECT_EQ(range.channel_scale(static_cast<int>(c)), scales[c]);
    }
  }
  // A net of the decoded floats computes the same, or codes that differ by their scales' rounding.
  NetParameter floats = file;
  DecodeParameters(&floats);
  for (LayerParameter& layer : *floats.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      if (!blob.has_packed_data()) continue;
      const auto packed = MakeBlob(kFloat, Cpu(), {1});
      packed->FromProto(blob);
      packed->ToProto(&blob);
    }
  }
  const auto decoded = Make(floats);
  const Numbers expected = Output(decoded.get());
  ExpectNoMasters(*decoded, false);
  const double step = type_.is_quantized() ? net->BlobByName("ip")->range().scale : 0;
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1.01 * step) << i;
  // The float master is computed when it is read, and changes nothing.
  for (const char* layer : kWeighted) {
    EXPECT_EQ(Weights(*net, layer).DataAsDouble(), Weights(*decoded, layer).DataAsDouble());
  }
  ExpectNoMasters(*net, false);
  EXPECT_EQ(Output(net.get()), out);
}

// Bytes per weight, from the difference between two widths, which leaves out everything else.
TEST_P(PackedWeightsTest, TheDeviceHoldsOneDerivedForm) {
  struct Held {
    int64_t host, device, predicted;
  };
  const auto held = [this](int outputs) {
    const NetParameter file = Stored(type_, NetText(kFloat, outputs));
    for (Device* device : {Cpu(), device_}) device->ReleaseCache();
    const int64_t host = Cpu()->bytes_in_use(), before = device_->bytes_in_use();
    const auto net = Make(file, NetText(type_, outputs));
    net->Forward();
    const MemoryNeeds needs = net->memory_needs();
    return Held{Cpu()->bytes_in_use() - host, device_->bytes_in_use() - before - needs.workspace,
                needs.total() - needs.workspace};
  };
  const Held narrow = held(kOutputs), wide = held(5 * kOutputs);
  const double weights = 4.0 * kInputs * kOutputs, slack = 0.1;
  const double bytes = static_cast<double>(type_.bytes());
  const double device = static_cast<double>(wide.device - narrow.device) / weights;
  const double host = static_cast<double>(wide.host - narrow.host) / weights;
  if (device_->host_accessible()) {
    // The elements of the file, and the form that kernels read: packed codes, or widened halves.
    EXPECT_GE(device, bytes);
    EXPECT_LT(device, bytes + (type_.is_quantized() ? bytes : 4) + slack);
  } else {
    EXPECT_NEAR(device, bytes, slack);
    EXPECT_NEAR(host, bytes, slack);
  }
  EXPECT_NEAR(device, static_cast<double>(wide.predicted - narrow.predicted) / weights, slack);
}

TEST_P(PackedWeightsTest, LoadingAndSavingKeepsEveryBit) {
  const TemporaryFolder folder;
  const NetParameter file = Stored(type_);
  const std::string path = folder / "w.caffemodel";
  WriteBinaryProto(path, file);
  const auto net = MakeNet(NetText(type_), device_);
  net->CopyTrainedLayersFrom(path);  // large arrays are read from the file
  FillInputs(net.get());
  const auto expect_same = [&](const NetParameter& saved) {
    for (const char* layer : kWeighted) {
      EXPECT_EQ(WeightsIn(saved, layer).SerializeAsString(),
                WeightsIn(file, layer).SerializeAsString())
          << layer;
      int entries = 0;
      for (const QuantizerParameter& one : saved.quantizer()) {
        entries += one.name() == Concat(layer, "_blobs_0_quant");
      }
      EXPECT_EQ(entries, type_.is_quantized() ? 1 : 0);
      if (entries == 0) continue;
      EXPECT_EQ(RangeIn(saved, layer)->SerializeAsString(),
                RangeIn(file, layer)->SerializeAsString());
    }
  };
  NetParameter saved;
  net->ToProto(&saved);
  expect_same(saved);
  ExpectNoMasters(*net);
  const Numbers out = Output(net.get());
  net->ToProto(&saved);
  expect_same(saved);
  // A view counts as written before each forward; nothing was written through it.
  const auto view = Weights(*net, "ip").data_memory()->View();
  EXPECT_EQ(Output(net.get()), out);
  net->ToProto(&saved);
  expect_same(saved);
  // Now a write.
  static_cast<float*>(view.get())[7] = 30;
  EXPECT_NE(Output(net.get()), out);
  net->ToProto(&saved);
  EXPECT_FALSE(WeightsIn(saved, "ip").has_packed_data());
  EXPECT_EQ(WeightsIn(saved, "ip").data(7), 30);
  EXPECT_TRUE(WeightsIn(saved, "conv").has_packed_data());
  // HDF5 holds floats.
  net->SaveHDF5(folder / "w.h5");
  const auto again = Make(file);
  again->CopyTrainedLayersFrom(folder / "w.h5");
  for (const char* layer : kWeighted) {
    EXPECT_EQ(Weights(*again, layer).DataAsDouble(), Weights(*net, layer).DataAsDouble());
  }
  // Gradients have no packed form.
  const auto whole = Make(file);
  whole->ToProto(&saved, true);
  EXPECT_EQ(WeightsIn(saved, "ip").data_size(), kInputs * kOutputs);
  EXPECT_EQ(WeightsIn(saved, "ip").diff_size(), kInputs * kOutputs);
}

TEST_P(PackedWeightsTest, WritesLoadsAndSharesReachTheOperators) {
  const NetParameter file = Stored(type_), floats = Stored(kFloat);
  const auto net = Make(file);
  const Numbers out = Output(net.get());
  Numbers values = Weights(*net, "ip").DataAsDouble();
  for (double& value : values) value *= -0.5;
  Weights(*net, "ip").SetData(values);
  const auto fresh = Make(file);
  Weights(*fresh, "ip").SetData(values);
  EXPECT_EQ(Output(net.get()), Output(fresh.get()));
  EXPECT_NE(Values(*net, "out"), out);
  EXPECT_EQ(Weights(*net, "ip").DataAsDouble(), Weights(*fresh, "ip").DataAsDouble());
  // Loaded again, from both kinds of files; a view sees the new content.
  net->CopyTrainedLayersFrom(file);
  EXPECT_EQ(Output(net.get()), out);
  ExpectNoMasters(*net);
  net->CopyTrainedLayersFrom(floats);
  const auto of_floats = Make(floats);
  EXPECT_EQ(Output(net.get()), Output(of_floats.get()));
  const auto view = Weights(*net, "ip").data_memory()->View();
  net->CopyTrainedLayersFrom(file);
  EXPECT_EQ(static_cast<float>(fresh->LayerByName("ip")->blobs()[0]->DataAsDouble()[3]),
            -0.5F * static_cast<const float*>(view.get())[3]);
  // A net that shares the weights of another one.
  const auto owner = Make(file), other = Make(floats);
  other->ShareTrainedLayersWith(*owner);
  EXPECT_EQ(Output(other.get()), out);
  EXPECT_EQ(Output(owner.get()), out);
  ExpectNoMasters(*owner);
  for (const char* layer : kWeighted) {
    EXPECT_EQ(Weights(*other, layer).data_memory(), Weights(*owner, layer).data_memory());
  }
  Weights(*other, "ip").SetData(values);
  EXPECT_EQ(Output(owner.get()), Output(fresh.get()));
}

// Mapped elements stay in the file: neither the allocator nor net.memory counts them.
TEST_P(PackedWeightsTest, AlignedElementsAreMapped) {
  const TemporaryFolder folder;
  const NetParameter file = Stored(type_);
  {
    std::string bytes;
    google::protobuf::io::StringOutputStream stream(&bytes);
    ASSERT_TRUE(WriteAlignedNet(file, &stream));
    folder.Put("w.caffemodel", bytes);
  }
  const auto load = [&](bool map) {
    auto net = MakeNet(NetText(type_), device_);
    net->CopyTrainedLayersFrom(folder / "w.caffemodel", {.map = map});
    FillInputs(net.get());
    return net;
  };
  const auto read = load(false);
  const Numbers out = Output(read.get());
  const int64_t before = Cpu()->bytes_in_use();
  const auto net = load(true);
  EXPECT_LT(Cpu()->bytes_in_use() - before, 1 << 18);
  EXPECT_EQ(Output(net.get()), out);
  ExpectNoMasters(*net);
  if (device_->host_accessible()) {
    const int64_t elements = int64_t{kInputs} * kOutputs * static_cast<int64_t>(type_.bytes());
    EXPECT_LT(net->memory_needs().parameters, elements / 4);
    EXPECT_GE(read->memory_needs().parameters, elements);
  }
  NetParameter saved;
  net->ToProto(&saved);
  EXPECT_EQ(WeightsIn(saved, "ip").packed_data(), WeightsIn(file, "ip").packed_data());
  // Writing does not reach the file.
  Numbers values = Weights(*net, "ip").DataAsDouble();
  for (double& value : values) value *= -0.5;
  Weights(*net, "ip").SetData(values);
  EXPECT_NE(Output(net.get()), out);
  EXPECT_EQ(Output(load(true).get()), out);
}

// Layers that follow are folded into copies of the weights, which need no float master either.
TEST_P(PackedWeightsTest, FoldedMapsReadTheStoredElements) {
  const std::string scale =
      "layer { name: 'scale' type: 'Scale' bottom: 'a' top: 'a' scale_param { filler { type: "
      "'uniform' min: -1.5 max: 1.5 } bias_term: true } bottom_data_type: $ compute_data_type: $ "
      "top_data_type: $ } ";
  const auto text = [&](DataType type) {
    std::string typed = scale;
    for (size_t at; (at = typed.find('$')) != std::string::npos;) {
      typed.replace(at, 1, TypeName(type));
    }
    return NetText(type, kOutputs, typed);
  };
  const NetParameter file = Stored(type_, text(kFloat));
  const auto net = Make(file, text(type_));
  const Numbers out = Output(net.get());
  const auto& steps = net->plan().steps;
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.nodes.size() == 2;
  })) << "the convolution and the Scale";
  ExpectNoMasters(*net);
  const auto read = Make(file, text(type_));
  for (const char* layer : kWeighted) Weights(*read, layer).host_data();
  EXPECT_EQ(Output(read.get()), out);
  NetParameter saved;
  net->ToProto(&saved);
  EXPECT_EQ(WeightsIn(saved, "conv").packed_data(), WeightsIn(file, "conv").packed_data());
}

TEST_P(PackedWeightsTest, ANetMovesWithItsStoredWeights) {
  const NetParameter file = Stored(type_);
  const auto host = MakeNet(NetText(type_), Cpu());
  host->CopyTrainedLayersFrom(file);
  FillInputs(host.get());
  host->Forward();
  host->SetDevice(device_);
  FillInputs(host.get());
  const auto net = Make(file);
  EXPECT_EQ(Output(host.get()), Output(net.get()));
  ExpectNoMasters(*host);
}

INSTANTIATE_TEST_SUITE_P(All, PackedWeightsTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16, kHalf, kBfloat16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(PackedWeightsTypesTest, EveryTypeLoadsIntoEveryNetAndTheLossIsLogged) {
  const std::vector<DataType> types = {kFloat, kHalf, kBfloat16, kQuant8, kQuant16};
  const std::map<std::pair<DataType, DataType>, std::string> losses = {
      {{kFloat, kHalf}, "rounded to 11 bits"},
      {{kFloat, kBfloat16}, "rounded to 8 bits"},
      {{kFloat, kQuant8}, "quantized to codes of 8 bits"},
      {{kFloat, kQuant16}, "quantized to codes of 16 bits"},
      {{kHalf, kBfloat16}, "rounded to 8 bits"},
      {{kHalf, kQuant8}, "quantized to codes of 8 bits"},
      {{kHalf, kQuant16}, "quantized to codes of 16 bits"},
      {{kBfloat16, kQuant8}, "quantized to codes of 8 bits"},
      {{kBfloat16, kQuant16}, "quantized to codes of 16 bits"},
      {{kQuant8, kFloat}, "the values of codes of 8 bits"},
      {{kQuant8, kHalf}, "the values of codes of 8 bits"},
      {{kQuant8, kBfloat16}, "the values of codes of 8 bits"},
      {{kQuant8, kQuant16}, "quantized again to codes of 16 bits"},
      {{kQuant16, kFloat}, "the values of codes of 16 bits"},
      {{kQuant16, kHalf}, "the values of codes of 16 bits, rounded to 11 bits"},
      {{kQuant16, kBfloat16}, "the values of codes of 16 bits, rounded to 8 bits"},
      {{kQuant16, kQuant8}, "quantized again to codes of 8 bits"},
  };
  const NetParameter floats = Stored(kFloat);
  const auto reference = MakeNet(NetText(kFloat), Cpu());
  reference->CopyTrainedLayersFrom(floats);
  FillInputs(reference.get());
  reference->Forward();
  const Numbers expected = Values(*reference, "out");
  for (const DataType stored : types) {
    const NetParameter file = Stored(stored);
    for (const DataType computed : types) {
      const std::string pair =
          Concat(stored.name(), " in the file, and the net computes in ", computed.name());
      const auto net = MakeNet(NetText(computed), Cpu());
      testing::internal::CaptureStderr();
      net->CopyTrainedLayersFrom(file);
      const std::string log = testing::internal::GetCapturedStderr();
      const auto loss = losses.find({stored, computed});
      const std::string line =
          loss == losses.end() ? "" : "the weights of 2 layers are " + pair + ": " + loss->second;
      EXPECT_EQ(log.find("the weights of") != std::string::npos, !line.empty()) << pair << log;
      EXPECT_TRUE(Holds(log, line)) << pair;
      FillInputs(net.get());
      net->Forward();
      const Numbers out = Values(*net, "out");
      double error = 0;
      for (size_t i = 0; i < out.size(); ++i) error += std::abs(out[i] - expected[i]) / out.size();
      const bool coarse =
          stored == kQuant8 || computed == kQuant8 || stored == kBfloat16 || computed == kBfloat16;
      EXPECT_LT(error, coarse ? 2e-2 : 1e-3) << pair;
    }
  }
}

// Codes around another zero point, as the fork's, cannot be multiplied as they are.
TEST(PackedWeightsTypesTest, AffineCodesAreQuantizedAgain) {
  NetParameter file = Stored(kQuant8);
  for (QuantizerParameter& entry : *file.mutable_quantizer()) {
    if (entry.name() != "ip_blobs_0_quant") continue;
    entry.clear_channel_scale();
    entry.set_observed_min(-1);
    entry.set_observed_max(3);
  }
  const auto net = MakeNet(NetText(kQuant8), Cpu());
  testing::internal::CaptureStderr();
  net->CopyTrainedLayersFrom(file);
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "quantized again to codes of 8 bits"));
  EXPECT_FALSE(Weights(*net, "conv").data_memory()->stored());
  EXPECT_TRUE(Weights(*net, "ip").data_memory()->stored());
  const std::string& codes = WeightsIn(file, "ip").packed_data();
  const Numbers values = Weights(*net, "ip").DataAsDouble();
  for (size_t i = 0; i < 100; ++i) {
    const double expected = (static_cast<uint8_t>(codes[i]) - 64) * (4.0 / 255);
    EXPECT_FLOAT_EQ(static_cast<float>(values[i]), static_cast<float>(expected));
  }
}

// On the CPU floats are used in the file itself; what writes them gets a copy.
TEST(PackedWeightsTypesTest, FloatsAreMapped) {
  const TemporaryFolder folder;
  const NetParameter file = Stored(kFloat);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    ASSERT_TRUE(WriteAlignedNet(file, &stream));
  }
  folder.Put("w.caffemodel", bytes);
  const auto load = [&](int phase) {
    auto net = MakeNet(NetText(kFloat), Cpu(), phase);
    net->CopyTrainedLayersFrom(folder / "w.caffemodel", {.map = true});
    FillInputs(net.get());
    net->Forward();
    return net;
  };
  const auto net = load(TEST);
  EXPECT_TRUE(Weights(*net, "ip").data_memory()->adopted());
  EXPECT_LT(net->memory_needs().parameters, kInputs * kOutputs);
  const Numbers out = Values(*net, "out");
  const auto reference = MakeNet(NetText(kFloat), Cpu());
  reference->CopyTrainedLayersFrom(file);
  FillInputs(reference.get());
  reference->Forward();
  EXPECT_EQ(out, Values(*reference, "out"));
  const auto view = Weights(*net, "ip").data_memory()->View();
  EXPECT_FALSE(Weights(*net, "ip").data_memory()->adopted());
  static_cast<float*>(view.get())[0] += 1;
  net->Forward();
  EXPECT_NE(Values(*net, "out"), out);
  EXPECT_EQ(Values(*load(TEST), "out"), out);
  // Training writes all of them.
  const auto trained = load(TRAIN);
  BlobBase& weights = Weights(*trained, "ip");
  const auto* const mapped = weights.host_data();
  Cpu()->Fill(weights.mutable_device_data(), 0, weights.bytes());
  EXPECT_NE(weights.host_data(), mapped);
  EXPECT_EQ(Values(*load(TEST), "out"), out);
}

// Training needs floats that can be written.
TEST(PackedWeightsTypesTest, ANetInPhaseTrainHasMasters) {
  const NetParameter file = Stored(kHalf);
  const auto net = MakeNet(NetText(kHalf), Cpu(), TRAIN);
  net->CopyTrainedLayersFrom(file);
  EXPECT_TRUE(Weights(*net, "ip").data_memory()->stored());
  EXPECT_EQ(Weights(*net, "ip").data_memory()->form(), nullptr);
}

}  // namespace
}  // namespace caffe
