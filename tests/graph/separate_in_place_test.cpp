#include <gtest/gtest.h>

#include <filesystem>

#include "caffe/io/proto_io.hpp"
#include "graph/graph_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

const char* const kTrain = "state { phase: TRAIN } ";
const char* const kData = "layer { name: 'data' type: 'Input' top: 'data' } ";

std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string InPlace(const std::string& name, const std::string& type, const std::string& blob,
                    const std::string& more = "") {
  return Layer(name, type, blob, blob, more);
}

std::string Before(const std::string& text) { return Wiring(AssignTypes(ParseNet(text))); }
std::string After(const std::string& text) {
  return Wiring(SeparateInPlace(AssignTypes(ParseNet(text))));
}

const std::string kConv = Layer("conv", "Convolution", "data", "conv");

TEST(SeparateInPlaceTest, UsualChainsStayInPlace) {
  for (const std::string& chain : {
           kConv + InPlace("relu", "ReLU", "conv"),
           kConv + InPlace("relu", "ReLU", "conv") + InPlace("drop", "Dropout", "conv"),
           kConv + InPlace("bias", "Bias", "conv") + InPlace("relu", "ReLU", "conv"),
           kConv + Layer("other", "Convolution", "data", "other") +
               "layer { name: 'sum' type: 'Eltwise' bottom: 'conv' bottom: 'other' top: 'sum' } " +
               InPlace("relu", "ReLU", "sum"),
           kConv + Layer("pool", "Pooling", "conv", "pool") + InPlace("relu", "ReLU", "pool"),
       }) {
    const std::string net = kTrain + (kData + chain);
    EXPECT_EQ(After(net), Before(net));
  }
}

// A layer that would keep a copy of its bottom for its backward pass gets a top of its own.
TEST(SeparateInPlaceTest, NothingIsCopiedForABackwardPass) {
  const std::string batch_norm = InPlace("bn", "BatchNorm", "conv"),
                    scale = InPlace("scale", "Scale", "conv"),
                    relu = InPlace("relu", "ReLU", "conv");
  const std::string net = kData + kConv + batch_norm + scale + relu;
  const char* const apart =
      "data (Input) -> data\n"
      "conv (Convolution) data -> conv@conv\n"
      "bn (BatchNorm) conv@conv -> conv@bn\n"
      "scale (Scale) conv@bn -> conv\n"
      "relu (ReLU) conv -> conv\n";
  EXPECT_EQ(After(kTrain + net), apart);
  EXPECT_EQ(After("force_backward: true " + net), apart);
  EXPECT_EQ(After(net), Before(net)) << "phase TEST keeps nothing for gradients";
  EXPECT_TRUE(FindInPlaceConflicts(AssignTypes(ParseNet(kTrain + net)), true).empty());
  EXPECT_TRUE(Holds(After(kTrain + (kData + kConv) + InPlace("prelu", "PReLU", "conv") +
                          InPlace("slope", "ReLU", "conv", "relu_param { negative_slope: -1 }")),
                    "prelu (PReLU) conv@conv -> conv@prelu\n"
                    "slope (ReLU) conv@prelu -> conv\n"));
}

// These keep no copy.
TEST(SeparateInPlaceTest, LayersThatReadNoBottomBackwardStayInPlace) {
  const std::string fixed = "param { lr_mult: 0 } param { lr_mult: 0 }";
  for (const std::string& layer :
       {InPlace("bn", "BatchNorm", "conv", "batch_norm_param { use_global_stats: true }"),
        InPlace("bn", "BN", "conv", "bn_param { frozen: true }"),
        InPlace("scale", "Scale", "conv", fixed), InPlace("bias", "Bias", "conv"),
        InPlace("relu", "ReLU", "conv", "relu_param { negative_slope: 0.1 }")}) {
    EXPECT_EQ(After(kTrain + (kData + kConv) + layer), Before(kTrain + (kData + kConv) + layer));
  }
  // With a ReLU the gate follows from the bottom.
  EXPECT_TRUE(Holds(After(kTrain + (kData + kConv) +
                          InPlace("bn", "BatchNorm", "conv",
                                  "batch_norm_param { use_global_stats: true fused_relu: true }")),
                    "bn (BatchNorm) conv@conv -> conv\n"));
  // Values that the caller writes under the name of an input are not overwritten.
  const std::string input = kTrain + std::string(kData) + InPlace("bn", "BatchNorm", "data");
  EXPECT_EQ(After(input), "data (Input) -> data@data\nbn (BatchNorm) data@data -> data\n");
}

