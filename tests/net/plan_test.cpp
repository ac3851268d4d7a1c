#include "caffe/net/plan.hpp"

#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;

PlanNode Plain(const std::string& name, std::vector<int> bottoms, std::vector<int> tops) {
  PlanNode node;
  node.name = name;
  node.bottoms = std::move(bottoms);
  node.tops = std::move(tops);
  return node;
}

PlanNode Conv(const std::string& name, int bottom, int top, int64_t channels = 8) {
  PlanNode node = Plain(name, {bottom}, {top});
  LayerFacts::Weighted weighted;
  weighted.channels = channels;
  weighted.folds = weighted.sums = weighted.activates = weighted.curves = true;
  node.facts.weighted = weighted;
  return node;
}

PlanNode Scale(const std::string& name, int bottom, int top, int64_t channels = 8) {
  PlanNode node = Plain(name, {bottom}, {top});
  Affine affine;
  affine.channels = channels;
  node.facts.affine = affine;
  return node;
}

PlanNode Pointwise(const std::string& name, Kind kind, int bottom, int top) {
  PlanNode node = Plain(name, {bottom}, {top});
  node.facts.function = ElementFunction{kind};
  return node;
}

PlanNode Sum(const std::string& name, std::vector<int> bottoms, int top,
             std::vector<double> coefficients = {1, 1}) {
  PlanNode node = Plain(name, std::move(bottoms), {top});
  node.facts.sum = LayerFacts::Sum{std::move(coefficients)};
  return node;
}

// "conv+relu pool": the nodes of each step.
std::string Steps(const std::vector<PlanNode>& nodes, const PlanOptions& options = {}) {
  std::string text;
  for (const Step& step : Plan::Make(nodes, options).steps) {
    if (step.converts()) continue;
    if (!text.empty()) text += " ";
    for (size_t i = 0; i < step.nodes.size(); ++i) {
      text += (i ? "+" : "") + nodes[step.nodes[i]].name;
    }
  }
  return text;
}

TEST(PlanTest, AnActivationJoinsItsProducer) {
  const std::vector<PlanNode> nodes{Plain("data", {}, {0}), Conv("conv", 0, 1),
                                    Pointwise("relu", Kind::kReLU, 1, 1), Plain("pool", {1}, {2})};
  const Plan plan = Plan::Make(nodes, {});
  EXPECT_EQ(Steps(nodes), "data conv+relu pool");
  EXPECT_EQ(plan.fused_steps(), 1);
  EXPECT_EQ(plan.Report(nodes), "conv + relu\n");
  const Step& step = plan.steps[1];
  EXPECT_EQ(step.reads, std::vector<int>({0}));
  EXPECT_EQ(step.writes, std::vector<int>({1}));
  ASSERT_EQ(step.request.stages.size(), 1u);
  EXPECT_EQ(std::get<ElementFunction>(step.request.stages[0]).kind, Kind::kReLU);
}

TEST(PlanTest, BlobsBetweenTheLayersAreNotWritten) {
  const std::vector<PlanNode> nodes{Conv("conv", 0, 1), Scale("bn", 1, 2), Scale("scale", 2, 3),
                                    Pointwise("clip", Kind::kClip, 3, 4), Plain("pool", {4}, {5})};
  const Plan plan = Plan::Make(nodes, {});
  EXPECT_EQ(Steps(nodes), "conv+bn+scale+clip pool");
  EXPECT_EQ(plan.steps[0].reads, std::vector<int>({0}));
  EXPECT_EQ(plan.steps[0].writes, std::vector<int>({4}));
  EXPECT_EQ(plan.steps[0].request.maps.size(), 2u);
  // A kept blob ends the step that makes it.
  EXPECT_EQ(Steps(nodes, {true, {2}}), "conv+bn scale+clip pool");
  EXPECT_EQ(Steps(nodes, {true, {1}}), "conv bn+scale+clip pool");
  EXPECT_EQ(Steps(nodes, {false, {}}), "conv bn scale clip pool");
}

// Two branches and their sum, as in ResNet: the branch that is computed last adds the other one.
TEST(PlanTest, AResidualSumJoinsTheLastBranch) {
  const std::vector<PlanNode> nodes{Plain("data", {}, {0}),    Plain("split", {0}, {1, 2}),
                                    Conv("short", 1, 3),       Scale("short_bn", 3, 3),
                                    Conv("main", 2, 4),        Scale("main_bn", 4, 4),
                                    Sum("sum", {3, 4}, 5),     Pointwise("relu", Kind::kReLU, 5, 5),
                                    Plain("softmax", {5}, {6})};
  const Plan plan = Plan::Make(nodes, {});
  EXPECT_EQ(Steps(nodes), "data split short+short_bn main+main_bn+sum+relu softmax");
  const Step& step = plan.steps[3];
  EXPECT_EQ(step.reads, std::vector<int>({2, 3}));
  EXPECT_EQ(step.writes, std::vector<int>({5}));
  ASSERT_EQ(step.request.stages.size(), 2u);
  EXPECT_EQ(std::get<ResidualSum>(step.request.stages[0]).coefficient, 1);
}

