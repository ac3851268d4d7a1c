// The passes duplicates, strides and round_levels, and passes of users.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "caffe/data/gzip_file.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/transform/pass_registry.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// A line for each layer: "conv (Convolution) data -> conv".
std::string Lines(const NetParameter& model) {
  std::string text;
  for (const LayerParameter& layer : model.layer()) {
    text += layer.name() + " (" + layer.type() + ")";
    for (const std::string& bottom : layer.bottom()) text += " " + bottom;
    text += " ->";
    for (const std::string& top : layer.top()) text += " " + top;
    text += "\n";
  }
  return text;
}

// The net in phase TEST with weights of a seed; those of layers with one name prefix are equal.
NetParameter Model(const NetParameter& net) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  Net made(net, options);
  for (const auto& layer : made.layers()) {
    for (size_t b = 0; b < layer->blobs().size(); ++b) {
      // "conv_a" and "conv_b" begin with the same letter.
      const uint64_t seed = static_cast<unsigned char>(layer->name()[0]) * 16 + b;
      std::vector<double> values = TestNumbers(layer->blobs()[b]->count(), seed);
      for (double& value : values) value *= 0.4;
      if (layer->type() == "BatchNorm" && b > 0) {
        for (double& value : values) value = b == 1 ? 2 + value : 1;
      }
      layer->blobs()[b]->SetData(values);
    }
  }
  NetParameter weights;
  made.ToProto(&weights);
  return JoinModel(net, weights);
}
NetParameter Model(const std::string& text) { return Model(ParseNet(text)); }

// Runs a pass, and checks that the outputs agree, on the CPU and on other devices.
NetParameter RunPass(const std::string& pass, const NetParameter& model, std::string* notes,
                     double tolerance = 2e-6) {
  TransformOptions options;
  options.passes = {pass};
  TransformReport report;
  std::vector<Device*> devices{Runtime::Get().cpu()};
  for (Device* device : Runtime::Get().devices()) devices.push_back(device);
  NetParameter result;
  for (Device* device : devices) {
    options.device = device;
    result = TransformModel(model, options, &report);
    EXPECT_FALSE(report.outputs.empty());
    for (const OutputDifference& output : report.outputs) {
      EXPECT_LE(output.relative, tolerance) << output.blob << " " << device->info().id;
      EXPECT_GT(output.largest, 0) << output.blob;
    }
  }
  notes->clear();
  for (const std::string& note : report.passes[0].notes) *notes += note + "\n";
  return result;
}

const std::string kData = InputText("data", {2, 4, 7, 6});

std::string Conv(const std::string& name, const std::string& bottom, const std::string& more) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: 4 " + more + " } } ";
}
std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}
const std::string kThree = "kernel_size: 3 pad: 1", kPoint = "kernel_size: 1 stride: 2";

std::vector<int> StridesOf(const NetParameter& model) {
  std::vector<int> strides;
  for (const LayerParameter& layer : model.layer()) {
    if (!layer.has_convolution_param()) continue;
    const ConvolutionParameter& p = layer.convolution_param();
    strides.push_back(p.stride_size() ? static_cast<int>(p.stride(0)) : 1);
  }
  return strides;
}

