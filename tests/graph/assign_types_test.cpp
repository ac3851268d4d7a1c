#include <gtest/gtest.h>

#include "caffe/device/register_type.hpp"
#include "caffe/graph/passes.hpp"
#include "graph/graph_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Typed(const std::string& text) { return Wiring(AssignTypes(ParseNet(text))); }

const char* const kNet =
    "layer { name: 'data' type: 'Input' top: 'data' } "
    "layer { name: 'label' type: 'Input' top: 'label' } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";

TEST(AssignTypesTest, FloatByDefault) {
  EXPECT_EQ(Typed(kNet),
            "data (Input) -> data\n"
            "label (Input) -> label\n"
            "ip (InnerProduct) data -> ip\n"
            "relu (ReLU) ip -> ip\n"
            "loss (SoftmaxWithLoss) ip, label -> loss\n");
}

TEST(AssignTypesTest, TheNetsTypeIsThatOfItsLayersButNotOfLabels) {
  EXPECT_EQ(Typed(std::string(kNet) + "data_type: CAFFE_HALF"),
            "data (Input) -> data half\n"
            "label (Input) -> label\n"
            "ip (InnerProduct) data -> ip half\n"
            "relu (ReLU) ip -> ip half\n"
            "loss (SoftmaxWithLoss) ip, label -> loss:float half\n");
}

const char* const kPair =
    "data_type: CAFFE_BFLOAT16 layer { name: 'data' type: 'Input' top: 'x' top: 'y' } ";
const char* const kLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' top: 'l' } ";

TEST(AssignTypesTest, EachTopOfASourceHasItsType) {
  const std::string pair = kPair, loss = kLoss;
  const std::string typed =
      "data (Input) -> x, y:float bfloat16\n"
      "loss (SoftmaxWithLoss) x, y -> l:float bfloat16\n";
  EXPECT_EQ(Typed(pair + loss), typed);
  // Others that read a label do not narrow it.
  EXPECT_EQ(Typed(pair +
                  "layer { name: 'quiet' type: 'Silence' bottom: 'y' } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'ip' } " +
                  loss),
            "data (Input) -> x, y:float bfloat16\n"
            "quiet (Silence) y ->\n"
            "ip (InnerProduct) y -> ip bfloat16\n"
            "loss (SoftmaxWithLoss) x, y -> l:float bfloat16\n");
  // All tops are labels: so is the layer.
  EXPECT_EQ(Typed("data_type: CAFFE_HALF layer { name: 'data' type: 'DummyData' top: 'y' } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'x' } " +
                  loss),
            "data (DummyData) -> y\n"
            "ip (InnerProduct) y -> x half\n"
            "loss (SoftmaxWithLoss) x, y -> l:float half\n");
  // A top that no layer reads as a label has the net's type.
  EXPECT_EQ(Typed(pair + "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' }"),
            "data (Input) -> x, y bfloat16\nl (EuclideanLoss) x, y -> bfloat16\n");
}