TEST(PlanTest, CoefficientsOfASum) {
  const std::vector<PlanNode> nodes{Plain("data", {}, {0, 1}), Conv("conv", 0, 2),
                                    Sum("sum", {1, 2}, 3, {-0.5, 2})};
  const Plan plan = Plan::Make(nodes, {});
  ASSERT_EQ(Steps(nodes), "data conv+sum");
  EXPECT_EQ(std::get<ResidualSum>(plan.steps[1].request.stages[0]).coefficient, -0.5f);
  ASSERT_EQ(plan.steps[1].request.maps.size(), 1u);
  std::vector<double> scale(1), shift(1);
  plan.steps[1].request.maps[0].evaluate(&scale, &shift);
  EXPECT_EQ(scale[0], 2);
  EXPECT_EQ(shift[0], 0);
}

// Behind a sum of codes there may be ReLU alone, and the own term has no coefficient: both would
// change codes.
TEST(PlanTest, SumsOfCodes) {
  const auto steps = [](std::vector<double> coefficients, ElementFunction activation) {
    std::vector<PlanNode> nodes{Plain("data", {}, {0, 1}), Conv("conv", 0, 2),
                                Sum("sum", {1, 2}, 3, std::move(coefficients)),
                                Pointwise("act", activation.kind, 3, 4)};
    nodes[3].facts.function = activation;
    for (PlanNode& node : nodes) node.types = TypeTriple::Equal(kQuant8);
    return Steps(nodes);
  };
  EXPECT_EQ(steps({1, 1}, kPlainReLU), "data conv+sum+act");
  EXPECT_EQ(steps({-0.5, 1}, kPlainReLU), "data conv+sum+act");
  EXPECT_EQ(steps({1, 2}, kPlainReLU), "data conv sum act");
  EXPECT_EQ(steps({1, 1}, {Kind::kLeaky, 0.1f}), "data conv+sum act");
  EXPECT_EQ(steps({1, 1}, {Kind::kReLU6}), "data conv+sum act");
  EXPECT_EQ(steps({1, 1}, {Kind::kClip, 0, 1}), "data conv+sum act");
}

TEST(PlanTest, ASumWaitsForItsOperands) {
  // The other operand is computed behind the convolution, by a layer that joins no step.
  EXPECT_EQ(Steps({Plain("data", {}, {0, 1}), Conv("conv", 0, 2), Plain("pool", {1}, {3}),
                   Sum("sum", {2, 3}, 4)}),
            "data conv pool sum");
  // Both operands are one blob.
  EXPECT_EQ(Steps({Plain("data", {}, {0}), Conv("conv", 0, 1), Sum("sum", {1, 1}, 2)}),
            "data conv sum");
  // The other operand changes in place between the convolution and the sum.
  EXPECT_EQ(Steps({Plain("data", {}, {0, 1}), Conv("conv", 0, 2),
                   Pointwise("tanh", Kind::kTanH, 1, 1), Sum("sum", {2, 1}, 3)}),
            "data conv tanh sum");
}

TEST(PlanTest, WhatDoesNotJoin) {
  const auto alone = [](PlanNode conv, PlanNode next) {
    return Steps({std::move(conv), std::move(next)});
  };
  EXPECT_EQ(alone(Conv("conv", 0, 1), Plain("lrn", {1}, {2})), "conv lrn");
  EXPECT_EQ(alone(Plain("pool", {0}, {1}), Pointwise("relu", Kind::kReLU, 1, 1)), "pool relu");
  EXPECT_EQ(alone(Conv("conv", 0, 1), Scale("scale", 1, 1, 4)), "conv scale");
  EXPECT_EQ(alone(Conv("conv", 0, 1), Scale("factor", 1, 1, 1)), "conv+factor");
  PlanNode limited = Conv("conv", 0, 1);
  limited.facts.weighted->curves = false;
  EXPECT_EQ(alone(limited, Pointwise("tanh", Kind::kTanH, 1, 1)), "conv tanh");
  EXPECT_EQ(alone(limited, Pointwise("relu", Kind::kReLU, 1, 1)), "conv+relu");
  limited.facts.weighted->activates = false;
  EXPECT_EQ(alone(limited, Pointwise("relu", Kind::kReLU, 1, 1)), "conv relu");
  limited.facts.weighted->folds = false;
  EXPECT_EQ(alone(limited, Scale("scale", 1, 1)), "conv scale");
  PlanNode other_type = Pointwise("relu", Kind::kReLU, 1, 1);
  other_type.types = TypeTriple::Equal(kHalf);
  EXPECT_EQ(alone(Conv("conv", 0, 1), other_type), "conv relu");
  // Another layer reads the blob, too.
  EXPECT_EQ(
      Steps({Conv("conv", 0, 1), Pointwise("relu", Kind::kReLU, 1, 2), Plain("other", {1}, {3})}),
      "conv relu other");
  // One activation; maps come before it.
  EXPECT_EQ(Steps({Conv("conv", 0, 1), Pointwise("relu", Kind::kReLU, 1, 1),
                   Pointwise("tanh", Kind::kTanH, 1, 1)}),
            "conv+relu tanh");
  EXPECT_EQ(Steps({Conv("conv", 0, 1), Pointwise("relu", Kind::kReLU, 1, 1), Scale("s", 1, 1)}),
            "conv+relu s");
  // y = x, Dropout in phase TEST, joins behind everything.
  EXPECT_EQ(Steps({Conv("conv", 0, 1), Pointwise("relu", Kind::kReLU, 1, 1),
                   Pointwise("drop", Kind::kNone, 1, 1)}),
            "conv+relu+drop");
}