TEST(StridesTest, AStrideMovesThroughElementwiseLayers) {
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("conv", "data", kThree) + Layer("bn", "BatchNorm", "conv", "conv") +
            Layer("scale", "Scale", "conv", "conv", "scale_param { bias_term: true }") +
            ReluText("relu", "conv") + Conv("a", "conv", kPoint) + Conv("b", "conv", kPoint));
  const NetParameter result = RunPass("strides", model, &notes);
  EXPECT_EQ(StridesOf(result), (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(Lines(result), Lines(model));
  EXPECT_EQ(notes, "the stride of a, b moves to conv\n");
}

// Figure 8: the residual branch is picked by a pooling of 1x1, the other one takes the stride, and
// a convolution of 1x1 gives it to the convolution of 3x3 before it.
TEST(StridesTest, ResidualBranchesArePicked) {
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("stem", "data", kThree) + Conv("one", "stem", kThree) +
            ReluText("r", "one") + Conv("two", "one", "kernel_size: 1") +
            "layer { name: 'sum' type: 'Eltwise' bottom: 'stem' bottom: 'two' top: 'sum' } " +
            ReluText("relu", "sum") + Conv("a", "sum", kPoint) + Conv("b", "sum", kPoint));
  const NetParameter result = RunPass("strides", model, &notes);
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\n"
            "stem (Convolution) data -> stem\n"
            "one (Convolution) stem -> one\n"
            "r (ReLU) one -> one\n"
            "two (Convolution) one -> two\n"
            "stem_stride (Pooling) stem -> stem_stride\n"
            "sum (Eltwise) stem_stride two -> sum\n"
            "relu (ReLU) sum -> sum\n"
            "a (Convolution) sum -> a\n"
            "b (Convolution) sum -> b\n");
  EXPECT_EQ(StridesOf(result), (std::vector<int>{1, 2, 1, 1, 1}));
  EXPECT_EQ(notes,
            "the stride of a, b moves to two\n"
            "stem_stride (Pooling) picks what sum reads of stem\n"
            "the stride of two moves to one\n");
}

TEST(StridesTest, StridesOfTwoAxesAndOfConcats) {
  std::string notes;
  const NetParameter model = Model(
      kData + Conv("one", "data", "kernel_size: 3 stride: 2 pad: 1") +
      Conv("two", "data", "kernel_h: 2 kernel_w: 4 pad_h: 1 pad_w: 1 stride_h: 2 stride_w: 2") +
      "layer { name: 'join' type: 'Concat' bottom: 'one' bottom: 'one' top: 'join' } " +
      "layer { name: 'x' type: 'Pooling' bottom: 'two' top: 'x' pooling_param { kernel_size: 1 "
      "stride: 1 } } " +
      Conv("a", "join", "kernel_size: 1 stride_h: 2 stride_w: 1") +
      Conv("b", "x", "kernel_h: 1 kernel_w: 1 stride_h: 1 stride_w: 2"));
  const NetParameter result = RunPass("strides", model, &notes);
  // Both bottoms of the Concat read 'one', so that no layer could take the stride.
  EXPECT_EQ(result.layer(1).convolution_param().stride(0), 2u);
  EXPECT_EQ(result.layer(1).convolution_param().stride_size(), 1);
  const auto& two = result.layer(2).convolution_param();
  EXPECT_EQ(two.stride_size(), 0) << "a pooling between them is no element-wise layer";
  EXPECT_EQ(notes, "no blob is read with a stride alone\n");
  const NetParameter other =
      Model(kData + Conv("one", "data", "kernel_size: 3 pad: 1") + Conv("two", "data", kThree) +
            "layer { name: 'join' type: 'Concat' bottom: 'one' bottom: 'two' top: 'join' } " +
            Conv("a", "join", "kernel_size: 1 stride_h: 2 stride_w: 3"));
  const NetParameter moved = RunPass("strides", other, &notes);
  for (const int i : {1, 2}) {
    EXPECT_EQ(moved.layer(i).convolution_param().stride(0), 2u);
    EXPECT_EQ(moved.layer(i).convolution_param().stride(1), 3u);
  }
}

TEST(StridesTest, WhatStays) {
  std::string notes;
  for (const std::string& text :
       {// Another reader needs all elements.
        Conv("conv", "data", kThree) + Conv("a", "conv", kPoint) + Conv("b", "conv", kThree),
        // The strides differ.
        Conv("conv", "data", kThree) + Conv("a", "conv", kPoint) +
            Conv("b", "conv", "kernel_size: 1 stride: 3"),
        // A kernel of 3x3 reads the other elements, too.
        Conv("conv", "data", kThree) + Conv("a", "conv", "kernel_size: 3 stride: 2"),
        // With padding the first element is not one of the blob.
        Conv("conv", "data", kThree) + Conv("a", "conv", "kernel_size: 1 stride: 2 pad: 1"),
        // Nothing before it can take the stride.
        Conv("a", "data", kPoint),
        Layer("pool", "Pooling", "data", "pool", "pooling_param { kernel_size: 3 }") +
            Conv("a", "pool", kPoint),
        // A transposed convolution makes a larger blob with a stride.
        Layer("up", "Deconvolution", "data", "up",
              "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }") +
            Conv("a", "up", kPoint),
        Conv("conv", "data", kThree) + Layer("up", "Deconvolution", "conv", "up",
                                             "convolution_param { num_output: 4 kernel_size: 1 "
                                             "stride: 2 }")}) {
    const NetParameter model = Model(kData + text);
    EXPECT_EQ(RunPass("strides", model, &notes).SerializeAsString(), model.SerializeAsString());
    EXPECT_EQ(notes, "no blob is read with a stride alone\n") << text;
  }
}

