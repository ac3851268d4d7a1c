// The ranges of nodes from known ones, without a net: nodes of layers that only state their facts.
#include "caffe/net/ranges/range_resolver.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {
namespace {

using Rule = LayerFacts::Range;

struct Stated final : LayerBase {
  explicit Stated(LayerFacts given)
      : LayerBase({}, {.device = Runtime::Get().cpu()}), facts(std::move(given)) {}
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  LayerFacts Facts() const override { return facts; }
  LayerFacts facts;
};

// Nodes with one top, in a net of three blobs of codes.
struct Nodes {
  Nodes() {
    for (int i = 0; i < 3; ++i) {
      wiring.blobs.push_back(MakeBlob(kQuant8, Runtime::Get().cpu(), {1}));
    }
  }
  Node& Add(const LayerFacts& facts, const std::vector<int>& bottoms, int top,
            const std::string& range) {
    Node& node = wiring.nodes.emplace_back();
    node.layer = std::make_shared<Stated>(facts);
    node.bottom_ids = bottoms;
    for (const int id : bottoms) node.bottom.push_back(wiring.blobs[id].get());
    node.top_ids = {top};
    node.top = {wiring.blobs[top].get()};
    node.quantized = true;
    wiring.range_names.push_back({range});
    return node;
  }
  std::vector<NodeRanges> Resolve(const std::map<std::string, Range>& known) const {
    return ResolveRanges(wiring, known, placeholders);
  }
  // The top of the last node.
  BlobRange Last(const std::map<std::string, Range>& known) const {
    return Resolve(known).back().top[0];
  }

  Wiring wiring;
  bool placeholders = false;
};

LayerFacts With(Rule rule) {
  LayerFacts facts;
  facts.range = rule;
  return facts;
}

void ExpectRange(const BlobRange& found, const Range& range, const std::string& name) {
  const QuantRange expected = AffineRange(range, kQuant8);
  EXPECT_TRUE(found.observed && found.scale == expected.scale && found.zero == expected.zero)
      << name;
  EXPECT_EQ(found.name, name);
}

TEST(RangeResolverTest, AVersionKeepsItsRangeUntilTheNextOne) {
  Nodes nodes;
  nodes.Add({}, {}, 0, "x@a");
  nodes.Add({}, {0}, 0, "x");
  nodes.Add({}, {0}, 1, "y");
  auto ranges = nodes.Resolve({{"x@a", {-1, 1}}, {"x", {0, 2}}});
  ExpectRange(ranges[0].top[0], {-1, 1}, "x@a");
  ExpectRange(ranges[1].bottom[0], {-1, 1}, "x@a");
  ExpectRange(ranges[2].bottom[0], {0, 2}, "x");
  EXPECT_FALSE(ranges[2].top[0].observed);
  EXPECT_EQ(ranges[2].top[0].name, "y");
  nodes.placeholders = true;
  ranges = nodes.Resolve({{"x@a", {-1, 1}}, {"x", {0, 2}}});
  ExpectRange(ranges[2].bottom[0], {0, 2}, "x");
  ExpectRange(ranges[2].top[0], {-1, 1}, "y");
}

TEST(RangeResolverTest, CarriedCodesKeepTheirZeroPoint) {
  Nodes nodes;
  nodes.Add({}, {}, 0, "x");
  LayerFacts facts = With(Rule::kCarried);
  facts.affine = Affine::Constant(4, 0);
  nodes.Add(facts, {0}, 1, "y");
  nodes.Add({}, {1}, 2, "cast").by_pass = true;
  const BlobRange last = nodes.Last({{"x", {-1, 3}}, {"y", {-9, 9}}, {"cast", {-8, 8}}});
  const QuantRange x = AffineRange({-1, 3}, kQuant8);
  EXPECT_EQ(last.scale, 4 * x.scale);
  EXPECT_EQ(last.zero, x.zero);
  EXPECT_EQ(last.name, "x");
}

TEST(RangeResolverTest, SameAndTiedTopsHaveARangeOfTheirOwnFirst) {
  for (const Rule rule : {Rule::kSame, Rule::kTied}) {
    Nodes nodes;
    nodes.Add({}, {}, 0, "a");
    nodes.Add({}, {}, 1, "b");
    nodes.Add(With(rule), {0, 1}, 2, "top");
    ExpectRange(nodes.Last({{"a", {0, 1}}, {"b", {0, 1}}, {"top", {0, 3}}}), {0, 3}, "top");
    ExpectRange(nodes.Last({{"a", {0, 1}}, {"b", {0, 1}}}), {0, 1}, "top");
    // A join of different ranges needs one of its own.
    EXPECT_EQ(nodes.Last({{"a", {0, 1}}, {"b", {0, 2}}}).observed, rule == Rule::kSame);
    EXPECT_FALSE(nodes.Last({{"b", {0, 1}}}).observed);
  }
}

TEST(RangeResolverTest, NamesOfOlderFilesAndOfExpertsAreFound) {
  const auto find = [](const std::string& name, const std::string& known) {
    Nodes nodes;
    nodes.Add({}, {}, 0, name);
    return nodes.Last({{known, {0, 1}}}).observed;
  };
  EXPECT_TRUE(find("x@a#2", "x@a") && find("x@a#2", "x") && find("m/expert7/x", "m/expert/x"));
  EXPECT_FALSE(find("x", "x@a") || find("x#2", "x"));
}

TEST(RangeResolverTest, BottomsWithTheRangeOfAJoinAreTied) {
  Nodes nodes;
  nodes.Add({}, {}, 0, "a");
  nodes.Add({}, {}, 1, "b");
  LayerFacts facts;
  facts.join = LayerFacts::Join{1, {1, 1}};
  nodes.Add(facts, {0, 1}, 2, "top");
  const auto ranges = nodes.Resolve({{"a", {0, 2}}, {"b", {0, 1}}, {"top", {0, 2}}});
  EXPECT_EQ(TiedBottoms(nodes.wiring.nodes[2], ranges[2]), (std::vector<bool>{true, false}));
  EXPECT_EQ(TiedBottoms(nodes.wiring.nodes[0], ranges[0]), std::vector<bool>());
}

}  // namespace
}  // namespace caffe