// A step writes its top where its first node runs. A node in between may use that blob.
TEST(PlanTest, ATopIsNotWrittenTooEarly) {
  EXPECT_EQ(Steps({Plain("data", {}, {0, 9}), Conv("conv", 0, 1), Plain("read", {9}, {2}),
                   Pointwise("relu", Kind::kReLU, 1, 9)}),
            "data conv read relu");
}

PlanNode PReLU(const std::string& name, int bottom, int top, const BlobBase* slopes) {
  PlanNode node = Pointwise(name, Kind::kPReLU, bottom, top);
  node.facts.slopes = slopes;
  return node;
}

std::vector<Kind> Functions(const Step& step) {
  std::vector<Kind> kinds;
  for (const ChainStage& stage : step.request.chain.stages) kinds.push_back(stage.function.kind);
  return kinds;
}

// BatchNorm, Scale and ReLU before a convolution: one step, the two maps one stage.
TEST(PlanTest, ElementwiseLayersAreAChain) {
  const std::vector<PlanNode> nodes{Plain("concat", {}, {0}), Scale("bn", 0, 1),
                                    Scale("scale", 1, 1), Pointwise("relu", Kind::kReLU, 1, 2),
                                    Conv("conv", 2, 3)};
  const Plan plan = Plan::Make(nodes, {});
  EXPECT_EQ(Steps(nodes), "concat bn+scale+relu conv");
  const Step& step = plan.steps[1];
  EXPECT_EQ(Functions(step), std::vector<Kind>({Kind::kAffine, Kind::kReLU}));
  EXPECT_EQ(step.request.chain.stages[0].maps.size(), 2u);
  EXPECT_EQ(step.request.chain.channels, 8);
  EXPECT_EQ(step.request.chain.axis, 1);
  EXPECT_EQ(step.reads, std::vector<int>({0}));
  EXPECT_EQ(step.writes, std::vector<int>({2}));
  EXPECT_EQ(step.over, 0);
  EXPECT_EQ(Steps(nodes, {true, {1}}), "concat bn+scale relu conv");
  EXPECT_EQ(Steps(nodes, {false, {}}), "concat bn scale relu conv");
  for (const Step& one : Plan::Make(nodes, {false, {}}).steps) {
    EXPECT_TRUE(one.request.chain.empty());
  }
  // A layer alone has its own kernel.
  const Step alone = Plan::Make({nodes[0], nodes[1]}, {}).steps[1];
  EXPECT_TRUE(alone.request.chain.empty());
  EXPECT_EQ(alone.over, -1);
}

// Activations, functions, maps, slopes and sums in any order.
TEST(PlanTest, AnyStagesJoinAChain) {
  const auto slopes = MakeBlob(kFloat, Runtime::Get().cpu(), {8}, "slopes");
  const std::vector<PlanNode> nodes{Plain("data", {}, {0, 10, 11}),
                                    Sum("first", {0, 10}, 1, {2, -1}),
                                    Pointwise("relu", Kind::kReLU, 1, 1),
                                    Pointwise("tanh", Kind::kTanH, 1, 2),
                                    Scale("scale", 2, 2),
                                    Scale("factor", 2, 2, 1),
                                    Pointwise("exp", Kind::kExp, 2, 3),
                                    PReLU("prelu", 3, 3, slopes.get()),
                                    Pointwise("drop", Kind::kNone, 3, 3),
                                    Sum("second", {11, 3}, 4, {0.5, 3})};
  const Plan plan = Plan::Make(nodes, {});
  ASSERT_EQ(Steps(nodes), "data first+relu+tanh+scale+factor+exp+prelu+drop+second");
  const Step& step = plan.steps[1];
  EXPECT_EQ(Functions(step),
            std::vector<Kind>({Kind::kAffine, Kind::kSum, Kind::kReLU, Kind::kTanH, Kind::kAffine,
                               Kind::kExp, Kind::kPReLU, Kind::kAffine, Kind::kSum}));
  EXPECT_EQ(step.reads, std::vector<int>({0, 10, 11}));
  EXPECT_EQ(step.writes, std::vector<int>({4}));
  const std::vector<ChainStage>& stages = step.request.chain.stages;
  EXPECT_EQ(stages[1].function, (ElementFunction{Kind::kSum, -1}));
  EXPECT_EQ(stages[8].function, (ElementFunction{Kind::kSum, 0.5}));
  EXPECT_EQ(stages[6].slopes, slopes.get());
}

