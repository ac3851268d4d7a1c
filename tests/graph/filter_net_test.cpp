#include <gtest/gtest.h>

#include "caffe/graph/passes.hpp"
#include "graph/graph_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// The names of the layers that `state` admits.
std::string Kept(const std::string& state, const std::string& layers) {
  std::string names;
  const NetParameter net = FilterNet(ParseNet("state { " + state + " } " + layers));
  for (const LayerParameter& layer : net.layer()) {
    names += (names.empty() ? "" : " ") + layer.name();
  }
  return names;
}

TEST(FilterNetTest, Phases) {
  const std::string layers =
      "layer { name: 'both' } "
      "layer { name: 'train' include { phase: TRAIN } } "
      "layer { name: 'test' include { phase: TEST } } "
      "layer { name: 'not_train' exclude { phase: TRAIN } }";
  EXPECT_EQ(Kept("phase: TRAIN", layers), "both train");
  EXPECT_EQ(Kept("phase: TEST", layers), "both test not_train");
  EXPECT_EQ(Kept("", layers), "both test not_train");  // TEST unless given
}

TEST(FilterNetTest, Levels) {
  const std::string layers =
      "layer { name: 'high' include { min_level: 3 } } "
      "layer { name: 'low' include { max_level: 2 } } "
      "layer { name: 'between' include { min_level: 2 max_level: 4 } }";
  EXPECT_EQ(Kept("level: 0", layers), "low");
  EXPECT_EQ(Kept("level: 2", layers), "low between");
  EXPECT_EQ(Kept("level: 3", layers), "high between");
  EXPECT_EQ(Kept("level: 5", layers), "high");
}

TEST(FilterNetTest, Stages) {
  const std::string layers =
      "layer { name: 'a' include { stage: 'a' } } "
      "layer { name: 'a_and_b' include { stage: 'a' stage: 'b' } } "
      "layer { name: 'a_or_b' include { stage: 'a' } include { stage: 'b' } } "
      "layer { name: 'not_a' include { not_stage: 'a' } } "
      "layer { name: 'unless_a_and_b' exclude { stage: 'a' stage: 'b' } }";
  EXPECT_EQ(Kept("", layers), "not_a unless_a_and_b");
  EXPECT_EQ(Kept("stage: 'a'", layers), "a a_or_b unless_a_and_b");
  EXPECT_EQ(Kept("stage: 'b'", layers), "a_or_b not_a unless_a_and_b");
  EXPECT_EQ(Kept("stage: 'a' stage: 'b'", layers), "a a_and_b a_or_b");
}

TEST(FilterNetTest, AnyExcludeRuleRemoves) {
  EXPECT_EQ(Kept("phase: TEST level: 1",
                 "layer { name: 'x' exclude { phase: TRAIN } exclude { min_level: 1 } }"),
            "");
}

TEST(FilterNetTest, BothKindsOfRulesAreAnError) {
  const auto net =
      ParseNet("layer { name: 'x' type: 'ReLU' include { phase: TRAIN } exclude { phase: TEST } }");
  EXPECT_TRUE(Holds(MessageOf([&] { FilterNet(net); }), "x (ReLU)"));
}

TEST(FilterNetTest, LayersGetThePhaseOfTheNet) {
  const NetParameter net = FilterNet(ParseNet(
      "name: 'n' state { phase: TEST } layer { name: 'x' } layer { name: 'y' phase: TRAIN }"));
  EXPECT_EQ(net.name(), "n");
  EXPECT_EQ(net.layer(0).phase(), TEST);
  EXPECT_EQ(net.layer(1).phase(), TRAIN);
}

TEST(StateMeetsRuleTest, SaysWhyNot) {
  NetState state;
  state.set_phase(TEST);
  NetStateRule rule;
  std::string why;
  EXPECT_TRUE(StateMeetsRule(state, rule, &why));
  rule.add_stage("deploy");
  EXPECT_FALSE(StateMeetsRule(state, rule, &why));
  EXPECT_TRUE(Holds(why, "'deploy'"));
  rule.set_phase(TRAIN);
  EXPECT_FALSE(StateMeetsRule(state, rule, &why));
  EXPECT_TRUE(Holds(why, "phase"));
}

TEST(FilterNetTest, LogsTheRulesThatAreNotMetAsCaffeDoes) {
  NetParameter net = ParseNet("layer { name: 'a' type: 'Silence' include { phase: TRAIN } }");
  net.mutable_state()->set_phase(TEST);
  testing::internal::CaptureStderr();
  FilterNet(net);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log,
                    "] The NetState phase (1) differed from the phase (0) specified by a rule "
                    "in layer a\n"))
      << log;
}

}  // namespace
}  // namespace caffe