// The models here have no conflict, in both phases: no layer reads what another one overwrites.
TEST(SeparateInPlaceTest, ModelsStayInPlace) {
  int models = 0;
  const std::filesystem::path root(CAFFE_SOURCE_DIR);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "models")) {
    if (entry.path().extension() != ".prototxt") continue;
    for (const Phase phase : {TRAIN, TEST}) {
      NetParameter net;
      try {
        net = ReadNetParameter(entry.path().string());
      } catch (const Error&) {
        continue;  // a solver
      }
      net.mutable_state()->set_phase(phase);
      const TypedNet typed = AssignTypes(FilterNet(net));
      for (const InPlaceConflict& conflict : FindInPlaceConflicts(typed, true)) {
        ADD_FAILURE() << entry.path() << ": " << typed.layers[conflict.layer].layer.name() << ": "
                      << conflict.reason;
      }
      ++models;
    }
  }
  EXPECT_GE(models, 6);
}

TEST(SeparateInPlaceTest, SignsThatADropoutKeepsAreEnoughForAReLU) {
  const std::string net = kTrain + (kData + kConv) + InPlace("relu", "ReLU", "conv") +
                          InPlace("drop", "Dropout", "conv");
  // Layers after the dropout change them.
  EXPECT_TRUE(Holds(After(net + InPlace("power", "Power", "conv")),
                    "conv (Convolution) data -> conv@drop\n"
                    "relu (ReLU) conv@drop -> conv@drop\n"
                    "drop (Dropout) conv@drop -> conv@drop\n"
                    "power (Power) conv@drop -> conv\n"));
  // An ELU reads the values.
  EXPECT_TRUE(Holds(After(kTrain + (kData + kConv) + InPlace("elu", "ELU", "conv") +
                          InPlace("drop", "Dropout", "conv")),
                    "drop (Dropout) conv@elu -> conv\n"));
}

TEST(SeparateInPlaceTest, WhatABackwardPassReadsIsKept) {
  const std::string net = kData + kConv + InPlace("relu", "ReLU", "conv") +
                          InPlace("bn", "BatchNorm", "conv") + InPlace("scale", "Scale", "conv");
  const char* const apart =
      "data (Input) -> data\n"
      "conv (Convolution) data -> conv@relu\n"
      "relu (ReLU) conv@relu -> conv@relu\n"
      "bn (BatchNorm) conv@relu -> conv@bn\n"
      "scale (Scale) conv@bn -> conv\n";
  EXPECT_EQ(After(kTrain + net), apart);
  EXPECT_EQ(After("force_backward: true " + net), apart);
  EXPECT_EQ(After(net), Before(net)) << "phase TEST keeps nothing for gradients";
}

TEST(SeparateInPlaceTest, ConflictsNameTheReader) {
  const TypedNet net =
      AssignTypes(ParseNet(kData + kConv + InPlace("relu", "Sigmoid", "conv") +
                           InPlace("drop", "Dropout", "conv") + InPlace("exp", "Exp", "conv")));
  EXPECT_TRUE(FindInPlaceConflicts(net, false).empty());
  const std::vector<InPlaceConflict> conflicts = FindInPlaceConflicts(net, true);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].layer, 3);
  EXPECT_EQ(conflicts[0].top, 0);
  EXPECT_EQ(conflicts[0].reader, 2);
  EXPECT_EQ(conflicts[0].reason, "layer 'relu' reads blob conv in its backward pass");
}