TEST(PlanTest, WhatEndsAChain) {
  const PlanNode data = Plain("data", {}, {0}), relu = Pointwise("relu", Kind::kReLU, 0, 1);
  const auto after = [&](PlanNode next) { return Steps({data, relu, std::move(next)}); };
  EXPECT_EQ(after(Pointwise("tanh", Kind::kTanH, 1, 2)), "data relu+tanh");
  EXPECT_EQ(after(Plain("pool", {1}, {2})), "data relu pool");
  // Other channels, and another axis.
  EXPECT_EQ(Steps({data, Scale("a", 0, 1), Scale("b", 1, 2, 4)}), "data a b");
  PlanNode other = Scale("b", 1, 2);
  other.facts.affine->axis = 2;
  EXPECT_EQ(Steps({data, Scale("a", 0, 1), other}), "data a b");
  EXPECT_EQ(Steps({data, Scale("a", 0, 1, 1), other}), "data a+b");
  // Another type; quantized types.
  PlanNode half = Pointwise("tanh", Kind::kTanH, 1, 2);
  half.types = TypeTriple::Equal(kHalf);
  EXPECT_EQ(after(half), "data relu tanh");
  PlanNode codes = relu, more = Pointwise("more", Kind::kReLU, 1, 2);
  codes.types = more.types = TypeTriple::Equal(kQuant8);
  EXPECT_EQ(Steps({data, codes, more}), "data relu more");
  // Another reader.
  EXPECT_EQ(Steps({data, relu, Pointwise("tanh", Kind::kTanH, 1, 2), Plain("read", {1}, {3})}),
            "data relu tanh read");
  // A layer that only copies begins no chain.
  EXPECT_EQ(
      Steps({data, Pointwise("drop", Kind::kNone, 0, 0), Pointwise("relu", Kind::kReLU, 0, 0)}),
      "data drop relu");
  // The input changes in place, and later layers write other blobs.
  EXPECT_EQ(Steps({data, Pointwise("a", Kind::kReLU, 0, 0), Pointwise("b", Kind::kTanH, 0, 0),
                   Pointwise("c", Kind::kELU, 0, 1), Pointwise("d", Kind::kTanH, 1, 2)}),
            "data a+b c+d");
  // An input that changes in place has another name.
  PlanNode split = Plain("split", {0}, {1, 2});
  split.facts.aliases = {{0, 0}, {1, 0}};
  EXPECT_EQ(
      Steps({data, split, Pointwise("a", Kind::kReLU, 1, 1), Pointwise("b", Kind::kTanH, 1, 1)}),
      "data split a b");
  EXPECT_EQ(
      Steps({data, split, Pointwise("a", Kind::kReLU, 1, 3), Pointwise("b", Kind::kTanH, 3, 3)}),
      "data split a+b");
}

TEST(PlanTest, SumsOfAChain) {
  const PlanNode data = Plain("data", {}, {0, 1, 2, 3, 4, 5}),
                 relu = Pointwise("relu", Kind::kReLU, 0, 6);
  EXPECT_EQ(Steps({data, relu, Sum("sum", {6, 1}, 7)}), "data relu+sum");
  EXPECT_EQ(Steps({data, relu, Sum("sum", {6, 6}, 7)}), "data relu sum");
  EXPECT_EQ(Steps({data, relu, Sum("sum", {1, 6, 2}, 7, {1, 1, 1})}), "data relu+sum");
  // The other operand is computed later, or changes in place before the sum.
  EXPECT_EQ(Steps({data, relu, Plain("pool", {1}, {8}), Sum("sum", {6, 8}, 7)}),
            "data relu pool sum");
  EXPECT_EQ(Steps({data, relu, Plain("change", {1}, {1}), Sum("sum", {6, 1}, 7)}),
            "data relu change sum");
  // A convolution computes the sum if the chain is the earlier branch; a chain if it is the later
  // one.
  EXPECT_EQ(Steps({data, relu, Conv("conv", 1, 8), Sum("sum", {6, 8}, 7)}), "data relu conv+sum");
  EXPECT_EQ(Steps({data, Conv("conv", 1, 8), relu, Sum("sum", {8, 6}, 7)}), "data conv relu+sum");
  // At most four.
  EXPECT_EQ(Steps({data, relu, Sum("sum", {6, 1, 2, 3, 4}, 7, {1, 1, 1, 1, 1})}), "data relu+sum");
  EXPECT_EQ(Steps({data, relu, Sum("sum", {6, 1, 2, 3, 4, 5}, 7, {1, 1, 1, 1, 1, 1})}),
            "data relu sum");
}