NetParameter Deploy(const std::string& name) {
  NetParameter net =
      ReadNetParameter(Concat(CAFFE_SOURCE_DIR "/models/", name, "/deploy.prototxt"));
  net.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  return net;
}

TEST(StridesTest, ResNet50) {
  NetParameter net = Deploy("resnet50");
  NetOptions settings;
  settings.device = Runtime::Get().cpu();
  settings.phase = TEST;
  settings.seed = 1701;
  NetParameter weights;
  {
    Net made(net, settings);
    for (const auto& layer : made.layers()) {
      if (layer->type() == "BatchNorm") layer->blobs()[2]->SetData({1});
      if (layer->type() == "BatchNorm") {
        layer->blobs()[1]->SetData(std::vector<double>(layer->blobs()[1]->count(), 1.5));
      }
    }
    made.ToProto(&weights);
  }
  TransformOptions options;
  options.passes = {"strides"};
  TransformReport report;
  const NetParameter result = TransformModel(JoinModel(net, weights), options, &report);
  EXPECT_EQ(result.layer_size(), net.layer_size() + 3) << "a pooling for each stage";
  EXPECT_EQ(report.passes[0].notes.size(), 9u);
  EXPECT_EQ(report.passes[0].notes[0],
            "the stride of res3a_branch1, res3a_branch2a moves to res2c_branch2c");
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_LE(report.outputs[0].relative, 1e-5);
  EXPECT_EQ(report.outputs[0].same_argmax, 1);
  std::set<std::string> strided;
  for (const LayerParameter& layer : result.layer()) {
    const auto& stride = layer.convolution_param().stride();
    if (!stride.empty() && stride[0] == 2) strided.insert(layer.name());
  }
  EXPECT_EQ(strided,
            (std::set<std::string>{"conv1", "res2c_branch2b", "res3d_branch2b", "res4f_branch2b"}));
}

TEST(DuplicatesTest, EqualChainsBecomeOne) {
  std::string notes;
  const std::string large = "num_output: 4 " + kThree;
  // conv_a and conv_b have equal weights; their ReLUs work in place.
  const NetParameter model =
      Model(kData + Conv("conv_a", "data", kThree) + ReluText("relu_a", "conv_a") +
            Conv("conv_b", "data", kThree) + ReluText("relu_b", "conv_b") +
            Conv("other", "data", kThree) +
            "layer { name: 'sum' type: 'Eltwise' bottom: 'conv_a' bottom: 'conv_b' bottom: 'other' "
            "top: 'sum' } ");
  const NetParameter result = RunPass("duplicates", model, &notes);
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\n"
            "conv_a (Convolution) data -> conv_a\n"
            "relu_a (ReLU) conv_a -> conv_a\n"
            "other (Convolution) data -> other\n"
            "sum (Eltwise) conv_a conv_a other -> sum\n");
  EXPECT_EQ(notes,
            "conv_b (Convolution) is removed: conv_a computes the same\n"
            "relu_b (ReLU) is removed: relu_a computes the same\n");
  // One bit makes them different.
  NetParameter changed = model;
  float* weight = changed.mutable_layer(3)->mutable_blobs(0)->mutable_data()->mutable_data();
  *weight = std::nextafter(*weight, 9.0f);
  EXPECT_EQ(RunPass("duplicates", changed, &notes).layer_size(), model.layer_size());
  changed = model;
  changed.mutable_layer(4)->mutable_relu_param()->set_negative_slope(0.5);
  const NetParameter half = RunPass("duplicates", changed, &notes);
  EXPECT_EQ(half.layer_size(), model.layer_size());
  EXPECT_TRUE(Holds(notes, "stays: blob conv_a changes before relu_b reads it"));
}