// The parameters decide what Eltwise and ELU read.
TEST(SeparateInPlaceTest, ReadsDependOnParameters) {
  const auto eltwise = [](const std::string& parameter) {
    return kTrain + (kData + kConv + Layer("other", "Convolution", "data", "other") +
                     "layer { name: 'e' type: 'Eltwise' bottom: 'conv' bottom: 'other' top: 'e' " +
                     "eltwise_param { " + parameter + " } } " + InPlace("relu", "ReLU", "e"));
  };
  EXPECT_FALSE(Holds(After(eltwise("operation: SUM")), "@"));
  EXPECT_FALSE(Holds(After(eltwise("operation: MAX")), "@"));
  EXPECT_FALSE(Holds(After(eltwise("operation: PROD")), "@"));
  EXPECT_TRUE(Holds(After(eltwise("operation: PROD stable_prod_grad: false")), "-> e@e"));
}

TEST(SeparateInPlaceTest, TheSecondTopOfALossIsKept) {
  const std::string net =
      kTrain +
      (kData + std::string("layer { name: 'label' type: 'Input' top: 'label' } "
                           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' "
                           "bottom: 'label' top: 'loss' top: 'prob' } ")) +
      InPlace("log", "Log", "prob");
  EXPECT_TRUE(Holds(After(net),
                    "loss (SoftmaxWithLoss) data, label -> loss, prob@loss\n"
                    "log (Log) prob@loss -> prob\n"));
}

// Flatten and others give their bottom another name, not another memory.
TEST(SeparateInPlaceTest, WhatAnotherLayerReadsLaterIsKept) {
  struct Case {
    std::string layer;
    std::string blob;
  };
  for (const Case& c : {Case{Layer("v", "Flatten", "conv", "view"), "view"},
                        Case{Layer("v", "Reshape", "conv", "view"), "view"},
                        Case{Layer("v", "Concat", "conv", "view"), "view"},
                        Case{Layer("v", "Slice", "conv", "view"), "view"},
                        Case{Layer("v", "Split", "conv", "view"), "view"},
                        Case{Layer("v", "Split", "conv", "view' top: 'b"), "view"}}) {
    const std::string net = kData + kConv + c.layer + InPlace("relu", "ReLU", c.blob) +
                            Layer("pool", "Pooling", "conv", "pool");
    const std::string after = After(net);
    EXPECT_TRUE(Holds(after, "-> view@v")) << after;
    EXPECT_TRUE(Holds(after, "relu (ReLU) view@v -> view\n")) << after;
    EXPECT_TRUE(Holds(after, "pool (Pooling) conv -> pool\n")) << after;
  }
}

TEST(SeparateInPlaceTest, AParameterIsKept) {
  EXPECT_EQ(
      After("layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 2 } } "
            "} " +
            Layer("flat", "Flatten", "p", "flat") + InPlace("relu", "ReLU", "flat")),
      "p (Parameter) -> p\n"
      "flat (Flatten) p -> flat@flat\n"
      "relu (ReLU) flat@flat -> flat\n");
  EXPECT_EQ(
      After("layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 2 } } "
            "} " +
            InPlace("relu", "ReLU", "p")),
      "p (Parameter) -> p@p\n"
      "relu (ReLU) p@p -> p\n");
}

TEST(SeparateInPlaceTest, ABlobThatTheUserSeesIsKept) {
  const std::string net =
      kData + kConv + Layer("flat", "Flatten", "conv", "flat") + InPlace("relu", "ReLU", "flat");
  EXPECT_TRUE(Holds(After(net),
                    "flat (Flatten) conv -> flat@flat\n"
                    "relu (ReLU) flat@flat -> flat\n"));
}

