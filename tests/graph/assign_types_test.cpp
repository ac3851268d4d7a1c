#include <gtest/gtest.h>

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
            "loss (SoftmaxWithLoss) ip, label -> loss half\n");
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

TEST(AssignTypesTest, UnknownLayersAreNamedWithTheNearestKnown) {
  const std::string message =
      MessageOf([] { Typed("layer { name: 'ip1' type: 'InerProduct' top: 'x' }"); });
  EXPECT_TRUE(Holds(message, "'InerProduct'"));
  EXPECT_TRUE(Holds(message, "'InnerProduct'"));
}

TEST(AssignTypesTest, PythonLayersNeedPython) {
  const std::string message =
      MessageOf([] { Typed("layer { name: 'mine' type: 'Python' top: 'x' }"); });
  EXPECT_TRUE(Holds(message, "run inside Python only"));
}

}  // namespace
}  // namespace caffe
