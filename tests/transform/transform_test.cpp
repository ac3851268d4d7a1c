#include "caffe/transform/transform.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/weights_file.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// A line for each layer: "conv (Convolution) data -> conv, 2 blobs".
std::string Lines(const NetParameter& model) {
  std::string text;
  for (const LayerParameter& layer : model.layer()) {
    text += layer.name() + " (" + layer.type() + ")";
    for (const std::string& bottom : layer.bottom()) text += " " + bottom;
    text += " ->";
    for (const std::string& top : layer.top()) text += " " + top;
    if (layer.blobs_size() > 0) text += Concat(", ", layer.blobs_size(), " blobs");
    text += "\n";
  }
  return text;
}

std::string Joined(const TransformNotes& notes) {
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

// The net with numbers of a seed as parameters; BatchNorm gets variances from 2 to 6 and a factor.
NetParameter WithWeights(const NetParameter& net, uint64_t seed = 7) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  options.seed = 1701;
  Net made(net, options);
  for (const auto& layer : made.layers()) {
    for (size_t b = 0; b < layer->blobs().size(); ++b) {
      if (layer->type() == "Parameter") continue;
      std::vector<double> values = TestNumbers(layer->blobs()[b]->count(), seed++);
      for (double& value : values) value *= 0.737;  // not exact in narrow types
      if (layer->type() == "BatchNorm" && b == 1) {
        for (double& value : values) value = 4 + 2 * value;
      }
      if (layer->type() == "BatchNorm" && b == 2) values = {2};
      layer->blobs()[b]->SetData(values);
    }
  }
  NetParameter weights;
  made.ToProto(&weights);
  return JoinModel(net, weights);
}

NetParameter Model(const std::string& text) { return WithWeights(ParseNet(text)); }

// Runs one pass, and checks that the outputs agree.
NetParameter RunPass(const std::string& pass, const NetParameter& model, std::string* notes,
                     double tolerance = 2e-6) {
  TransformOptions options;
  options.passes = {pass};
  TransformReport report;
  const NetParameter result = TransformModel(model, options, &report);
  EXPECT_FALSE(report.outputs.empty());
  for (const OutputDifference& output : report.outputs) {
    EXPECT_LE(output.relative, tolerance) << output.blob;
    EXPECT_GT(output.largest, 0) << output.blob;
    EXPECT_EQ(output.same_argmax, output.items) << output.blob;
  }
  EXPECT_EQ(report.passes[0].layers_before, model.layer_size());
  EXPECT_EQ(report.passes[0].layers_after, result.layer_size());
  *notes = Joined(report.passes[0].notes);
  return result;
}

const std::string kData = InputText("data", {2, 4, 5, 5});

std::string Conv(const std::string& name, const std::string& bottom, const std::string& top,
                 const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + top +
         "' convolution_param { num_output: 4 kernel_size: 3 pad: 1 " + more + " } } ";
}
std::string Simple(const std::string& name, const std::string& type, const std::string& bottom,
                   const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

TEST(FoldTest, MapsAfterAConvolutionInPlace) {
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("conv", "data", "conv", "bias_term: false") +
            Simple("bn", "BatchNorm", "conv", "conv") +
            Simple("scale", "Scale", "conv", "conv", "scale_param { bias_term: true }") +
            Simple("bias", "Bias", "conv", "conv") + ReluText("relu", "conv"));
  const NetParameter folded = RunPass("fold", model, &notes);
  EXPECT_EQ(Lines(folded),
            "data (Input) -> data\n"
            "conv (Convolution) data -> conv, 2 blobs\n"
            "relu (ReLU) conv -> conv\n");
  EXPECT_TRUE(folded.layer(1).convolution_param().bias_term());
  EXPECT_EQ(notes, "bn, scale, bias are folded into conv (Convolution)\n");
}

TEST(FoldTest, TheFormulaInDouble) {
  const NetParameter model = Model(InputText("data", {1, 3}) + InnerProductText("ip", "data", 2) +
                                   Simple("scale", "Scale", "ip", "ip"));
  TransformNotes notes;
  const NetParameter folded = FoldChannelMaps(model, &notes);
  const auto& ip = model.layer(1).blobs();
  const auto& scale = model.layer(2).blobs(0);
  for (int c = 0; c < 2; ++c) {
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(folded.layer(1).blobs(0).data(3 * c + k),
                static_cast<float>(double{ip[0].data(3 * c + k)} * scale.data(c)));
    }
    EXPECT_EQ(folded.layer(1).blobs(1).data(c),
              static_cast<float>(double{ip[1].data(c)} * scale.data(c)));
  }
}

TEST(FoldTest, TopsKeepTheirNames) {
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("conv", "data", "conv") + Simple("bn", "BatchNorm", "conv", "bn") +
            Simple("scale", "Scale", "bn", "scaled") + Simple("out", "Sigmoid", "scaled", "out"));
  EXPECT_EQ(Lines(RunPass("fold", model, &notes)),
            "data (Input) -> data\n"
            "conv (Convolution) data -> scaled, 2 blobs\n"
            "out (Sigmoid) scaled -> out\n");
}