TEST(SeparateInPlaceTest, CopiesAreNoViews) {
  for (const std::string& layer :
       {std::string(
            "layer { name: 'v' type: 'Concat' bottom: 'conv' bottom: 'data' top: 'view' } "),
        std::string("layer { name: 'v' type: 'Slice' bottom: 'conv' top: 'view' top: 'b' } "),
        Layer("v", "Pooling", "conv", "view")}) {
    const std::string net = kData + kConv + layer + InPlace("relu", "ReLU", "view") +
                            Layer("pool", "Pooling", "conv", "pool");
    EXPECT_EQ(After(net), Before(net));
  }
}

TEST(SeparateInPlaceTest, OtherReadersGetWhatTheyWouldHaveRead) {
  EXPECT_EQ(After(kData + kConv + Layer("before", "Pooling", "conv", "before") +
                  InPlace("relu", "ReLU", "conv") + Layer("after", "Pooling", "conv", "after")),
            "data (Input) -> data\n"
            "conv (Convolution) data -> conv@conv\n"
            "before (Pooling) conv@conv -> before\n"
            "relu (ReLU) conv@conv -> conv\n"
            "after (Pooling) conv -> after\n");
}

TEST(SeparateInPlaceTest, FloatLayersAmongCodesGetACast) {
  const std::string net = "data_type: CAFFE_INT8_QUANTIZED " + (kData + kConv) +
                          InPlace("bn", "BatchNorm", "conv") + InPlace("scale", "Scale", "conv") +
                          InPlace("relu", "ReLU", "conv") +
                          Layer("next", "Convolution", "conv", "next");
  EXPECT_EQ(Wiring(InsertCasts(SeparateInPlace(AssignTypes(ParseNet(net))))),
            "data (Input) -> data\n"
            "data_as_quant8 (Quantizer) data -> data_as_quant8 float/float/quant8\n"
            "conv (Convolution) data_as_quant8 -> conv@conv quant8\n"
            "conv@conv_as_float (Quantizer) conv@conv -> conv@conv_as_float float/quant8/float\n"
            "bn (BatchNorm) conv@conv_as_float -> conv\n"
            "scale (Scale) conv -> conv\n"
            "relu (ReLU) conv -> conv\n"
            "conv_as_quant8 (Quantizer) conv -> conv_as_quant8 float/float/quant8\n"
            "next (Convolution) conv_as_quant8 -> next quant8\n");
}

TEST(SeparateInPlaceTest, ATopTypeOfItsOwnNeedsABlob) {
  EXPECT_EQ(Wiring(InsertCasts(SeparateInPlace(
                AssignTypes(ParseNet(kData + InPlace("relu", "ReLU", "data",
                                                     "compute_data_type: CAFFE_FLOAT "
                                                     "top_data_type: CAFFE_HALF")))))),
            "data (Input) -> data@data\n"
            "relu (ReLU) data@data -> data float/float/half\n");
}

TEST(SeparateInPlaceTest, NamesStayUnique) {
  const std::string net =
      kTrain + (kData + Layer("conv", "Convolution", "data", "conv@relu") +
                Layer("two", "Convolution", "conv@relu", "conv") + InPlace("relu", "ReLU", "conv") +
                InPlace("exp", "Exp", "conv"));
  EXPECT_TRUE(Holds(After(net),
                    "two (Convolution) conv@relu -> conv@relu_2\n"
                    "relu (ReLU) conv@relu_2 -> conv@relu_2\n"
                    "exp (Exp) conv@relu_2 -> conv\n"));
}

TEST(SeparateInPlaceTest, LayersThatCanNotWorkInPlaceStayForTheirError) {
  const std::string net = kTrain + (kData + InPlace("lrn", "LRN", "data"));
  EXPECT_EQ(After(net), Before(net));
}

}  // namespace
}  // namespace caffe