TEST(PlanTest, AChainHasTwelveStages) {
  std::vector<PlanNode> nodes{Plain("data", {}, {0})};
  for (int i = 0; i < 14; ++i) nodes.push_back(Pointwise("r", Kind::kReLU, i, i + 1));
  EXPECT_EQ(Steps(nodes), "data r+r+r+r+r+r+r+r+r+r+r+r r+r");
}

// Chains and layers without a kernel for kNHWC use it if their input is there.
TEST(PlanTest, LayoutsOfChains) {
  const auto layouts = [](PlanNode one, PlanNode two) {
    PlanNode producer = Plain("pool", {0}, {1});
    producer.facts.layouts.nhwc = producer.facts.layouts.prefers_nhwc = true;
    const std::vector<PlanNode> nodes{Plain("data", {}, {0}), producer, std::move(one),
                                      std::move(two), Plain("end", {3}, {4})};
    const Plan plan = Plan::Make(nodes, {});
    std::string text;
    for (const Step& step : plan.steps) {
      if (step.converts() || step.nodes[0] < 2 || nodes[step.nodes[0]].name == "end") continue;
      text +=
          LayoutName(step.request.layouts.x) + std::string(step.request.chain.empty() ? " " : "* ");
    }
    return text + std::to_string(plan.conversions());
  };
  // The bottoms of `pool` and `end` are converted.
  EXPECT_EQ(layouts(Scale("a", 1, 2), Pointwise("b", Kind::kReLU, 2, 3)), "NHWC* 2");
  EXPECT_EQ(layouts(Scale("a", 1, 2), Scale("b", 2, 3, 4)), "NHWC* NHWC* 2");
  PlanNode rows = Scale("a", 1, 2);
  rows.facts.affine->axis = 2;
  EXPECT_EQ(layouts(rows, Pointwise("b", Kind::kReLU, 2, 3)), "NCHW* 2");
  // A layer that has a kernel for all layouts uses that one.
  PlanNode any = Pointwise("b", Kind::kReLU, 2, 3);
  any.facts.layouts.any = true;
  EXPECT_EQ(layouts(Plain("a", {1}, {2}), any), "NCHW NCHW 2");
  PlanNode lrn = Plain("a", {1}, {2});
  lrn.facts.layouts.nhwc = true;
  EXPECT_EQ(layouts(lrn, any), "NHWC NHWC 2");
  EXPECT_EQ(layouts(lrn, Scale("b", 2, 3)), "NHWC NHWC* 2");
}

// "conv 0 > 1n; 1n > 1": arrays that are read and written. Those in kNHWC end with n; diffs begin
// with d. A conversion has no name.
std::string ArraysOf(const std::vector<PlanNode>& nodes, const PlanOptions& options) {
  const Plan plan = Plan::Make(nodes, options);
  std::string text;
  const auto add = [&](const std::vector<int>& arrays) {
    for (const int id : arrays) {
      const Array& array = plan.arrays[id];
      text += array.kind == Array::Kind::kDiff ? "d" : "";
      text += std::to_string(array.blob) + (array.layout == Layout::kNHWC ? "n " : " ");
    }
  };
  for (const auto* steps : {&plan.steps, &plan.diffs}) {
    for (const Step& step : *steps) {
      if (!step.converts()) text += nodes[step.nodes[0]].name + " ";
      add(step.reads);
      text += "> ";
      add(step.writes);
      text.back() = ';';
      text += " ";
    }
  }
  return text;
}