TEST(FoldTest, WeightsOfEveryLayout) {
  std::string notes;
  for (const std::string& producer :
       {Conv("w", "data", "w", "group: 2"),
        "layer { name: 'w' type: 'Deconvolution' bottom: 'data' top: 'w' convolution_param { "
        "num_output: 6 kernel_size: 2 stride: 2 group: 2 } } " +
            std::string(),
        std::string("layer { name: 'w' type: 'InnerProduct' bottom: 'data' top: 'w' "
                    "inner_product_param { num_output: 5 transpose: true bias_term: false } } ")}) {
    const NetParameter model = Model(kData + producer + Simple("bn", "BatchNorm", "w", "w") +
                                     Simple("bias", "Bias", "w", "w"));
    const NetParameter folded = RunPass("fold", model, &notes);
    EXPECT_EQ(folded.layer_size(), 2) << producer << notes;
    EXPECT_EQ(folded.layer(1).blobs_size(), 2);
  }
}

TEST(FoldTest, WhatIsNotFolded) {
  std::string notes;
  // Another reader of the blob before the map.
  NetParameter model =
      Model(kData + Conv("conv", "data", "conv") + Simple("bn", "BatchNorm", "conv", "bn") +
            Simple("other", "Sigmoid", "conv", "other"));
  EXPECT_EQ(Lines(RunPass("fold", model, &notes)), Lines(model));
  EXPECT_EQ(notes, "bn (BatchNorm) is not folded: other layers read blob conv of conv, too\n");
  // Shared weights.
  const std::string share = "param { name: 'w' } param { name: 'b' } ";
  const auto shared = [&](std::string text) {
    return text.insert(text.rfind("convolution_"), share);
  };
  model = Model(kData + shared(Conv("a", "data", "a")) + Simple("bn", "BatchNorm", "a", "a") +
                shared(Conv("b", "a", "b")));
  EXPECT_EQ(Lines(RunPass("fold", model, &notes)), Lines(model));
  EXPECT_EQ(notes, "bn (BatchNorm) is not folded: other layers share the parameters of a\n");
  // No weights before the map; a scale of another axis.
  model = Model(kData + Simple("bn", "BatchNorm", "data", "bn") + Conv("conv", "bn", "conv") +
                Simple("scale", "Scale", "conv", "scale", "scale_param { axis: 3 }"));
  EXPECT_EQ(Lines(RunPass("fold", model, &notes)), Lines(model));
  EXPECT_EQ(notes,
            "bn (BatchNorm) is not folded: the layer before it has no weights\n"
            "scale (Scale) is not folded: its channels are not the outputs of conv\n");
  // Statistics of the batch.
  model = Model(
      kData + Conv("conv", "data", "conv") +
      Simple("bn", "BatchNorm", "conv", "bn", "batch_norm_param { use_global_stats: false }"));
  EXPECT_EQ(Lines(RunPass("fold", model, &notes)), Lines(model));
}

const std::string kTrained =
    "force_backward: true "
    "layer { name: 'train' type: 'DummyData' top: 'x' top: 'label' include { phase: TRAIN } "
    "  dummy_data_param { shape { dim: 8 dim: 4 } shape { dim: 8 } } } "
    "layer { name: 'test' type: 'DummyData' top: 'x' top: 'label' include { phase: TEST } "
    "  dummy_data_param { shape { dim: 3 dim: 4 } shape { dim: 3 } "
    "    data_filler { type: 'gaussian' } data_filler { type: 'constant' } } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' param { lr_mult: 2 } "
    "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } "
    "layer { name: 'copy' type: 'Split' bottom: 'ip' top: 'a' top: 'b' } " +
    Simple("relu", "ReLU", "a", "a") + Simple("drop", "Dropout", "a", "dropped") +
    InnerProductText("score", "dropped", 4) +
    "layer { name: 'quiet' type: 'Silence' bottom: 'b' } "
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' bottom: 'label' top: 'accuracy' } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: 'loss' } ";

TEST(StripTest, KeepsWhatInferenceNeeds) {
  std::string notes;
  const NetParameter model = Model(kTrained);
  const NetParameter stripped = RunPass("strip", model, &notes);
  EXPECT_EQ(Lines(stripped),
            "test (Input) -> x\n"
            "ip (InnerProduct) x -> ip, 2 blobs\n"
            "relu (ReLU) ip -> a\n"
            "score (InnerProduct) a -> score, 2 blobs\n");
  EXPECT_EQ(stripped.layer(0).input_param().shape_size(), 1);
  EXPECT_EQ(stripped.layer(0).input_param().shape(0).dim(0), 3);
  EXPECT_FALSE(stripped.has_force_backward());
  for (const LayerParameter& layer : stripped.layer()) {
    EXPECT_EQ(layer.param_size() + layer.include_size(), 0) << layer.name();
    EXPECT_FALSE(layer.inner_product_param().has_weight_filler()) << layer.name();
  }
  EXPECT_TRUE(Holds(notes, "accuracy (Accuracy) is removed: it is not part of inference\n"));
  EXPECT_TRUE(Holds(notes, "test (DummyData) becomes an Input\n"));
  EXPECT_TRUE(Holds(notes, "drop (Dropout) is removed: it computes nothing in phase TEST\n"));
}

