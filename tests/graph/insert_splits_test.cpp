#include <gtest/gtest.h>

#include "caffe/graph/passes.hpp"
#include "graph/graph_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Split(const std::string& text) { return Wiring(InsertSplits(TypedOf(text))); }

const char* const kData = "layer { name: 'data' type: 'Input' top: 'data' } ";

TEST(InsertSplitsTest, OneReaderNeedsNone) {
  EXPECT_EQ(Split(std::string(kData) +
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
                  "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
                  "layer { name: 'out' type: 'InnerProduct' bottom: 'ip' top: 'out' }"),
            "data (Input) -> data\n"
            "ip (InnerProduct) data -> ip\n"
            "relu (ReLU) ip -> ip\n"
            "out (InnerProduct) ip -> out\n");
}

TEST(InsertSplitsTest, TwoReadersShareASplitWithBvlcsNames) {
  EXPECT_EQ(Split(std::string(kData) +
                  "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' } "
                  "layer { name: 'b' type: 'InnerProduct' bottom: 'data' top: 'b' } "
                  "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: 'l' }"),
            "data (Input) -> data\n"
            "data_data_0_split (Split) data -> data_data_0_split_0, data_data_0_split_1\n"
            "a (InnerProduct) data_data_0_split_0 -> a\n"
            "b (InnerProduct) data_data_0_split_1 -> b\n"
            "loss (EuclideanLoss) a, b -> l\n");
}

TEST(InsertSplitsTest, OneLayerMayReadABlobTwice) {
  EXPECT_EQ(Split(std::string(kData) +
                  "layer { name: 'l' type: 'EuclideanLoss' bottom: 'data' bottom: 'data' }"),
            "data (Input) -> data\n"
            "data_data_0_split (Split) data -> data_data_0_split_0, data_data_0_split_1\n"
            "l (EuclideanLoss) data_data_0_split_0, data_data_0_split_1 ->\n");
}

TEST(InsertSplitsTest, SecondTopsAreNumbered) {
  EXPECT_EQ(Split("layer { name: 'data' type: 'Input' top: 'data' top: 'label' } "
                  "layer { name: 's1' type: 'Silence' bottom: 'label' } "
                  "layer { name: 's2' type: 'Silence' bottom: 'label' bottom: 'data' }"),
            "data (Input) -> data, label\n"
            "label_data_1_split (Split) label -> label_data_1_split_0, label_data_1_split_1\n"
            "s1 (Silence) label_data_1_split_0 ->\n"
            "s2 (Silence) label_data_1_split_1, data ->\n");
}

// Each version of a blob that is written in place has readers of its own.
TEST(InsertSplitsTest, VersionsOfABlobAreToldApart) {
  EXPECT_EQ(Split(std::string(kData) +
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
                  "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
                  "layer { name: 'a' type: 'InnerProduct' bottom: 'ip' top: 'a' } "
                  "layer { name: 'b' type: 'InnerProduct' bottom: 'ip' top: 'b' }"),
            "data (Input) -> data\n"
            "ip (InnerProduct) data -> ip\n"
            "relu (ReLU) ip -> ip\n"
            "ip_relu_0_split (Split) ip -> ip_relu_0_split_0, ip_relu_0_split_1\n"
            "a (InnerProduct) ip_relu_0_split_0 -> a\n"
            "b (InnerProduct) ip_relu_0_split_1 -> b\n");
}

// The other reader would see the changed values in its backward pass.
TEST(InsertSplitsTest, ABlobThatOthersReadCanNotBeChangedInPlace) {
  const std::string message = MessageOf([] {
    Split(std::string(kData) +
          "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' } "
          "layer { name: 'side' type: 'InnerProduct' bottom: 'ip1' top: 'side' } "
          "layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }");
  });
  for (const char* part : {"relu (ReLU)", "in place on blob ip1", "a top of its own"}) {
    EXPECT_TRUE(Holds(message, part));
  }
}

