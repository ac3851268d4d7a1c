// The ranges of nodes from a table, without a net: nodes of layers that only state their facts.
#include "caffe/net/ranges/range_resolver.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {
namespace {

using Rule = LayerFacts::Range;

class Stated final : public LayerBase {
 public:
  explicit Stated(LayerFacts facts) : LayerBase({}, Context()), facts_(std::move(facts)) {}
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  LayerFacts Facts() const override { return facts_; }

 private:
  static LayerContext Context() {
    LayerContext context;
    context.device = Runtime::Get().cpu();
    return context;
  }
  LayerFacts facts_;
};

// Blobs of codes with the numbers 0 to 3.
struct Nodes {
  Nodes() {
    for (int i = 0; i < 4; ++i) {
      wiring.blobs.push_back(MakeBlob(kQuant8, Runtime::Get().cpu(), {1}));
    }
  }
  Node& Add(LayerFacts facts, std::vector<int> bottoms, int top, const std::string& range) {
    Node node;
    node.layer = std::make_shared<Stated>(std::move(facts));
    for (const int id : bottoms) node.bottom.push_back(wiring.blobs[id].get());
    node.bottom_ids = std::move(bottoms);
    node.top = {wiring.blobs[top].get()};
    node.top_ids = {top};
    node.quantized = true;
    wiring.nodes.push_back(std::move(node));
    wiring.range_names.push_back({range});
    return wiring.nodes.back();
  }
  Node& Add(Rule rule, std::vector<int> bottoms, int top, const std::string& range) {
    LayerFacts facts;
    facts.range = rule;
    return Add(std::move(facts), std::move(bottoms), top, range);
  }
  std::vector<NodeRanges> Resolve(const std::map<std::string, Range>& known) const {
    return ResolveRanges(wiring, known, false);
  }
  // The top of the last node.
  BlobRange Last(const std::map<std::string, Range>& known) const {
    return Resolve(known).back().top[0];
  }

  Wiring wiring;
};

void ExpectRange(const BlobRange& found, const Range& range, const std::string& name) {
  const QuantRange expected = AffineRange(range, kQuant8);
  EXPECT_TRUE(found.observed) << name;
  EXPECT_EQ(found.scale, expected.scale) << name;
  EXPECT_EQ(found.zero, expected.zero) << name;
  EXPECT_EQ(found.name, name);
}

TEST(RangeResolverTest, AVersionKeepsItsRangeUntilTheNextOne) {
  Nodes nodes;
  nodes.Add(Rule::kOwn, {}, 0, "x@a");
  nodes.Add(Rule::kOwn, {0}, 0, "x");
  nodes.Add(Rule::kOwn, {0}, 1, "y");
  const auto ranges = nodes.Resolve({{"x@a", {-1, 1}}, {"x", {0, 2}}});
  ExpectRange(ranges[0].top[0], {-1, 1}, "x@a");
  ExpectRange(ranges[1].bottom[0], {-1, 1}, "x@a");
  ExpectRange(ranges[2].bottom[0], {0, 2}, "x");
  EXPECT_FALSE(ranges[2].top[0].observed);
  EXPECT_EQ(ranges[2].top[0].name, "y") << "the name is needed to say that it has no range";
}

TEST(RangeResolverTest, CarriedCodesKeepTheirZeroPoint) {
  Nodes nodes;
  nodes.Add(Rule::kOwn, {}, 0, "x");
  LayerFacts facts;
  facts.range = Rule::kCarried;
  facts.affine = Affine::Constant(4, 0);
  nodes.Add(facts, {0}, 1, "y");
  nodes.Add(Rule::kOwn, {1}, 2, "cast").by_pass = true;
  const BlobRange last = nodes.Last({{"x", {-1, 3}}, {"y", {-9, 9}}, {"cast", {-8, 8}}});
  const QuantRange x = AffineRange({-1, 3}, kQuant8);
  EXPECT_EQ(last.scale, 4 * x.scale);
  EXPECT_EQ(last.zero, x.zero);
  EXPECT_EQ(last.name, "x");
}

TEST(RangeResolverTest, SameAndTiedTopsHaveARangeOfTheirOwnFirst) {
  for (const Rule rule : {Rule::kSame, Rule::kTied}) {
    Nodes nodes;
    nodes.Add(Rule::kOwn, {}, 0, "a");
    nodes.Add(Rule::kOwn, {}, 1, "b");
    nodes.Add(rule, {0, 1}, 2, "top");
    ExpectRange(nodes.Last({{"a", {0, 1}}, {"b", {0, 1}}, {"top", {0, 3}}}), {0, 3}, "top");
    ExpectRange(nodes.Last({{"a", {0, 1}}, {"b", {0, 1}}}), {0, 1}, "top");
    // A join of different ranges needs one of its own; a copy does not read the second bottom.
    EXPECT_EQ(nodes.Last({{"a", {0, 1}}, {"b", {0, 2}}}).observed, rule == Rule::kSame);
    EXPECT_FALSE(nodes.Last({{"b", {0, 1}}}).observed);
  }
}

TEST(RangeResolverTest, NamesOfOlderFilesAndOfExpertsAreFound) {
  const auto find = [](const std::string& name, const std::string& known) {
    Nodes nodes;
    nodes.Add(Rule::kOwn, {}, 0, name);
    return nodes.Last({{known, {0, 1}}}).observed;
  };
  EXPECT_TRUE(find("x@a#2", "x@a"));
  EXPECT_TRUE(find("x@a#2", "x"));
  EXPECT_TRUE(find("moe/expert7/x", "moe/expert/x"));
  EXPECT_FALSE(find("x", "x@a"));
  EXPECT_FALSE(find("x#2", "x"));
}

TEST(RangeResolverTest, PlaceholdersAreForUnknownRangesAlone) {
  Nodes nodes;
  nodes.Add(Rule::kOwn, {}, 0, "x");
  nodes.Add(Rule::kOwn, {0}, 1, "y");
  const auto ranges = ResolveRanges(nodes.wiring, {{"x", {0, 5}}}, true);
  ExpectRange(ranges[0].top[0], {0, 5}, "x");
  ExpectRange(ranges[1].top[0], {-1, 1}, "y");
}

TEST(RangeResolverTest, AnInvalidRangeIsNamed) {
  Nodes nodes;
  nodes.Add(Rule::kOwn, {}, 0, "x");
  try {
    nodes.Resolve({{"x", {-1, INFINITY}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("blob x: [-1, inf] is not a valid range"), 0u)
        << error.what();
  }
}

TEST(RangeResolverTest, BottomsWithTheRangeOfAJoinAreTied) {
  Nodes nodes;
  nodes.Add(Rule::kOwn, {}, 0, "a");
  nodes.Add(Rule::kOwn, {}, 1, "b");
  LayerFacts facts;
  facts.join = LayerFacts::Join{1, {1, 1}};
  nodes.Add(facts, {0, 1}, 2, "top");
  const auto ranges = nodes.Resolve({{"a", {0, 2}}, {"b", {0, 1}}, {"top", {0, 2}}});
  EXPECT_EQ(TiedBottoms(nodes.wiring.nodes[2], ranges[2]), (std::vector<bool>{true, false}));
  EXPECT_EQ(TiedBottoms(nodes.wiring.nodes[0], ranges[0]), std::vector<bool>());
}

}  // namespace
}  // namespace caffe