TEST(StripTest, NamedOutputsAndGivenShape) {
  TransformNotes notes;
  StripOptions options;
  options.outputs = {"a"};
  options.shape = {7, 4};
  const NetParameter stripped = StripForInference(Model(kTrained), options, &notes);
  EXPECT_EQ(Lines(stripped),
            "test (Input) -> x\n"
            "ip (InnerProduct) x -> ip, 2 blobs\n"
            "relu (ReLU) ip -> a\n");
  EXPECT_EQ(stripped.layer(0).input_param().shape(0).dim(0), 7);
  options.outputs = {"none"};
  EXPECT_TRUE(Holds(MessageOf([&] { StripForInference(Model(kTrained), options, &notes); }),
                    "there is no blob 'none' to keep as an output"));
  options.outputs = {"loss"};
  EXPECT_TRUE(Holds(MessageOf([&] { StripForInference(Model(kTrained), options, &notes); }),
                    "blob 'loss' is a result of loss (SoftmaxWithLoss), which is removed"));
}

TEST(StripTest, ADatabaseThatIsMissingNeedsAShape) {
  const NetParameter net = ParseNet(
      "layer { name: 'data' type: 'Data' top: 'data' data_param { source: '/missing' } } " +
      InnerProductText("ip", "data", 2));
  NetParameter model =
      JoinModel(net, Model(InputText("data", {1, 3}) + InnerProductText("ip", "data", 2)));
  TransformNotes notes;
  EXPECT_TRUE(Holds(MessageOf([&] { StripForInference(model, {}, &notes); }),
                    "data (Data): the shape of its data is not known; give -shape N,C,H,W"));
  StripOptions options;
  options.shape = {1, 3};
  EXPECT_EQ(Lines(StripForInference(model, options, &notes)),
            "data (Input) -> data\nip (InnerProduct) data -> ip, 2 blobs\n");
}

// A layer that is removed out of place may not make a reader see a later version of the blob.
TEST(StripTest, DropoutStaysWhereItsBottomChanges) {
  std::string notes;
  const NetParameter model =
      Model(kData + Conv("conv", "data", "conv") + Simple("drop", "Dropout", "conv", "dropped") +
            ReluText("relu", "conv") + Simple("out", "Sigmoid", "dropped", "out") +
            Simple("also", "Sigmoid", "conv", "also"));
  EXPECT_EQ(RunPass("strip", model, &notes).layer_size(), model.layer_size());
  EXPECT_TRUE(Holds(notes, "drop (Dropout) stays: blob conv changes before out reads its copy"));
}

std::string Power(const std::string& name, const std::string& bottom, const std::string& top,
                  const std::string& parameters) {
  return Simple(name, "Power", bottom, top, "power_param { " + parameters + " }");
}

TEST(ConstantsTest, LayersWithoutInputAreComputedOnce) {
  std::string notes;
  const NetParameter model =
      Model(kData +
            "layer { name: 'three' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 2 "
            "dim: 4 dim: 5 dim: 5 } data_filler { type: 'constant' value: 3 } } } " +
            Power("square", "c", "c", "power: 2 shift: 1") + Simple("sig", "Sigmoid", "c", "s") +
            "layer { name: 'sum' type: 'Eltwise' bottom: 'data' bottom: 'c' top: 'sum' } "
            "layer { name: 'prod' type: 'Eltwise' bottom: 'sum' bottom: 's' top: 'prod' "
            "  eltwise_param { operation: PROD } } ");
  const NetParameter result = RunPass("constants", model, &notes);
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\n"
            "square (Parameter) -> c, 1 blobs\n"
            "sig (Parameter) -> s, 1 blobs\n"
            "sum (Eltwise) data c -> sum\n"
            "prod (Eltwise) sum s -> prod\n");
  EXPECT_EQ(result.layer(1).blobs(0).data(0), 16);
  EXPECT_TRUE(Holds(notes, "three (DummyData) is computed once, in the layers that read it\n"));
}

TEST(ConstantsTest, EveryTopThatIsReadBecomesAParameter) {
  std::string notes;
  const NetParameter model = Model(
      kData +
      "layer { name: 'three' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 2 dim: 12 "
      "dim: 5 dim: 5 } data_filler { type: 'constant' value: 3 } } } "
      "layer { name: 'cut' type: 'Slice' bottom: 'c' top: 'a' top: 'b' top: 'd' } " +
      Power("negative", "d", "e", "scale: -1") +
      "layer { name: 'sum' type: 'Eltwise' bottom: 'data' bottom: 'a' bottom: 'b' bottom: 'e' top: "
      "'sum' } ");
  EXPECT_EQ(Lines(RunPass("constants", model, &notes)),
            "data (Input) -> data\n"
            "cut_a (Parameter) -> a, 1 blobs\n"
            "cut_b (Parameter) -> b, 1 blobs\n"
            "negative (Parameter) -> e, 1 blobs\n"
            "sum (Eltwise) data a b e -> sum\n");
}