// The loss is a reader of its own, so that its gradient and those of the other readers add up.
TEST(InsertSplitsTest, ALossThatIsReadIsSplit) {
  for (const char* weight : {"", "loss_weight: 3"}) {
    const TypedNet net = InsertSplits(
        TypedOf(Concat("layer { name: 'data' type: 'Input' top: 'data' top: 'label' } "
                       "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'data' bottom: 'label' "
                       "top: 'loss' ",
                       weight, " } layer { name: 's' type: 'Silence' bottom: 'loss' }")));
    EXPECT_TRUE(Holds(Wiring(net),
                      "loss_loss_0_split (Split) loss -> loss_loss_0_split_0, "
                      "loss_loss_0_split_1\ns (Silence) loss_loss_0_split_1 ->"))
        << Wiring(net);
    const LayerParameter &loss = net.layers[1].layer, &split = net.layers[2].layer;
    ASSERT_EQ(loss.loss_weight_size(), 1);
    EXPECT_EQ(loss.loss_weight(0), 0);  // not twice
    ASSERT_EQ(split.loss_weight_size(), 2);
    EXPECT_EQ(split.loss_weight(0), *weight ? 3 : 1);
    EXPECT_EQ(split.loss_weight(1), 0);
  }
}

TEST(InsertSplitsTest, OtherLossesOfTheLayerStayWhereTheyAre) {
  const TypedNet net =
      InsertSplits(TypedOf("layer { name: 'data' type: 'Input' top: 'a' top: 'b' loss_weight: 2 "
                           "        loss_weight: 4 } "
                           "layer { name: 's' type: 'Silence' bottom: 'b' }"));
  const LayerParameter &data = net.layers[0].layer, &split = net.layers[1].layer;
  ASSERT_EQ(data.loss_weight_size(), 2);
  EXPECT_EQ(data.loss_weight(0), 2);
  EXPECT_EQ(data.loss_weight(1), 0);
  EXPECT_EQ(split.loss_weight(0), 4);
}

TEST(InsertSplitsTest, SplitsCarryPhaseAndType) {
  NetParameter net = ParseNet(std::string(kData) +
                              "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' } "
                              "layer { name: 'b' type: 'ReLU' bottom: 'data' top: 'b' }");
  net.mutable_state()->set_phase(TRAIN);
  net.set_data_type(CAFFE_HALF);
  const TypedLayer split = InsertSplits(AssignTypes(FilterNet(net))).layers[1];
  ASSERT_EQ(split.layer.type(), "Split");
  EXPECT_EQ(split.layer.phase(), TRAIN);
  EXPECT_EQ(split.types, TypeTriple::Equal(kHalf));
  EXPECT_TRUE(split.added);
}

TEST(InsertSplitsTest, SplitsOfLabelsHaveTheirType) {
  const TypedNet net = InsertSplits(
      TypedOf("data_type: CAFFE_HALF layer { name: 'data' type: 'Input' top: 'x' top: 'y' } "
              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' top: 'l' } "
              "layer { name: 'hits' type: 'Accuracy' bottom: 'x' bottom: 'y' top: 'a' }"));
  EXPECT_TRUE(Holds(Wiring(net),
                    "x_data_0_split (Split) x -> x_data_0_split_0, x_data_0_split_1 half\n"
                    "y_data_1_split (Split) y -> y_data_1_split_0, y_data_1_split_1\n"))
      << Wiring(net);
}

TEST(InsertSplitsTest, UnknownBottomsAreNamed) {
  const std::string message = MessageOf([] {
    Split(std::string(kData) +
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'date' top: 'ip' }");
  });
  EXPECT_TRUE(Holds(message, "Unknown bottom blob 'date' (layer 'ip', bottom index 0)"));
  // A blob that only a later layer makes is unknown, too.
  EXPECT_TRUE(Holds(MessageOf([] {
                      Split(
                          "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'y' } "
                          "layer { name: 'b' type: 'Input' top: 'x' }");
                    }),
                    "'x'"));
}

}  // namespace
}  // namespace caffe