TEST(PlanTest, ConversionsAreSteps) {
  const PlanNode data = Plain("data", {}, {0});
  PlanNode conv = Plain("conv", {0}, {1}), split = Plain("split", {1}, {2, 3}),
           pool = Plain("pool", {2}, {4}), lrn = Plain("lrn", {3}, {5}), ip = Plain("ip", {4}, {6}),
           end = Plain("end", {5, 6}, {7});
  conv.facts.layouts = {.nhwc = true, .prefers_nhwc = true};
  split.facts.layouts.any = true;
  split.facts.aliases = {{0, 0}, {1, 0}};
  pool.facts.layouts.nhwc = true;
  const std::vector<PlanNode> nodes{data, conv, split, pool, lrn, ip, end};
  // The copies that a split makes are one array in kNHWC. Outputs are in C order.
  EXPECT_EQ(ArraysOf(nodes, {}),
            "data > 0; 0 > 0n; conv 0n > 1n; split 1n > 1n 1n; pool 1n > 4n; 1n > 3; lrn 3 > 5; "
            "4n > 4; ip 4 > 6; end 5 6 > 7; ");
  EXPECT_EQ(ArraysOf({data, conv}, {}), "data > 0; 0 > 0n; conv 0n > 1n; 1n > 1; ");
  // A kept blob is converted once, for its reader, too.
  EXPECT_EQ(ArraysOf(nodes, {true, {4}}),
            "data > 0; 0 > 0n; conv 0n > 1n; split 1n > 1n 1n; pool 1n > 4n; 4n > 4; 1n > 3; "
            "lrn 3 > 5; ip 4 > 6; end 5 6 > 7; ");
  EXPECT_EQ(ArraysOf(nodes, {false, {}}),
            "data > 0; conv 0 > 1; split 1 > 2 3; pool 2 > 4; lrn 3 > 5; ip 4 > 6; end 5 6 > 7; ");
}

// In training, steps use kNHWC if their layers have a backward pass in it. Diffs are converted to
// the layout in which the step that wrote the blob reads them.
TEST(PlanTest, LayoutsOfTraining) {
  PlanNode conv = Plain("conv", {0}, {1}), split = Plain("split", {1}, {2, 3});
  conv.facts.layouts = {.nhwc = true, .prefers_nhwc = true, .reads_nchw = true, .trains = true};
  split.facts.layouts.any = true;
  split.facts.aliases = {{0, 0}, {1, 0}};
  PlanNode pool = Plain("pool", {2}, {4}), lrn = Plain("lrn", {3}, {5});
  pool.facts.layouts.trains = true;
  lrn.facts.layouts.nhwc = true;
  PlanNode sum = Plain("sum", {4, 5}, {6});
  sum.facts.layouts.any = true;
  const std::vector<PlanNode> nodes{Plain("data", {}, {0}), conv, split, pool, lrn, sum,
                                    Plain("loss", {6}, {7})};
  PlanOptions options;
  options.fuse = false;
  EXPECT_EQ(
      ArraysOf(nodes, options),
      "data > 0; conv 0 > 1; split 1 > 2 3; pool 2 > 4; lrn 3 > 5; sum 4 5 > 6; loss 6 > 7; ");
  options.gradients = {{}, {false}, {true}, {true}, {true}, {true, true}, {true}};
  // LRN has a backward pass in C order only, and `sum` has one bottom in kNHWC.
  EXPECT_EQ(ArraysOf(nodes, options),
            "data > 0; conv 0 > 1n; split 1n > 2n 3n; pool 2n > 4n; 3n > 3; lrn 3 > 5; 5 > 5n; "
            "sum 4n 5n > 6n; 6n > 6; loss 6 > 7; d3 > d3n; d5n > d5; d6 > d6n; ");
  // The gradient of the data is wanted.
  options.gradients[1] = {true};
  EXPECT_EQ(ArraysOf(nodes, options),
            "data > 0; 0 > 0n; conv 0n > 1n; split 1n > 2n 3n; pool 2n > 4n; 3n > 3; lrn 3 > 5; "
            "5 > 5n; sum 4n 5n > 6n; 6n > 6; loss 6 > 7; d0n > d0; d3 > d3n; d5n > d5; d6 > d6n; ");
  // Kept blobs are in C order, and so are their diffs.
  options.kept = {4};
  EXPECT_EQ(ArraysOf(nodes, options),
            "data > 0; 0 > 0n; conv 0n > 1n; split 1n > 2n 3n; 2n > 2; pool 2 > 4; "
            "lrn 3 > 5; sum 4 5 > 6; loss 6 > 7; d0n > d0; d2 > d2n; d3 > d3n; ");
  // Nothing runs backward.
  options.kept = {};
  options.gradients = std::vector<std::vector<bool>>(nodes.size());
  EXPECT_EQ(ArraysOf(nodes, options).substr(0, 23), "data > 0; conv 0 > 1n; ");
}