TEST(ConstantsTest, RandomDataAndNetsWithoutInputStay) {
  std::string notes;
  const std::string random =
      "layer { name: 'noise' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 2 } "
      "data_filler { type: 'gaussian' } } } " +
      Simple("sig", "Sigmoid", "c", "s");
  const NetParameter model = Model(kData + Simple("out", "Sigmoid", "data", "out") + random);
  TransformNotes list;
  EXPECT_EQ(Lines(FoldConstants(model, &list)), Lines(model));
  const NetParameter alone = Model(
      "layer { name: 'one' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 2 } "
      "data_filler { type: 'constant' value: 1 } } } " +
      Simple("sig", "Sigmoid", "c", "s"));
  list.clear();
  EXPECT_EQ(Lines(FoldConstants(alone, &list)), Lines(alone));
  EXPECT_EQ(Joined(list), "the net has no input, so no layer is computed as a constant\n");
}

TEST(ConstantsTest, PowerChains) {
  std::string notes;
  NetParameter model =
      Model(kData + Power("one", "data", "a", "scale: 2 shift: 1") +
            Power("two", "a", "b", "scale: 0.5 shift: -3") + Power("same", "b", "c", "power: 1") +
            Power("square", "c", "d", "power: 2 scale: 0.25 shift: 4"));
  NetParameter result = RunPass("constants", model, &notes);
  EXPECT_EQ(Lines(result), "data (Input) -> data\nsquare (Power) data -> d\n");
  // 0.25 (0.5 (2 x + 1) - 3) + 4
  EXPECT_EQ(result.layer(1).power_param().scale(), 0.25f);
  EXPECT_EQ(result.layer(1).power_param().shift(), 3.375f);
  EXPECT_EQ(result.layer(1).power_param().power(), 2);
  // Into weights before it; not if the blob between them has another reader.
  model = Model(kData + Conv("conv", "data", "conv") +
                Power("half", "conv", "conv", "scale: 0.5 shift: 0.25") +
                Simple("out", "Sigmoid", "conv", "out"));
  result = RunPass("constants", model, &notes);
  EXPECT_EQ(Lines(result),
            "data (Input) -> data\nconv (Convolution) data -> conv, 2 blobs\n"
            "out (Sigmoid) conv -> out\n");
  model = Model(kData + Power("one", "data", "a", "scale: 2") + Power("two", "a", "b", "shift: 2") +
                Simple("out", "Sigmoid", "a", "out"));
  EXPECT_EQ(Lines(RunPass("constants", model, &notes)), Lines(model));
}

TEST(ConstantsTest, NeighbouringMapsBecomeOneScale) {
  std::string notes;
  const NetParameter model =
      Model(kData + Simple("bn", "BatchNorm", "data", "bn") +
            Simple("scale", "Scale", "bn", "bn", "scale_param { bias_term: true }") +
            Power("half", "bn", "half", "scale: 0.5 shift: 0.25"));
  const NetParameter result = RunPass("constants", model, &notes);
  EXPECT_EQ(Lines(result), "data (Input) -> data\nhalf (Scale) data -> half, 2 blobs\n");
  EXPECT_EQ(notes,
            "bn (BatchNorm) is joined with scale (Scale) into one Scale layer\n"
            "scale (Scale) is joined with half (Power) into one Scale layer\n");
}

std::string Cast(const std::string& name, const std::string& bottom, const std::string& top,
                 const std::string& from, const std::string& to) {
  return Simple(name, "Quantizer", bottom, top,
                "bottom_data_type: CAFFE_" + from + " top_data_type: CAFFE_" + to);
}

// Passes find layers by their indices. The names of ranges count the layers of one name that stay.
TEST(TransformTest, LayersOfOneName) {
  const std::string text = kData + Conv("c", "data", "x", "bias_term: false") +
                           Simple("c", "BatchNorm", "x", "x") + Simple("c", "Scale", "x", "x") +
                           Simple("c", "Sigmoid", "x", "x") + Conv("c", "x", "y") +
                           Simple("c", "ReLU", "y", "y");
  NetParameter model = Model(text);
  const auto add = [&](const std::string& name, double high) {
    QuantizerParameter* entry = model.add_quantizer();
    entry->set_name(name);
    entry->set_observed_min(0);
    entry->set_observed_max(high);
  };
  add("x@c", 1);    // the convolution
  add("x@c#2", 2);  // BatchNorm
  add("x@c#3", 3);  // Scale
  add("x", 4);
  add("y@c#5", 5);
  add("c#5_blobs_0_quant", 6);
  std::string notes;
  const NetParameter folded = RunPass("fold", model, &notes);
  EXPECT_EQ(Lines(folded),
            "data (Input) -> data\n"
            "c (Convolution) data -> x, 2 blobs\n"
            "c (Sigmoid) x -> x\n"
            "c (Convolution) x -> y, 2 blobs\n"
            "c (ReLU) y -> y\n");
  std::map<std::string, double> ranges;
  for (const QuantizerParameter& entry : folded.quantizer()) {
    EXPECT_TRUE(ranges.emplace(entry.name(), entry.observed_max()).second) << entry.name();
  }
  const std::map<std::string, double> wanted{
      {"x@c", 3}, {"x", 4}, {"y@c#3", 5}, {"c#3_blobs_0_quant", 6}};
  EXPECT_EQ(ranges, wanted);
  // Each of the layers has codes and scales of its own.
  model.clear_quantizer();
  const NetParameter coded = RunPass("quantize_weights", model, &notes, 0.05);
  ASSERT_EQ(coded.quantizer_size(), 2);
  EXPECT_EQ(coded.quantizer(1).name(), "c#5_blobs_0_quant");
  NetParameter unique = model;
  for (int i = 0; i < unique.layer_size(); ++i) unique.mutable_layer(i)->set_name(Concat("l", i));
  const NetParameter wanted_codes = RunPass("quantize_weights", unique, &notes, 0.05);
  // As a file that a net loads, and decoded.
  const auto outputs = [](const NetParameter& net, const NetParameter& weights) {
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.phase = TEST;
    Net made(net, options);
    made.CopyTrainedLayersFrom(weights);
    FillInputs(&made);
    made.Forward();
    return Values(made, "y");
  };
  const std::vector<double> values = outputs(unique, wanted_codes);
  EXPECT_EQ(outputs(model, coded), values);
  EXPECT_EQ(outputs(model, JoinModel(model, coded)), values);
}

