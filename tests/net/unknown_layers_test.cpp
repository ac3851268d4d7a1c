// Nets with layers of types that are not here.
#include <gtest/gtest.h>

#include <numeric>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net_file.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string FileError(const TemporaryFolder& folder, const std::string& text, int phase = 1) {
  const std::string path = folder.Put("net.prototxt", text);
  return ErrorOf([&] {
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.phase = phase;
    Net(path, options);
  });
}

TEST(UnknownLayersTest, AreListedWithLines) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      FileError(folder,
                "layer { name: 'data' type: 'Input' top: 'data'\n"
                "  input_param { shape { dim: 2 } } }\n"
                "layer {\n"
                "  name: 'norm' type: 'MVN' bottom: 'data' top: 'norm' }\n"
                "layer { name: 'r' type: 'Relu' bottom: 'norm' top: 'r' }\n"
                "layer { name: 'x' type: 'Xyzzy' bottom: 'r' top: 'x' }\n"),
      folder / "net.prototxt" +
          ": 3 unknown names:\n"
          "  line 3: layer norm (MVN): there is no layer type 'MVN'\n"
          "  line 5: layer r (Relu): there is no layer type 'Relu'; did you mean 'ReLU'?\n"
          "  line 6: layer x (Xyzzy): there is no layer type 'Xyzzy'; `caffe layers` lists all\n" +
          DescribeForeignLayer("MVN"));
}

TEST(UnknownLayersTest, AreListedBesideUnknownFields) {
  const TemporaryFolder folder;
  const std::string error = FileError(folder,
                                      "layer { name: 'norm' type: 'MVN' }\n"
                                      "layer { name: 'own' type: 'Python' }\n"
                                      "layer { name: 'r' type: 'ReLU' relu_param { a: 1 } }\n");
  EXPECT_TRUE(Holds(error,
                    "2 unknown names:\n  line 1: layer norm (MVN): unknown type"
                    "\n  line 3: layer r (ReLU): ReLUParameter has no field \"a\"\n"));
}

// The phase, a level or a stage may leave a layer out; lines stay those of the file.
TEST(UnknownLayersTest, LayersThatAreLeftOutMayBeUnknown) {
  const TemporaryFolder folder;
  const std::string text =
      "layer { name: 'data' type: 'DetectNetTransformation' top: 'data' include { phase: TRAIN } "
      "}\n"
      "layer { name: 'data' type: 'Input' top: 'data' include { phase: TEST }\n"
      "        input_param { shape { dim: 2 } } }\n"
      "layer { name: 'p' type: 'DenseCRF' bottom: 'data' top: 'p' include { stage: 'boxes' } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }\n";
  EXPECT_EQ(FileError(folder, text), "");
  EXPECT_TRUE(Holds(FileError(folder, text, 0), "line 1: layer data (DetectNetTransformation)"));
  EXPECT_TRUE(Holds(FileError(folder, text + "layer { name: 'e' type: 'Unheard' }"),
                    "line 6: layer e (Unheard)"));
}

// So may their fields and values, in a file with several layers on one line, too.
TEST(UnknownLayersTest, LayersThatAreLeftOutMayHaveUnknownFields) {
  const TemporaryFolder folder;
  const std::string text =
      "layer { name: 'data' type: 'DetectNetTransformation' top: 'data'\n"
      "  include { phase: TRAIN }\n"
      "  transform_param { random_resize_param { min_size: 1 } mirror: true }\n"
      "  detectnet_groundtruth_param { stride: 1 } }\n"
      "layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'pool' exclude { phase: TEST }\n"
      "  pooling_param { pool: LP kernel_size: 2 } }\n"
      "layer { name: 'data' type: 'Input' top: 'data' include { phase: TEST }\n"
      "        input_param { shape { dim: 2 } } }  "
      "layer { name: 'b' type: 'Relu6x' include { stage: 'x' } odd_param { a: 1 } }  "
      "layer { name: 'a' type: 'Silence' bottom: 'data' }\n";
  EXPECT_EQ(FileError(folder, text), "");
  EXPECT_EQ(
      FileError(folder, text, 0),
      folder / "net.prototxt" +
          ": 3 unknown names:\n"
          "  line 1: layer data (DetectNetTransformation) with detectnet_groundtruth_param: there "
          "is no layer "
          "type 'DetectNetTransformation'\n"
          "  line 3: layer data (DetectNetTransformation): TransformationParameter has no field "
          "\"random_resize_param\"\n"
          "  line 6: layer pool (Pooling): PoolingParameter.pool has no value LP; it has MAX, "
          "AVE, STOCHASTIC\n" +
          DescribeForeignLayer("DetectNetTransformation") + "\n" +
          DescribeForeignField("caffe.TransformationParameter", "random_resize_param"));
}