TEST(AssignTypesTest, LabelsGoThroughLayersWithoutArithmeticAndInPlace) {
  EXPECT_EQ(Typed("data_type: CAFFE_HALF "
                  "layer { name: 'data' type: 'HDF5Data' top: 'x' top: 'a' top: 'b' } "
                  "layer { name: 'cut' type: 'Slice' bottom: 'a' top: 'a1' top: 'a2' } "
                  "layer { name: 'join' type: 'Concat' bottom: 'a2' bottom: 'b' top: 'ab' } "
                  "layer { name: 'split' type: 'Split' bottom: 'ab' top: 'ab1' top: 'ab2' } "
                  "layer { name: 'shape' type: 'Reshape' bottom: 'ab2' top: 'c0' } "
                  "layer { name: 'order' type: 'Permute' bottom: 'c0' top: 'c1' } "
                  "layer { name: 'cut2' type: 'Crop' bottom: 'c1' bottom: 'ab1' top: 'c2' } "
                  "layer { name: 'tile' type: 'Tile' bottom: 'c2' top: 'c3' } "
                  "layer { name: 'mix' type: 'ShuffleChannel' bottom: 'c3' top: 'c' } "
                  "layer { name: 'shift' type: 'Power' bottom: 'c' top: 'c' } "
                  "layer { name: 'flat' type: 'Flatten' bottom: 'c' top: 'y' } "
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' }"),
            "data (HDF5Data) -> x, a:float, b:float half\n"
            "cut (Slice) a -> a1, a2\n"
            "join (Concat) a2, b -> ab\n"
            "split (Split) ab -> ab1, ab2\n"
            "shape (Reshape) ab2 -> c0\n"
            "order (Permute) c0 -> c1\n"
            "cut2 (Crop) c1, ab1 -> c2\n"
            "tile (Tile) c2 -> c3\n"
            "mix (ShuffleChannel) c3 -> c\n"
            "shift (Power) c -> c\n"
            "flat (Flatten) c -> y\n"
            "loss (SoftmaxWithLoss) x, y -> half\n");
  // A blob that a later layer writes under the same name is another blob.
  EXPECT_EQ(Typed("data_type: CAFFE_HALF layer { name: 'data' type: 'Input' top: 'x' top: 'z' } "
                  "layer { name: 'arg' type: 'InnerProduct' bottom: 'z' top: 'y' } "
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' }"),
            "data (Input) -> x, z half\n"
            "arg (InnerProduct) z -> y half\n"
            "loss (SoftmaxWithLoss) x, y -> half\n");
}

TEST(AssignTypesTest, ASourceWritesTheTypeOfItsTops) {
  EXPECT_EQ(Typed("layer { name: 'data' type: 'HDF5Data' top: 'x' compute_data_type: CAFFE_HALF "
                  "top_data_type: CAFFE_FLOAT }"),
            "data (HDF5Data) -> x\n");
}

TEST(AssignTypesTest, ASourcesOwnTypesHoldForItsLabels) {
  for (const char* field : {"top_data_type", "compute_data_type"}) {
    EXPECT_EQ(Typed(Concat("data_type: CAFFE_BFLOAT16 layer { name: 'data' type: 'Input' top: 'x' "
                           "top: 'y' ",
                           field, ": CAFFE_HALF } ", kLoss)),
              "data (Input) -> x, y half\nloss (SoftmaxWithLoss) x, y -> l:float bfloat16\n");
  }
  // So do those of a layer on the way.
  EXPECT_EQ(Typed(std::string(kPair) +
                  "layer { name: 'shape' type: 'Reshape' bottom: 'y' top: 'z' "
                  "        compute_data_type: CAFFE_HALF } "
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'z' }"),
            "data (Input) -> x, y bfloat16\n"
            "shape (Reshape) y -> z half\n"
            "loss (SoftmaxWithLoss) x, z -> bfloat16\n");
}

// A double represents every label exactly, and other readers of the blob need its precision.
TEST(AssignTypesTest, ADoubleStaysOneWhereItIsANumberToo) {
  std::string pair = kPair;
  pair.replace(pair.find("BFLOAT16"), 8, "DOUBLE");
  const std::string target = "layer { name: 'e' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' } ";
  EXPECT_TRUE(Holds(Typed(pair + kLoss), "data (Input) -> x, y:float double\n"));
  EXPECT_TRUE(Holds(Typed(pair + kLoss + target), "data (Input) -> x, y double\n"));
}

TEST(AssignTypesTest, ATypeThatNobodyAddedIsAnErrorOfTheLayer) {
  const std::string message = MessageOf([] {
    Typed(
        "layer { name: 'in' type: 'Input' top: 'x' top_data_type: CAFFE_CUSTOM "
        "        top_data_type_name: 'posit' }");
  });
  EXPECT_TRUE(Holds(message, "in (Input): unknown data type 'posit'"));
}

TEST(AssignTypesTest, ALayersOwnTypesWin) {
  EXPECT_EQ(Typed("data_type: CAFFE_HALF "
                  "layer { name: 'data' type: 'Input' top: 'data' top_data_type: CAFFE_FLOAT } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                  "        compute_data_type: CAFFE_DOUBLE } "
                  "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
                  "layer { name: 'out' type: 'InnerProduct' bottom: 'ip' top: 'out' "
                  "        compute_data_type: CAFFE_FLOAT top_data_type: CAFFE_BFLOAT16 }"),
            "data (Input) -> data\n"
            "ip (InnerProduct) data -> ip double\n"
            "relu (ReLU) ip -> ip double\n"  // in place: follows its blob
            "out (InnerProduct) ip -> out float/float/bfloat16\n");
}

TEST(AssignTypesTest, LayersWithoutArithmeticFollowTheirBottom) {
  EXPECT_EQ(Typed("layer { name: 'data' type: 'Input' top: 'data' top_data_type: CAFFE_DOUBLE } "
                  "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'flat' } "
                  "layer { name: 'cut' type: 'Slice' bottom: 'flat' top: 'a' top: 'b' } "
                  "layer { name: 'join' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'ab' top: 'ip' }"),
            "data (Input) -> data double\n"
            "flat (Flatten) data -> flat double\n"
            "cut (Slice) flat -> a, b double\n"
            "join (Concat) a, b -> ab double\n"
            "ip (InnerProduct) ab -> ip\n");
}

TEST(AssignTypesTest, AQuantizerConverts) {
  EXPECT_EQ(Typed("layer { name: 'data' type: 'Input' top: 'data' } "
                  "layer { name: 'cast' type: 'Quantizer' bottom: 'data' top: 'half' "
                  "        top_data_type: CAFFE_HALF } "
                  "layer { name: 'wide' type: 'Quantizer' bottom: 'half' top: 'wide' "
                  "        top_data_type: CAFFE_DOUBLE }"),
            "data (Input) -> data\n"
            "cast (Quantizer) data -> half float/float/half\n"
            "wide (Quantizer) half -> wide double/half/double\n");
}

// Numbers come in and probabilities go out, in a net of codes, too.
TEST(AssignTypesTest, DataAndLossesStayFloatInAQuantizedNet) {
  EXPECT_EQ(Typed("data_type: CAFFE_INT8_QUANTIZED "
                  "layer { name: 'data' type: 'Input' top: 'data' } "
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
                  "layer { name: 'flat' type: 'Flatten' bottom: 'ip' top: 'flat' } "
                  "layer { name: 'prob' type: 'Softmax' bottom: 'flat' top: 'prob' }"),
            "data (Input) -> data\n"
            "ip (InnerProduct) data -> ip quant8\n"
            "flat (Flatten) ip -> flat quant8\n"
            "prob (Softmax) flat -> prob\n");
}

// Layers compute in double; sources, and layers that only move elements, have the type.
TEST(AssignTypesTest, ATypeMayBeSimulatedInDouble) {
  RegisterType("assign_double", 8, "small_float_value(code, 4, 3, 0)",
               "small_float_code(v, 4, 3, 0)", {.simulate_double = true});
  const TypedNet net = AssignTypes(
      ParseNet("data_type_name: 'assign_double' layer { name: 'data' type: 'Input' top: 'data' } "
               "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
               "layer { name: 'flat' type: 'Flatten' bottom: 'ip' top: 'flat' } "));
  const DataType type = DataTypeByName("assign_double");
  EXPECT_EQ(net.layers[0].types, TypeTriple::Equal(type));
  EXPECT_EQ(net.layers[1].types, (TypeTriple{kDouble, type, type}));
  EXPECT_EQ(net.layers[2].types, TypeTriple::Equal(type));
  EXPECT_EQ(net.layers[1].tops[0], type);
  EXPECT_EQ(Wiring(InsertCasts(net)),
            "data (Input) -> data assign_double\n"
            "data_as_double (Quantizer) data -> data_as_double double/assign_double/double\n"
            "ip (InnerProduct) data_as_double -> ip_in_double double\n"
            "ip_from_ip_in_double (Quantizer) ip_in_double -> ip double/double/assign_double\n"
            "flat (Flatten) ip -> flat assign_double\n");
}

TEST(AssignTypesTest, UnknownLayersAreNamedWithANearOne) {
  const std::string message =
      MessageOf([] { Typed("layer { name: 'ip1' type: 'InerProduct' top: 'x' }"); });
  EXPECT_TRUE(Holds(message, "'InerProduct'"));
  EXPECT_TRUE(Holds(message, "did you mean 'InnerProduct'?"));
}

TEST(AssignTypesTest, PythonLayersNeedPython) {
  const std::string message =
      MessageOf([] { Typed("layer { name: 'mine' type: 'Python' top: 'x' }"); });
  EXPECT_TRUE(Holds(message, "run inside Python only"));
}

}  // namespace
}  // namespace caffe