// The range of the map becomes that of the layer that takes it.
TEST(FoldTest, RangesMoveWithTheMap) {
  NetParameter model =
      Model(kData + Conv("conv", "data", "x") + Simple("bn", "BatchNorm", "x", "x") +
            Simple("sigmoid", "Sigmoid", "x", "x"));
  for (const char* name : {"x@conv", "x@bn", "x"}) {
    QuantizerParameter* entry = model.add_quantizer();
    entry->set_name(name);
    entry->set_observed_max(static_cast<float>(model.quantizer_size()));
  }
  std::string notes;
  const NetParameter folded = RunPass("fold", model, &notes);
  ASSERT_EQ(folded.quantizer_size(), 2);
  EXPECT_EQ(folded.quantizer(0).name(), "x@conv");
  EXPECT_EQ(folded.quantizer(0).observed_max(), 2);
  EXPECT_EQ(folded.quantizer(1).name(), "x");
}

TEST(CastsTest, PairsThatCancel) {
  std::string notes;
  NetParameter model = Model(
      kData + Simple("first", "Sigmoid", "data", "a") + Cast("wide", "a", "b", "FLOAT", "DOUBLE") +
      Cast("back", "b", "c", "DOUBLE", "FLOAT") + Simple("out", "Sigmoid", "c", "out"));
  EXPECT_EQ(Lines(RunPass("casts", model, &notes)),
            "data (Input) -> data\nfirst (Sigmoid) data -> a\nout (Sigmoid) a -> out\n");
  EXPECT_EQ(notes,
            "back (Quantizer) is removed: it only restores the type before wide (Quantizer)\n"
            "wide (Quantizer) is removed: nothing reads it any more\n");
  // Half loses precision.
  model = Model(kData + Simple("first", "Sigmoid", "data", "a") +
                Cast("narrow", "a", "b", "FLOAT", "HALF") +
                Cast("back", "b", "c", "HALF", "FLOAT") + Simple("out", "Sigmoid", "c", "out"));
  EXPECT_EQ(Lines(RunPass("casts", model, &notes)), Lines(model));
  EXPECT_EQ(notes, "back (Quantizer) stays: narrow (Quantizer) before it loses precision\n");
}

TEST(NarrowWeightsTest, RoundedWeightsLoad) {
  const NetParameter model = Model(kData + Conv("conv", "data", "conv"));
  for (const char* type : {"half", "bfloat16"}) {
    TransformOptions options;
    options.passes = {"round"};
    options.type = type;
    TransformReport report;
    const NetParameter result = TransformModel(model, options, &report);
    const BlobProto& weights = result.layer(1).blobs(0);
    EXPECT_EQ(weights.data_size(), 0);
    EXPECT_EQ(weights.packed_data().size(), 2u * 4 * 4 * 9);
    EXPECT_EQ(result.layer(1).blobs(1).data_size(), 4) << "biases stay";
    const double precision = type == std::string("half") ? 0x1p-11 : 0x1p-8;
    EXPECT_GT(report.outputs[0].relative, precision / 100);
    EXPECT_LT(report.outputs[0].relative, precision * 2);
  }
  NetParameter large = model;
  large.mutable_layer(1)->mutable_blobs(0)->set_data(3, 70000);
  TransformNotes notes;
  EXPECT_EQ(RoundWeights(large, kHalf, &notes).layer(1).blobs(0).data_size(), 144);
  EXPECT_EQ(notes[0], "conv (Convolution), parameter 0, stays: values beyond the range of half");
  large.mutable_layer(1)->mutable_blobs(0)->set_data(3, NAN);
  RoundWeights(large, kHalf, &notes);
  EXPECT_EQ(notes[2],
            "conv (Convolution), parameter 0, stays: it has values that are infinite or NaN");
}