TEST(DuplicatesTest, OutputsAndInputsStay) {
  std::string notes;
  const NetParameter model =
      Model(kData + InputText("also", {2, 4, 7, 6}) + Conv("conv_a", "data", kThree) +
            Conv("conv_b", "data", kThree) + Conv("conv_c", "also", kThree) +
            Layer("drop", "Dropout", "data", "drop") + Layer("drop2", "Dropout", "data", "drop2") +
            "layer { name: 'sum' type: 'Eltwise' bottom: 'drop' bottom: 'drop2' top: 'sum' } ");
  const NetParameter result = RunPass("duplicates", model, &notes);
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\n"
            "also (Input) -> also\n"
            "conv_a (Convolution) data -> conv_a\n"
            "conv_b (Convolution) data -> conv_b\n"
            "conv_c (Convolution) also -> conv_c\n"
            "drop (Dropout) data -> drop\n"
            "sum (Eltwise) drop drop -> sum\n");
  EXPECT_TRUE(Holds(notes,
                    "conv_b (Convolution) computes what conv_a computes, but stays: blob "
                    "conv_b is an output"));
}

TEST(DuplicatesTest, AnOutputIsNotReadInsteadOfItsCopy) {
  std::string notes;
  const NetParameter model = Model(kData + Conv("conv_a", "data", kThree) +
                                   Conv("conv_b", "data", kThree) + Conv("x", "conv_b", kThree));
  EXPECT_EQ(RunPass("duplicates", model, &notes).SerializeAsString(), model.SerializeAsString());
  EXPECT_TRUE(Holds(notes, "stays: blob conv_a is an output"));
}

TEST(DuplicatesTest, EqualParametersAreShared) {
  std::string notes;
  const std::string large =
      "layer { name: '%' type: 'InnerProduct' bottom: '<' top: '%' "
      "inner_product_param { num_output: 64 } } ";
  const auto product = [&](const std::string& name, const std::string& bottom) {
    std::string text = large;
    for (size_t at; (at = text.find('%')) != std::string::npos;) text.replace(at, 1, name);
    return text.replace(text.find('<'), 1, bottom);
  };
  const NetParameter model = Model(InputText("data", {2, 64}) + product("first", "data") +
                                   product("follow", "first") + product("last", "follow"));
  const NetParameter result = RunPass("duplicates", model, &notes);
  EXPECT_EQ(result.layer(1).param(0).name(), "first_blobs_0_shared");
  EXPECT_EQ(result.layer(2).param(0).name(), "first_blobs_0_shared");
  EXPECT_EQ(result.layer(3).param_size(), 0);
  EXPECT_EQ(notes, "follow shares parameter 0 of first: their values are equal\n");
  NetOptions options;
  options.device = Runtime::Get().cpu();
  Net net(result, options);
  EXPECT_EQ(net.layers()[1]->blobs()[0].get(), net.layers()[2]->blobs()[0].get());
  EXPECT_EQ(net.learnable_params().size(), 5u);
}

