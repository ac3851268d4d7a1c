#include "caffe/net/plan.hpp"

#include <gtest/gtest.h>

namespace caffe {
namespace {

PlanNode Node(const std::string& type, std::vector<int> bottoms, std::vector<int> tops) {
  PlanNode node;
  node.can_fuse_relu = type == "Convolution";
  node.plain_relu = type == "ReLU";
  node.in_place = bottoms == tops;
  node.bottoms = std::move(bottoms);
  node.tops = std::move(tops);
  return node;
}

TEST(PlanTest, AnInPlaceReluJoinsItsProducer) {
  const Plan plan = Plan::Make({Node("Input", {}, {0}), Node("Convolution", {0}, {1}),
                                Node("ReLU", {1}, {1}), Node("Pooling", {1}, {2})},
                               true);
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[1].nodes, std::vector<int>({1, 2}));
  EXPECT_TRUE(plan.steps[1].fused_relu);
  EXPECT_FALSE(plan.steps[2].fused_relu);
  EXPECT_EQ(plan.Report({"data", "conv1", "relu1", "pool1"}), "conv1 + relu1\n");
}

TEST(PlanTest, EverythingElseIsAStepOfItsOwn) {
  const auto steps = [](const std::vector<PlanNode>& nodes, bool fuse) {
    return Plan::Make(nodes, fuse).steps.size();
  };
  const PlanNode conv = Node("Convolution", {0}, {1}), relu = Node("ReLU", {1}, {1});
  EXPECT_EQ(steps({conv, relu}, true), 1u);
  EXPECT_EQ(steps({conv, relu}, false), 2u);
  EXPECT_EQ(steps({conv, Node("ReLU", {1}, {2})}, true), 2u);     // its bottom stays visible
  EXPECT_EQ(steps({conv, Node("ReLU", {0}, {0})}, true), 2u);     // of another blob
  EXPECT_EQ(steps({Node("Pooling", {0}, {1}), relu}, true), 2u);  // has no epilogue
  EXPECT_EQ(steps({Node("Convolution", {0, 5}, {1, 2}), relu}, true), 2u);  // two tops
  EXPECT_EQ(steps({conv, Node("Silence", {7}, {}), relu}, true), 3u);       // not neighbours
  EXPECT_EQ(steps({conv, relu, relu}, true), 2u);
  EXPECT_EQ(steps({}, true), 0u);
}

}  // namespace
}  // namespace caffe