TEST(NarrowWeightsTest, CodesAreWithinHalfAStepOfEachChannel) {
  const NetParameter model = Model(kData + Conv("conv", "data", "conv"));
  TransformNotes notes;
  const NetParameter coded = QuantizeWeights(model, kQuant8, &notes);
  EXPECT_EQ(coded.layer(1).blobs(0).packed_data().size(), 144u);
  ASSERT_EQ(coded.quantizer_size(), 1);
  EXPECT_EQ(coded.quantizer(0).channel_scale_size(), 4);
  const NetParameter decoded = JoinModel(model, coded);
  EXPECT_EQ(decoded.quantizer_size(), 0);
  for (int c = 0; c < 4; ++c) {
    double largest = 0, worst = 0;
    for (int i = 36 * c; i < 36 * (c + 1); ++i) {
      const float before = model.layer(1).blobs(0).data(i),
                  after = decoded.layer(1).blobs(0).data(i);
      largest = std::max<double>(largest, std::abs(before));
      worst = std::max<double>(worst, std::abs(before - after));
    }
    EXPECT_GT(worst, 0);
    EXPECT_LE(worst, largest / 127 / 2 * 1.00001) << c;
  }
  // A net loads the codes itself, and int16 is finer.
  double relative[2];
  for (const int i : {0, 1}) {
    TransformOptions options;
    options.passes = {"quantize_weights"};
    options.type = i ? "int16" : "int8";
    TransformReport report;
    TransformModel(model, options, &report);
    relative[i] = report.outputs[0].relative;
  }
  EXPECT_LT(relative[0], 2e-2);
  EXPECT_LT(relative[1], relative[0] / 50);
}

TEST(TransformTest, Errors) {
  TransformOptions options;
  TransformReport report;
  const NetParameter model = Model(kData + Conv("conv", "data", "conv"));
  const auto message = [&](std::vector<std::string> passes, const std::string& type = "") {
    options.passes = std::move(passes);
    options.type = type;
    return MessageOf([&] { TransformModel(model, options, &report); });
  };
  EXPECT_TRUE(Holds(message({"fild"}),
                    "unknown pass 'fild'; did you mean fold? (known: strip fold constants casts "
                    "duplicates strides round round_levels quantize_weights "));
  EXPECT_EQ(message({}), "no pass is named");
  EXPECT_TRUE(Holds(message({"round"}, "int8"), "pass round does not have type 'int8'"));
  EXPECT_TRUE(Holds(message({"fold"}, "half"), "neither is named"));
  EXPECT_TRUE(Holds(message({"round", "quantize_weights"}), "exclude each other"));
  options.strip.outputs = {"conv"};
  EXPECT_TRUE(Holds(message({"fold"}), "outputs are for the pass strip"));
  EXPECT_EQ(message({"all"}), "");
  options = {};
  options.passes = {"fold"};
  options.inputs["none"] = {1};
  EXPECT_TRUE(
      Holds(MessageOf([&] { TransformModel(model, options, &report); }), "has no input 'none'"));
  options.inputs.clear();
  // Weights that do not fit.
  NetParameter other = model;
  other.mutable_layer(1)->clear_blobs();
  EXPECT_TRUE(Holds(MessageOf([&] { TransformModel(other, options, &report); }),
                    "layer 'conv' (Convolution) has 2 parameters, but the weights have 0 for it"));
  other = model;
  other.mutable_layer(1)->mutable_convolution_param()->set_num_output(5);
  EXPECT_TRUE(Holds(MessageOf([&] { TransformModel(other, options, &report); }),
                    "layer 'conv', parameter 0"));
}

TEST(TransformTest, FilesAndGivenInputs) {
  const TemporaryFolder folder;
  const NetParameter model = Model(kData + Conv("conv", "data", "conv"));
  WriteModel(model, folder / "a");
  EXPECT_EQ(folder.count(), 2u);
  const NetParameter read = ReadModel(folder / "a.prototxt", {folder / "a.caffemodel"});
  EXPECT_EQ(read.SerializeAsString(), model.SerializeAsString());
  WriteNetHdf5(folder / "a.h5", model);
  EXPECT_EQ(ReadModel(folder / "a.prototxt", {folder / "a.h5"}).layer(1).blobs(0).data(5),
            model.layer(1).blobs(0).data(5));
  // A file that cannot be written leaves the other one unchanged.
  const std::string before = folder.Get("a.caffemodel");
  std::filesystem::remove(folder / "a.prototxt");
  std::filesystem::create_directory(folder / "a.prototxt");
  NetParameter changed = model;
  changed.mutable_layer(1)->mutable_blobs(0)->set_data(0, 9);
  EXPECT_THROW(WriteModel(changed, folder / "a"), Error);
  EXPECT_EQ(folder.Get("a.caffemodel"), before);

  TransformOptions options;
  options.inputs["data"] = std::vector<float>(2 * 4 * 5 * 5, 0);
  const auto outputs = CompareOutputs(model, changed, options);
  EXPECT_EQ(outputs.at(0).largest_difference, 0) << "the bias alone";
  options.inputs.clear();
  EXPECT_GT(CompareOutputs(model, changed, options).at(0).largest_difference, 0.1);
  // An output that is not finite is reported.
  changed.mutable_layer(1)->mutable_blobs(1)->set_data(0, INFINITY);
  const OutputDifference infinite = CompareOutputs(model, changed, options).at(0);
  EXPECT_EQ(infinite.not_finite, 2 * 5 * 5);
  EXPECT_EQ(infinite.largest_difference, 0) << "the other channels";
  // Nothing is left to compare: no number says that the outputs are equal.
  for (float& bias : *changed.mutable_layer(1)->mutable_blobs(1)->mutable_data()) bias = NAN;
  const OutputDifference nothing = CompareOutputs(changed, changed, options).at(0);
  EXPECT_EQ(nothing.not_finite, nothing.count);
  EXPECT_TRUE(std::isnan(nothing.cosine));
  EXPECT_TRUE(std::isnan(nothing.relative));
  EXPECT_EQ(nothing.same_argmax, 0);
}