TEST(UnknownLayersTest, LayersThatStayMayNotHaveUnknownFields) {
  const TemporaryFolder folder;
  const std::string data =
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 } } }\n";
  const std::string left_out =
      "layer { name: 'x' type: 'Input' include { phase: TRAIN } plugh_param { a: 1 } }\n";
  EXPECT_EQ(FileError(folder, data + left_out), "");
  // Rules that the phase meets, no rules, unknown rules, and names outside layers.
  EXPECT_TRUE(Holds(FileError(folder, data + left_out, 0),
                    "line 2: layer x (Input): LayerParameter has no field \"plugh_param\""));
  EXPECT_TRUE(Holds(FileError(folder, data + left_out + "layer { name: 'r' relu_param { a: 1 } }"),
                    "line 3: layer r: ReLUParameter has no field \"a\""));
  EXPECT_TRUE(Holds(FileError(folder, data + "layer { name: 'y' include { phase: NEVER } }"),
                    "line 2: layer y: NetStateRule.phase has no value NEVER"));
  EXPECT_TRUE(Holds(FileError(folder, data + "layer { include { phase: TRAIN step: 1 } }"),
                    "line 2: a layer: NetStateRule has no field \"step\""));
  EXPECT_TRUE(Holds(FileError(folder, data + left_out + "colour: 1"),
                    "line 3: NetParameter has no field \"colour\""));
}

TEST(UnknownLayersTest, LayersOfTheV1FormatThatAreLeftOut) {
  const TemporaryFolder folder;
  const std::string text =
      "layers { name: 'data' type: ANNOTATED top: 'data' include: { phase: TRAIN }\n"
      "  data_param { source: 'x' shuffle_pool: 3 } annotated_param { a: 1 } }\n"
      "layers { name: 'data' type: DUMMY_DATA top: 'data' include: { phase: TEST }\n"
      "  dummy_data_param { num: 1 channels: 1 height: 1 width: 1 } }\n";
  EXPECT_EQ(FileError(folder, text), "");
  const std::string error = FileError(folder, text, 0);
  for (const char* part :
       {"3 unknown names", "line 1: layer data (ANNOTATED): V1LayerParameter.type has no value",
        "line 2: layer data (ANNOTATED): DataParameter has no field \"shuffle_pool\"",
        "line 2: layer data (ANNOTATED): V1LayerParameter has no field \"annotated_param\""}) {
    EXPECT_TRUE(Holds(error, part)) << error;
  }
}

// A message has no rules beside it: a net in a solver file is checked when it is read.
TEST(UnknownLayersTest, NetsInSolverFiles) {
  SolverParameter solver;
  const std::string net = "layer { name: 'x' type: 'ReLU' include { phase: TRAIN } odd: 1 }";
  EXPECT_TRUE(Holds(
      ErrorOf([&] { ParseTextProto("train_net_param {" + net + "}", "solver.prototxt", &solver); }),
      "layer x (ReLU): LayerParameter has no field \"odd\""));
}

TEST(UnknownLayersTest, InputsOfTheNetMoveTheLayers) {
  const TemporaryFolder folder;
  const std::string text =
      "input: 'data' input_shape { dim: 2 }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }\n"
      "layer { name: 'x' type: 'ReLU' bottom: 'r' top: 'x' include { phase: TRAIN } odd: 1 }\n";
  EXPECT_EQ(FileError(folder, text), "");
  EXPECT_TRUE(Holds(FileError(folder, text, 0), "line 3: layer x (ReLU): LayerParameter has no"));
}

// Programs that run phase TEST alone drop such layers.
TEST(UnknownLayersTest, NetsOfPhaseTest) {
  const TemporaryFolder folder;
  const std::string text =
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 } } }\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' include { phase: TRAIN } odd: 1 }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'data' top: 'b' include { phase: TRAIN } }\n";
  const NetParameter net = ReadTestNetFile(folder.Put("net.prototxt", text));
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(1).name(), "b");
  const std::string path = folder.Put("test.prototxt", text + "layer { name: 'c' odd: 1 }");
  EXPECT_TRUE(
      Holds(ErrorOf([&] { ReadTestNetFile(path); }), "line 4: layer c: LayerParameter has"));
}