// A net of random layers over blobs with 4 channels. Layers whose names begin with the same letter
// have equal weights.
std::string RandomNet(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t count) { return random() % count; };
  struct Known {
    std::string name;
    int height, width;
  };
  const int height = 5 + static_cast<int>(below(6)), width = 5 + static_cast<int>(below(6));
  std::vector<Known> blobs{{"data", height, width}};
  std::string text = InputText("data", {1, 4, height, width});
  for (int i = 0; i < 14; ++i) {
    const Known from = below(3) ? blobs.back() : blobs[below(blobs.size())];
    const std::string name = std::string(1, static_cast<char>('a' + below(2))) + std::to_string(i);
    const auto other = std::find_if(blobs.rbegin(), blobs.rend(), [&](const Known& blob) {
      return blob.name != from.name && blob.height == from.height && blob.width == from.width;
    });
    switch (below(8)) {
      case 0:
      case 1:
        text += Conv(name, from.name, kThree);
        blobs.push_back({name, from.height, from.width});
        break;
      case 2:
        text += Conv(name, from.name, "kernel_size: 1");
        blobs.push_back({name, from.height, from.width});
        break;
      case 3:
      case 4:
        text += Conv(name, from.name, kPoint);
        blobs.push_back({name, (from.height + 1) / 2, (from.width + 1) / 2});
        break;
      case 5:
        if (from.name != "data") text += ReluText("relu" + name, from.name);
        break;
      case 6:
        if (other == blobs.rend()) break;
        text += "layer { name: '" + name + "' type: 'Eltwise' bottom: '" + from.name +
                "' bottom: '" + other->name + "' top: '" + name +
                "' eltwise_param { operation: " + (below(2) ? "SUM" : "MAX") + " } } ";
        blobs.push_back({name, from.height, from.width});
        break;
      default:
        if (other == blobs.rend()) break;
        text += "layer { name: 'join" + name + "' type: 'Concat' bottom: '" + from.name +
                "' bottom: '" + other->name + "' top: 'join" + name + "' } " +
                Conv(name, "join" + name, "kernel_size: 1");
        blobs.push_back({name, from.height, from.width});
    }
  }
  return text;
}

TEST(RandomNetsTest, PassesKeepTheOutputs) {
  int moved = 0, merged = 0, picked = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const NetParameter net = ParseNet(RandomNet(seed));
    if (net.layer_size() < 2) continue;
    const NetParameter model = Model(net);
    TransformOptions options;
    options.passes = {"strides", "duplicates", "strides"};
    TransformReport report;
    SCOPED_TRACE(Lines(model));
    ASSERT_NO_THROW(TransformModel(model, options, &report)) << seed;
    for (const OutputDifference& output : report.outputs) {
      EXPECT_LE(output.relative, 1e-5) << output.blob << " of seed " << seed;
    }
    std::map<std::string, bool> unread;
    for (const LayerParameter& layer : model.layer()) {
      for (const std::string& bottom : layer.bottom()) unread[bottom] = false;
      for (const std::string& top : layer.top()) unread[top] = true;
    }
    unread["data"] = false;
    EXPECT_EQ(
        static_cast<int64_t>(report.outputs.size()),
        std::count_if(unread.begin(), unread.end(), [](const auto& one) { return one.second; }))
        << seed;
    for (const PassReport& pass : report.passes) {
      for (const std::string& note : pass.notes) {
        moved += note.find(" moves to ") != std::string::npos;
        picked += note.find(" picks ") != std::string::npos;
        merged += note.find(" is removed: ") != std::string::npos;
      }
    }
  }
  EXPECT_GT(moved, 10);
  EXPECT_GT(picked, 2);
  EXPECT_GT(merged, 2);
}

TEST(RoundLevelsTest, EachParameterHasFewValues) {
  const NetParameter model = Model(InputText("data", {2, 64}) + InnerProductText("ip", "data", 80));
  TransformNotes notes;
  for (const int levels : {2, 5, 256}) {
    const NetParameter result = RoundToLevels(model, levels, &notes);
    const auto &before = model.layer(1).blobs(0).data(), &after = result.layer(1).blobs(0).data();
    const auto [low, high] = std::minmax_element(before.begin(), before.end());
    std::set<float> values;
    for (int i = 0; i < before.size(); ++i) {
      values.insert(after[i]);
      // Half a step, and the rounding to float. 0 is one of the levels, unless there are two.
      const int steps = levels - (levels > 2 ? 2 : 1);
      EXPECT_LE(std::abs(after[i] - before[i]), (*high - *low) / steps * 0.500001 + 1e-7);
    }
    EXPECT_LE(static_cast<int>(values.size()), levels);
    EXPECT_GE(static_cast<int>(values.size()), levels * 9 / 10);
    EXPECT_EQ(*values.begin(), *low);
    EXPECT_EQ(*values.rbegin(), *high);
    EXPECT_EQ(result.layer(1).blobs(1).SerializeAsString(),
              model.layer(1).blobs(1).SerializeAsString())
        << "the bias is small";
  }
  EXPECT_EQ(notes.back(), "1 parameter has at most 256 different values");
  NetParameter constant = model;
  for (float& value : *constant.mutable_layer(1)->mutable_blobs(0)->mutable_data()) value = 0.1f;
  EXPECT_EQ(RoundToLevels(constant, 256, &notes).layer(1).blobs(0).data(7), 0.1f);
  constant.mutable_layer(1)->mutable_blobs(0)->set_data(3, INFINITY);
  EXPECT_EQ(RoundToLevels(constant, 0, &notes).layer(1).blobs(0).data(7), 0.1f);
  EXPECT_TRUE(Holds(notes[notes.size() - 2], "stays: it has values that are infinite or NaN"));
}