struct RealModel {
  const char* name;
  int layers;  // after all passes
};
void PrintTo(const RealModel& model, std::ostream* out) { *out << model.name; }

class RealModelTest : public testing::TestWithParam<RealModel> {};

TEST_P(RealModelTest, AllPassesKeepTheOutputs) {
  NetParameter net =
      ReadNetParameter(Concat(CAFFE_SOURCE_DIR "/models/", GetParam().name, "/deploy.prototxt"));
  net.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  NetOptions settings;
  settings.device = Runtime::Get().cpu();
  settings.phase = TEST;
  settings.seed = 1701;
  NetParameter weights;
  std::vector<double> unfolded;  // of a forward that computes layer by layer
  const auto forward = [](Net* net) {
    net->input_blobs()[0]->SetData(TestNumbers(net->input_blobs()[0]->count(), 3));
    for (int i = 0; i < static_cast<int>(net->layers().size()); ++i) net->Forward(i, i);
    return net->output_blobs()[0]->DataAsDouble();
  };
  {
    Net made(net, settings);
    for (const auto& layer : made.layers()) {
      if (layer->type() != "BatchNorm") continue;
      const int64_t channels = layer->blobs()[0]->count();
      layer->blobs()[0]->SetData(TestNumbers(channels, 5));
      std::vector<double> variance = TestNumbers(channels, 6);
      for (double& value : variance) value = 4 + 2 * value;
      layer->blobs()[1]->SetData(variance);
      layer->blobs()[2]->SetData({2});
    }
    made.ToProto(&weights);
    unfolded = forward(&made);
  }
  TransformOptions options;
  options.passes = {"all"};
  TransformReport report;
  const NetParameter result = TransformModel(JoinModel(net, weights), options, &report);
  EXPECT_EQ(result.layer_size(), GetParam().layers) << Lines(result);
  for (const LayerParameter& layer : result.layer()) {
    EXPECT_NE(layer.type(), "BatchNorm");
    EXPECT_NE(layer.type(), "Scale");
  }
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_EQ(report.outputs[0].blob, "prob");
  EXPECT_LE(report.outputs[0].relative, 1e-5);
  EXPECT_GE(report.outputs[0].cosine, 1 - 1e-9);
  EXPECT_EQ(report.outputs[0].same_argmax, 1);
  // A whole forward folds, too, so that the report alone would not show an error of both.
  Net folded(result, settings);
  folded.CopyTrainedLayersFrom(result);
  const std::vector<double> outputs = forward(&folded);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    largest = std::max(largest, std::abs(unfolded[i]));
    worst = std::max(worst, std::abs(outputs[i] - unfolded[i]));
  }
  EXPECT_LE(worst, 1e-5 * largest);
  EXPECT_GT(worst, 0) << "other roundings";
  RecordProperty("relative", Concat(worst / largest));
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelTest,
                         testing::Values(RealModel{"mobilenet_v1", 58}, RealModel{"resnet50", 123}),
                         [](const auto& info) { return info.param.name; });

// The model with weights that are 0: bytes do not depend on values.
NetParameter ZeroWeights(const std::string& file) {
  NetParameter net = ReadNetParameter(Concat(CAFFE_SOURCE_DIR "/models/", file));
  net.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  NetOptions settings;
  settings.device = Runtime::Get().cpu();
  settings.phase = TEST;
  const Net made(net, settings);
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (const auto& parameter : made.LayerByName(layer.name())->blobs()) {
      BlobProto* blob = layer.add_blobs();
      for (const int64_t extent : parameter->shape()) blob->mutable_shape()->add_dim(extent);
      blob->mutable_data()->Resize(static_cast<int>(parameter->count()), 0);
    }
  }
  return net;
}