// Bottoms without a layout are not converted for a layer with one; later layers join its step.
TEST(PlanTest, BottomsWithoutALayout) {
  PlanNode producer = Plain("pool", {0}, {1});
  producer.facts.layouts.nhwc = producer.facts.layouts.prefers_nhwc = true;
  PlanNode grouped = Plain("grouped", {1, 2}, {3});
  grouped.facts.layouts.nhwc = true;
  LayerFacts::Stages stages;
  stages.activates = true;
  grouped.facts.own_stages = stages;
  std::vector<PlanNode> nodes{Plain("data", {}, {0, 2}), producer, grouped,
                              Pointwise("relu", Kind::kReLU, 3, 3), Plain("end", {3}, {4})};
  EXPECT_EQ(Steps(nodes), "data pool grouped+relu end");
  EXPECT_EQ(Plan::Make(nodes, {}).conversions(), 3);  // bottoms of pool, grouped and end
  nodes[2].facts.layouts.bottoms = 1;
  const Plan plan = Plan::Make(nodes, {});
  EXPECT_EQ(plan.conversions(), 2);
  EXPECT_EQ(ArraysOf(nodes, {}),
            "data > 0 2; 0 > 0n; pool 0n > 1n; grouped 1n 2 > 3n; 3n > 3; end 3 > 4; ");
}

// A layer that is faster in kNHWC and writes parts, and one that joins blobs of 8 channels.
PlanNode Last(const std::string& name, int bottom, int top) {
  PlanNode node = Plain(name, {bottom}, {top});
  node.facts.layouts.nhwc = node.facts.layouts.prefers_nhwc = node.facts.layouts.parts = true;
  return node;
}

PlanNode Joined(std::vector<int> bottoms, int top, int64_t extent = 8) {
  PlanNode node = Plain("join", bottoms, {top});
  node.facts.layouts.nhwc = true;
  node.facts.join = {1, std::vector<int64_t>(bottoms.size(), extent)};
  return node;
}

// "a:0 b:1": steps that write parts, and the bottoms that these are.
std::string Parts(const std::vector<PlanNode>& nodes, bool parts = true, std::set<int> kept = {}) {
  PlanOptions options;
  options.parts = parts;
  options.kept = std::move(kept);
  std::string text;
  for (const Step& step : Plan::Make(nodes, options).steps) {
    if (!step.part) continue;
    text += (text.empty() ? "" : " ") + nodes[step.nodes[0]].name + ":" +
            std::to_string(step.part.bottom);
  }
  return text;
}

TEST(PlanTest, StepsWriteTheirTopsAsParts) {
  const std::vector<PlanNode> nodes{Plain("data", {}, {0}), Last("a", 0, 1), Last("b", 0, 2),
                                    Joined({1, 2}, 3), Last("end", 3, 4)};
  EXPECT_EQ(Parts(nodes), "a:0 b:1");
  EXPECT_EQ(Parts(nodes, false), "");
  EXPECT_EQ(Parts(nodes, true, {1}), "b:1");
  const auto with = [&](int at, const auto& change) {
    std::vector<PlanNode> other = nodes;
    change(&other[at]);
    return Parts(other);
  };
  // A layer that cannot, another type, another axis, no alignment to 16 bytes, unknown shapes.
  EXPECT_EQ(with(1, [](PlanNode* node) { node->facts.layouts.parts = false; }), "b:1");
  EXPECT_EQ(with(1, [](PlanNode* node) { node->types = TypeTriple::Equal(kHalf); }), "b:1");
  EXPECT_EQ(with(3, [](PlanNode* node) { node->facts.join->axis = 2; }), "");
  EXPECT_EQ(with(3, [](PlanNode* node) { node->facts.join->extents = {2, 6}; }), "a:0");
  EXPECT_EQ(with(3, [](PlanNode* node) { node->facts.join->extents = {3, 6}; }), "");
  EXPECT_EQ(with(4, [](PlanNode* node) { node->facts.shapes_from_data = true; }), "");
  // The whole blob may be read by several layers, and change in place.
  std::vector<PlanNode> shared = nodes;
  shared.insert(shared.begin() + 4, Plain("split", {3}, {6, 7}));
  shared[4].facts.aliases = {{0, 0}, {1, 0}};
  shared[4].facts.layouts.any = true;
  shared[5].bottoms = {6};
  shared.push_back(Last("second", 7, 8));
  EXPECT_EQ(Parts(shared), "a:0 b:1");
  shared = nodes;
  shared.insert(shared.begin() + 4, Pointwise("relu", Kind::kReLU, 3, 3));
  shared[4].facts.layouts.any = true;
  EXPECT_EQ(Parts(shared), "a:0 b:1");
  // Another reader, the same blob twice, a change in place, an alias.
  std::vector<PlanNode> other = nodes;
  other.push_back(Last("reader", 1, 5));
  EXPECT_EQ(Parts(other), "b:1");
  other = nodes;
  other[3].bottoms = {1, 1};
  EXPECT_EQ(Parts(other), "");
  other = nodes;
  other.insert(other.begin() + 2, Last("again", 1, 1));
  EXPECT_EQ(Parts(other), "b:1");
  other = nodes;
  other.insert(other.begin() + 2, Plain("split", {1}, {6}));
  other[2].facts.aliases = {{0, 0}};
  other[2].facts.layouts.any = true;
  other[4].bottoms = {6, 2};
  EXPECT_EQ(Parts(other), "b:1");
}