TEST(RoundLevelsTest, ZerosStay) {
  NetParameter model = Model(InputText("data", {2, 64}) + InnerProductText("ip", "data", 80));
  auto* values = model.mutable_layer(1)->mutable_blobs(0)->mutable_data();
  for (int i = 0; i < 4096; ++i) values->Set(i, 0);
  TransformNotes notes;
  const NetParameter result = RoundToLevels(model, 16, &notes);
  const auto& after = result.layer(1).blobs(0).data();
  EXPECT_EQ(std::count(after.begin(), after.begin() + 4096, 0.0f), 4096);
  EXPECT_LE(std::set<float>(after.begin(), after.end()).size(), 16u);
}

// Weights with the distribution of trained ones: few are large.
TEST(RoundLevelsTest, AFileZips) {
  NetParameter net = Deploy("squeezenet");
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (!layer.has_convolution_param()) continue;
    FillerParameter* filler = layer.mutable_convolution_param()->mutable_weight_filler();
    filler->set_type("gaussian");
    filler->set_std(0.05f);
  }
  NetOptions settings;
  settings.device = Runtime::Get().cpu();
  settings.phase = TEST;
  settings.seed = 1701;
  NetParameter weights;
  Net(net, settings).ToProto(&weights);
  TransformOptions options;
  options.passes = {"round_levels"};
  TransformReport report;
  const NetParameter result = TransformModel(JoinModel(net, weights), options, &report);
  EXPECT_NEAR(report.passes[0].bytes_after, report.passes[0].bytes_before, 1000);
  EXPECT_GT(report.outputs[0].cosine, 0.999);
  for (const PackedSize& packed : report.packed) {
    EXPECT_GT(packed.before, report.passes[0].bytes_before * 0.85) << packed.program;
    // Trained weights have more small ones: see TrainedNetsZipToAThird.
    EXPECT_LT(packed.after, report.passes[0].bytes_after * 0.41) << packed.program;
    RecordProperty(packed.program, Concat(packed.before, " ", packed.after));
  }
}

TEST(RoundLevelsTest, SizesAreThoseOfThePrograms) {
  std::string bytes;
  for (int i = 0; i < 3000000; ++i) bytes += static_cast<char>(i * i >> 3);
  const auto size = GzipSize(bytes);
  if (!size) GTEST_SKIP() << "built without zlib";
  const TemporaryFolder folder;
  folder.Put("bytes", bytes);
  ASSERT_EQ(
      0, std::system(("gzip -c -n < " + (folder / "bytes") + " > " + (folder / "b.gz")).c_str()));
  const auto expected = static_cast<int64_t>(std::filesystem::file_size(folder / "b.gz"));
  EXPECT_NEAR(static_cast<double>(*size), static_cast<double>(expected), 0.02 * expected);
  EXPECT_EQ(ReadGzipFile(folder / "b.gz"), bytes);
}