// Layers that contain nets: the matrices of all of them are narrow, and biases stay.
TEST(NarrowWeightsTest, NestedLayersAreNarrow) {
  const std::string inner = "layer { name: 'x' type: 'Input' top: 'x' } ",
                    filler = " weight_filler { type: 'uniform' min: -0.5 max: 0.5 } ";
  const auto product = [&](const std::string& name, int outputs) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'x' top: '" + name +
           "' inner_product_param { num_output: " + std::to_string(outputs) + filler + "} } ";
  };
  const std::string input =
      "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 3 dim: 4 dim: 6 } } "
      "} ";
  const std::string mixture =
      input +
      "layer { name: 'flat' type: 'Reshape' bottom: 'data' top: 'flat' reshape_param { shape { "
      "dim: "
      "12 dim: 6 } } } layer { name: 'nested' type: 'MOE' bottom: 'flat' top: 'nested' moe_param { "
      "expert_instances: 2 gating_net { " +
      inner + product("choice", 2) +
      "layer { name: 'gate' type: 'Softmax' bottom: 'choice' top: 'gate' } } expert_net { " +
      inner + product("ip", 5) + "} } } ";
  const auto recurrent = [&](const std::string& type) {
    return input +
           "layer { name: 'cont' type: 'Input' top: 'cont' input_param { shape { dim: 3 dim: 4 } } "
           "} layer { name: 'nested' type: '" +
           type + "' bottom: 'data' bottom: 'cont' top: 'nested' recurrent_param { num_output: 5" +
           filler + "} } ";
  };
  for (const std::string& text : {mixture, recurrent("LSTM"), recurrent("RNN"), recurrent("GRU")}) {
    const NetParameter model = Model(text);
    const LayerParameter& exact = model.layer(2);
    for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
      TransformNotes notes;
      const NetParameter narrow = type.is_quantized() ? QuantizeWeights(model, type, &notes)
                                                      : RoundWeights(model, type, &notes);
      NetOptions options;
      options.device = Runtime::Get().cpu();
      const Net loaded(narrow, options);
      for (int b = 0; b < exact.blobs_size(); ++b) {
        const BlobProto &before = exact.blobs(b), &after = narrow.layer(2).blobs(b);
        const bool matrix = before.shape().dim_size() > 1;
        const auto count = static_cast<size_t>(before.data_size());
        EXPECT_EQ(after.packed_data().size(), matrix ? count * type.bytes() : 0u)
            << exact.type() << " " << type.name() << " " << b;
        const std::vector<double> values = loaded.layers()[2]->blobs()[b]->DataAsDouble();
        double worst = 0;
        for (int i = 0; i < before.data_size(); ++i) {
          worst = std::max(worst, std::abs(before.data(i) - values[i]));
        }
        EXPECT_EQ(worst > 0, matrix);
        EXPECT_LT(worst, 0.5 / 127);
      }
    }
  }
}

// AlexNet, CaffeNet and VGG have more weights per channel, and are too large for a test.
TEST(NarrowWeightsTest, FilesOfModelsAreSmall) {
  for (const char* const file : {"lenet/lenet.prototxt", "cifar10_quick/cifar10_quick.prototxt",
                                 "squeezenet/deploy.prototxt", "googlenet/deploy.prototxt",
                                 "mobilenet_v1/deploy.prototxt", "resnet50/deploy.prototxt"}) {
    TransformNotes notes;
    // MobileNet as it is has a BatchNorm and a Scale for every 9 weights: 0.261 of the bytes.
    const NetParameter model = FoldChannelMaps(ZeroWeights(file), &notes);
    const double whole = static_cast<double>(model.ByteSizeLong());
    for (const DataType type : {kQuant8, kQuant16, kHalf, kBfloat16}) {
      const NetParameter narrow = type.is_quantized() ? QuantizeWeights(model, type, &notes)
                                                      : RoundWeights(model, type, &notes);
      std::string bytes;  // with padding
      {
        google::protobuf::io::StringOutputStream stream(&bytes);
        ASSERT_TRUE(WriteAlignedNet(narrow, &stream));
      }
      EXPECT_LE(static_cast<double>(bytes.size()) / whole, type == kQuant8 ? 0.26 : 0.51)
          << file << " " << type.name();
      NetParameter read;
      ASSERT_TRUE(read.ParseFromString(bytes));
      EXPECT_EQ(read.layer_size(), model.layer_size());
    }
  }
}

TEST(RealWeightsTest, SqueezeNet) {
  const char* data = std::getenv("CAFFE_TEST_DATA");
  const std::string folder = data ? std::string(data) + "/squeezenet/" : "";
  if (!data || !std::filesystem::exists(folder + "deploy.prototxt")) {
    GTEST_SKIP() << "CAFFE_TEST_DATA names no folder with squeezenet/";
  }
  std::string weights;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".caffemodel") weights = entry.path().string();
  }
  const NetParameter model = ReadModel(folder + "deploy.prototxt", {weights});
  TransformOptions options;
  options.passes = {"all"};
  TransformReport report;
  const NetParameter result = TransformModel(model, options, &report);
  EXPECT_EQ(result.layer_size(), model.layer_size() - 1) << "Dropout";
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_LE(report.outputs[0].relative, 1e-5);
  EXPECT_EQ(report.outputs[0].same_argmax, report.outputs[0].items);
  options.passes = {"all", "quantize_weights"};
  TransformModel(model, options, &report);
  EXPECT_LT(report.passes.back().bytes_after, report.passes.back().bytes_before * 0.26);
  EXPECT_GT(report.outputs[0].cosine, 0.99);
}

}  // namespace
}  // namespace caffe