// Inputs become a layer, and layers of the first format are upgraded: both keep lines right.
TEST(UnknownLayersTest, LinesOfUpgradedNets) {
  const TemporaryFolder folder;
  EXPECT_TRUE(Holds(FileError(folder,
                              "input: 'data' input_shape { dim: 2 }\n"
                              "layer { name: 'm' type: 'MVN' bottom: 'data' top: 'm' }\n"),
                    "line 2: layer m (MVN)"));
  EXPECT_TRUE(Holds(FileError(folder,
                              "input: 'data' input_dim: 1 input_dim: 1 input_dim: 1\n"
                              "input_dim: 1\n"
                              "layers { name: 'r' type: RELU bottom: 'data' top: 'r' }\n"
                              "layers { name: 'm' type: MVN bottom: 'r' top: 'm' }\n"),
                    "line 4: layer m (MVN)"));
}

// The fork's MergeCrop takes the centre of bottom 1, and sends it no gradient by default.
TEST(UnknownLayersTest, TheAdviceForMergeCropIsRight) {
  const std::string advice = DescribeForeignLayer("MergeCrop");
  for (const char* part : {"then bottom 0; axis: 2", "offset: half of the difference",
                           "propagate_down: false twice", "Concat (operation STACK)"}) {
    EXPECT_TRUE(Holds(advice, part));
  }
  const auto convolution = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "' convolution_param { num_output: 1 kernel_size: 1 weight_filler { type: " +
           "'constant' value: 1 } } } ";
  };
  for (const std::string& propagate : {"", "propagate_down: false propagate_down: false"}) {
    const auto net = MakeNet(
        InputText("x", {1, 1, 2, 2}) + InputText("y", {1, 1, 6, 8}) + convolution("a", "x") +
            convolution("b", "y") +
            "layer { name: 'crop' type: 'Crop' bottom: 'b' bottom: 'a' top: 'crop' " + propagate +
            " crop_param { axis: 2 offset: 2 offset: 3 } } "
            "layer { name: 'merged' type: 'Concat' bottom: 'a' bottom: 'crop' top: 'merged' "
            "loss_weight: 1 } ",
        Runtime::Get().cpu(), 0);
    std::vector<double> numbers(48);
    std::iota(numbers.begin(), numbers.end(), 0);
    net->BlobByName("x")->SetData({1, 1, 1, 1});
    net->BlobByName("y")->SetData(numbers);
    net->Forward();
    EXPECT_EQ(Values(*net, "merged"), std::vector<double>({1, 1, 1, 1, 19, 20, 27, 28}));
    net->Backward();
    EXPECT_EQ(net->LayerByName("a")->blobs()[0]->DiffAsDouble(), std::vector<double>{4});
    EXPECT_EQ(net->LayerByName("b")->blobs()[0]->DiffAsDouble(),
              std::vector<double>{propagate.empty() ? 94.0 : 0.0});
  }
}

// Functions with names like those of other functions.
TEST(UnknownLayersTest, NoOtherFunctionIsProposed) {
  for (const char* type : {"GELU", "gelu", "SELU", "GLU", "CELU", "HSwish", "RReLU", "SReLU"}) {
    const std::string error = MessageOf(
        [&] { MakeNet(Concat("layer { name: 'a' type: '", type, "' }"), Runtime::Get().cpu()); });
    EXPECT_TRUE(Holds(error, "not in Cortado; ")) << error;
    EXPECT_FALSE(Holds(error, "did you mean")) << error;
  }
}

TEST(UnknownLayersTest, MessagesHaveNoLines) {
  const std::string error = MessageOf([] {
    MakeNet("layer { name: 'a' type: 'Embed' } layer { name: 'b' type: 'SPP' }",
            Runtime::Get().cpu());
  });
  EXPECT_EQ(error,
            "2 unknown names:\n"
            "  layer a (Embed): there is no layer type 'Embed'\n"
            "  layer b (SPP): there is no layer type 'SPP'\n" +
                DescribeForeignLayer("Embed") + "\n" + DescribeForeignLayer("SPP"));
}

TEST(UnknownLayersTest, PythonLayersNeedPython) {
  const std::string error =
      MessageOf([] { MakeNet("layer { name: 'a' type: 'Python' }", Runtime::Get().cpu()); });
  EXPECT_TRUE(Holds(error,
                    "layer a (Python): there is no layer type 'Python': layers of type "
                    "Python run inside Python only"));
}

}  // namespace
}  // namespace caffe