TEST(RoundLevelsTest, Errors) {
  const NetParameter model = Model(InputText("data", {2, 64}) + InnerProductText("ip", "data", 8));
  TransformOptions options;
  TransformReport report;
  options.levels = 16;
  options.passes = {"fold"};
  const auto message = [&] { return MessageOf([&] { TransformModel(model, options, &report); }); };
  EXPECT_TRUE(Holds(message(), "levels are for the pass round_levels"));
  options.passes = {"round_levels"};
  EXPECT_EQ(message(), "");
  options.levels = 1;
  EXPECT_TRUE(Holds(message(), "2 levels at least, not 1"));
  options.levels = 0;
  options.passes = {"round", "round_levels"};
  EXPECT_TRUE(Holds(message(), "exclude each other"));
}

TEST(OwnPassesTest, APassRunsByItsName) {
  const NetParameter model = Model(kData + Conv("conv", "data", kThree) + ReluText("r", "conv"));
  RegisterPass("halve", [](NetParameter net, const TransformOptions&, TransformNotes* notes) {
    for (float& value : *net.mutable_layer(1)->mutable_blobs(0)->mutable_data()) value /= 2;
    for (float& value : *net.mutable_layer(1)->mutable_blobs(1)->mutable_data()) value /= 2;
    notes->push_back("conv is halved");
    return net;
  });
  const std::vector<std::string> known = TransformPasses();
  EXPECT_EQ(std::count(known.begin(), known.end(), "halve"), 1);
  TransformOptions options;
  options.passes = {"halve", "fold"};
  TransformReport report;
  TransformModel(model, options, &report);
  EXPECT_EQ(report.passes[0].name, "halve");
  EXPECT_EQ(report.passes[0].notes, TransformNotes{"conv is halved"});
  EXPECT_NEAR(report.outputs[0].relative, 0.5, 1e-6);
  // It may be replaced, and its errors have its name.
  RegisterPass("halve", [](NetParameter, const TransformOptions&, TransformNotes*) -> NetParameter {
    CAFFE_THROW("no");
  });
  EXPECT_EQ(MessageOf([&] { TransformModel(model, options, &report); }), "pass 'halve': no");
  EXPECT_EQ(TransformPasses().size(), known.size());
  const PassFunction same = [](NetParameter net, const TransformOptions&, TransformNotes*) {
    return net;
  };
  EXPECT_TRUE(Holds(MessageOf([&] { RegisterPass("fold", same); }), "give yours another name"));
  for (const char* name : {"", "all", "a,b", "a b"}) {
    EXPECT_TRUE(Holds(MessageOf([&] { RegisterPass(name, same); }), "cannot have the name"));
  }
  EXPECT_TRUE(Holds(MessageOf([] { RegisterPass("none", nullptr); }), "has no function"));
}

TEST(OwnPassesTest, ChainsHaveOneReaderEach) {
  const NetParameter model =
      Model(kData + Conv("conv_a", "data", kThree) + ReluText("r1", "conv_a") +
            Conv("x", "conv_a", kThree) + ReluText("r2", "x") + Conv("y", "x", kThree) +
            Conv("z", "x", kThree) + ReluText("r3", "y"));
  using Chains = std::vector<std::vector<int>>;
  EXPECT_EQ(FindChains(model, {{"Convolution", {}}, {"ReLU", {}}}),
            (Chains{{1, 2}, {3, 4}, {5, 7}}));
  // x is read by y and z after r2.
  EXPECT_EQ(FindChains(model, {{"ReLU", {}}, {"Convolution", {}}}), (Chains{{2, 3}}));
  EXPECT_EQ(
      FindChains(
          model,
          {{"", {}}, {"ReLU", [](const LayerParameter& layer) { return layer.name() == "r2"; }}}),
      (Chains{{3, 4}}));
  EXPECT_TRUE(Holds(MessageOf([&] { FindChains(model, {}); }), "one layer at least"));
}