// BatchNorm with the statistics of the batch, and a Scale whose parameters are learned.
PlanNode Norm(const std::string& name, int bottom, int top, int64_t channels = 8) {
  PlanNode node = Plain(name, {bottom}, {top});
  node.facts.normalized = LayerFacts::Normalized{channels};
  return node;
}

PlanNode Learned(const std::string& name, int bottom, int top, BlobBase* parameter) {
  PlanNode node = Scale(name, bottom, top);
  node.facts.channel_scale = ChannelScale{1, parameter, parameter};
  return node;
}

TEST(PlanTest, CodesArePartsIfTheyHaveTheRangeOfTheTop) {
  std::vector<PlanNode> nodes{Plain("data", {}, {0}), Last("a", 0, 1), Last("b", 0, 2),
                              Joined({1, 2}, 3, 16), Last("end", 3, 4)};
  for (PlanNode& node : nodes) node.types = TypeTriple::Equal(kQuant8);
  EXPECT_EQ(Parts(nodes), "");
  nodes[3].tied = {false, true};
  EXPECT_EQ(Parts(nodes), "b:1");
  nodes[3].tied = {true, true};
  EXPECT_EQ(Parts(nodes), "a:0 b:1");
}

TEST(PlanTest, StepsOfTraining) {
  const auto eight = MakeBlob(kFloat, Runtime::Get().cpu(), {8}, "scale");
  const auto nine = MakeBlob(kFloat, Runtime::Get().cpu(), {9}, "scale");
  PlanOptions options;
  options.fuse = false;
  options.trained = {0, 1, 2, 3, 4};
  const std::vector<PlanNode> nodes = {
      Plain("data", {}, {0}), Norm("bn", 0, 1), Learned("scale", 1, 2, eight.get()),
      Pointwise("relu", Kind::kReLU, 2, 3), Pointwise("relu6", Kind::kReLU6, 3, 4)};
  EXPECT_EQ(Steps(nodes, options), "data bn+scale+relu relu6");
  const Step step = Plan::Make(nodes, options).steps[1];
  EXPECT_TRUE(step.trains());
  EXPECT_EQ(step.request.scale->scale, eight.get());
  EXPECT_EQ(step.reads, std::vector<int>({0}));
  EXPECT_EQ(step.writes, std::vector<int>({3}));
  EXPECT_EQ(step.request.stages, std::vector<Epilogue::Stage>({kPlainReLU}));
  const auto with = [&](int index, const PlanNode& node) {
    std::vector<PlanNode> others = nodes;
    others[index] = node;
    return Steps(others, options);
  };
  // ReLU in place, with a slope, and another activation.
  EXPECT_EQ(with(3, Pointwise("relu", Kind::kReLU, 2, 2)), "data bn+scale+relu relu6");
  PlanNode leaky = Pointwise("relu", Kind::kLeaky, 2, 3);
  leaky.facts.function->a = 0.1F;
  EXPECT_EQ(with(3, leaky), "data bn+scale relu relu6");
  EXPECT_EQ(with(3, Pointwise("tanh", Kind::kTanH, 2, 3)), "data bn+scale tanh relu6");
  // The input of the step would be overwritten, or the scale is another one.
  EXPECT_EQ(with(1, Norm("bn", 0, 0)), "data bn scale relu relu6");
  EXPECT_EQ(with(2, Learned("scale", 1, 1, eight.get())), "data bn scale relu relu6");
  EXPECT_EQ(with(2, Learned("scale", 1, 2, nine.get())), "data bn scale relu relu6");
  EXPECT_EQ(with(2, Scale("scale", 1, 2)), "data bn scale relu relu6");
  PlanNode half = Learned("scale", 1, 2, eight.get());
  half.types = TypeTriple::Equal(kHalf);
  EXPECT_EQ(with(2, half), "data bn scale relu relu6");
  // Another layer reads a blob in between, or the user keeps it.
  EXPECT_EQ(with(4, Plain("other", {1}, {4})), "data bn scale relu other");
  EXPECT_EQ(with(4, Plain("other", {2}, {4})), "data bn+scale relu other");
  options.kept = {2};
  EXPECT_EQ(Steps(nodes, options), "data bn+scale relu relu6");
  options.kept = {1};
  EXPECT_EQ(Steps(nodes, options), "data bn scale relu relu6");
  options.kept = {3};
  EXPECT_EQ(Steps(nodes, options), "data bn+scale+relu relu6");
  // Layers without a gradient.
  options.kept.clear();
  options.trained = {1, 2};
  EXPECT_EQ(Steps(nodes, options), "data bn+scale relu relu6");
  options.trained = {2, 3};
  EXPECT_EQ(Steps(nodes, options), "data bn scale relu relu6");
}

}  // namespace
}  // namespace caffe