TEST(OwnPassesTest, ARewriteChangesItsMatches) {
  const NetParameter model = Model(kData + Conv("conv", "data", kThree) +
                                   Layer("p1", "Power", "conv", "p1", "power_param { scale: 1 }") +
                                   Conv("x", "p1", kThree) + Layer("p2", "Power", "x", "p2"));
  RegisterRewrite("copies", {{"Power", {}}},
                  [](NetParameter* net, const std::vector<int>& layers, TransformNotes* notes) {
                    const std::string name = net->layer(layers[0]).name();
                    const std::string why = RemoveCopy(net, layers[0]);
                    notes->push_back(name + (why.empty() ? " is removed" : why));
                  });
  std::string notes;
  const NetParameter result = RunPass("copies", model, &notes, 0);
  EXPECT_EQ(notes, "p1 is removed\np2 is removed\n");
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\nconv (Convolution) data -> conv\nx (Convolution) conv -> p2\n");
  RegisterRewrite(
      "copies", {{"Power", {}}},
      [](NetParameter* net, const std::vector<int>&, TransformNotes*) { net->add_layer(); });
  TransformOptions options;
  options.passes = {"copies"};
  TransformReport report;
  EXPECT_TRUE(Holds(MessageOf([&] { TransformModel(model, options, &report); }),
                    "a rewrite only changes the layers of its match"));
}

// tests/transform/library/own_passes.cpp.
TEST(OwnPassesTest, LibrariesOfPasses) {
  const TemporaryFolder folder;
  EXPECT_TRUE(Holds(MessageOf([&] { LoadPasses(folder / "none.so"); }), "no such file"));
  EXPECT_TRUE(Holds(MessageOf([&] { LoadPasses(folder.Put("text.so", "text")); }),
                    "cannot open the library of passes"));
  EXPECT_TRUE(Holds(MessageOf([&] { LoadPasses(CAFFE_BINARY_DIR "/libcaffe.so"); }),
                    "has no function RegisterCaffePasses"));
  LoadPasses(CAFFE_BINARY_DIR "/tests/libtest_own_passes.so");
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("conv", "data", kThree) + Layer("sigmoid", "Sigmoid", "conv", "sigmoid"));
  const NetParameter result = RunPass("no_sigmoid", model, &notes, 10);
  EXPECT_EQ(notes, "sigmoid is removed\n");
  EXPECT_EQ(result.layer_size(), 2);
}

TEST(RealWeightsTest, TrainedNetsZipToAThird) {
  const char* data = std::getenv("CAFFE_TEST_DATA");
  const std::string folder = data ? std::string(data) + "/nets/" : "";
  if (!data || !std::filesystem::exists(folder)) {
    GTEST_SKIP() << "CAFFE_TEST_DATA names no folder with nets/";
  }
  for (const char* name : {"mtcnn_det3", "slim320"}) {
    const std::string net = folder + name + "/net.";
    TransformOptions options;
    options.passes = {"round_levels"};
    TransformReport report;
    TransformModel(ReadModel(net + "prototxt", {net + "caffemodel"}), options, &report);
    for (const PackedSize& packed : report.packed) {
      if (packed.program != "gzip") continue;
      EXPECT_LT(packed.after, report.passes[0].bytes_before * 0.34) << name;
      EXPECT_GT(packed.before, report.passes[0].bytes_before * 0.9) << name;
    }
    for (const OutputDifference& output : report.outputs) EXPECT_GT(output.cosine, 0.99) << name;
  }
}

TEST(RealWeightsTest, APrunedNetKeepsItsZeros) {
  const char* data = std::getenv("CAFFE_TEST_DATA");
  const std::string folder = data ? std::string(data) + "/squeezenet/" : "";
  if (!data || !std::filesystem::exists(folder + "deploy.prototxt")) {
    GTEST_SKIP() << "CAFFE_TEST_DATA names no folder with squeezenet/";
  }
  std::string weights;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".caffemodel") weights = entry.path().string();
  }
  TransformOptions options;
  options.passes = {"duplicates", "strides", "round_levels"};
  TransformReport report;
  TransformModel(ReadModel(folder + "deploy.prototxt", {weights}), options, &report);
  EXPECT_GT(report.outputs[0].cosine, 0.99);
  EXPECT_GT(report.outputs[0].largest_difference, 0);
  EXPECT_EQ(report.outputs[0].same_argmax, report.outputs[0].items);
}

}  // namespace
}  // namespace caffe
