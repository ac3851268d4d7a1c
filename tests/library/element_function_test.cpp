// The table of functions of one element. The functions that are layers have their points in
// tests/layers/pointwise_layer_test.cpp.
#include "caffe/library/element_function.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;

int Mentions(Kind kind, char name) {
  int count = 0;
  ElementFunction{kind}.Text([&](char operand) {
    count += operand == name ? 1 : 0;
    return std::string();
  });
  return count;
}

// Chains put the text of one function in place of the v of the next.
TEST(ElementFunctionTest, FormulasMentionTheirOperandsOnce) {
  for (const Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    SCOPED_TRACE(row.name);
    EXPECT_EQ(Mentions(kind, 'v'), kind != Kind::kConstant);
    EXPECT_EQ(Mentions(kind, 'u'), row.operand == ElementFunction::Operand::kSummand);
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(Mentions(kind, static_cast<char>('a' + j)), j < row.constants) << j;
    }
    EXPECT_TRUE(row.formula.ends_with(")") || kind == Kind::kConstant) << "is not a call";
    EXPECT_EQ(ElementFunction{kind}.constants().size(), static_cast<size_t>(row.constants));
  }
}

TEST(ElementFunctionTest, TextsHaveTheOperandsInPlace) {
  const auto text = [](Kind kind) {
    return ElementFunction{kind}.Text(
        [](char operand) { return std::string("<") + operand + ">"; });
  };
  EXPECT_EQ(text(Kind::kLeaky), "leaky_value(<v>, 1, <a>)");
  EXPECT_EQ(text(Kind::kSum), "sum_value(<v>, <u>, <a>)");
  EXPECT_EQ(text(Kind::kConstant), "<a>");
}

// Functions that no row of the element-wise layers has.
TEST(ElementFunctionTest, Values) {
  struct Point {
    ElementFunction function;
    double v, value, slope;
  };
  const Point points[] = {{{}, -2, -2, 1},
                          {{Kind::kReLU}, -2, 0, 0},
                          {{Kind::kReLU}, 3, 3, 1},
                          {{Kind::kLeaky, 0.5}, -2, -1, 0.5},
                          {{Kind::kLeaky, 0.5}, 3, 3, 1},
                          {{Kind::kPReLU, -0.25}, -2, 0.5, -0.25},
                          {{Kind::kPReLU, -0.25}, 3, 3, 1},
                          {{Kind::kConstant, 4}, 7, 4, 0},
                          {{Kind::kAffine, 2, 3}, 5, 13, 2},
                          {{Kind::kSquare, 2, 1}, 3, 49, 28}};
  for (const Point& point : points) {
    EXPECT_EQ(point.function.value(point.v), point.value) << point.function.name();
    EXPECT_EQ(point.function.slope(point.v), point.slope) << point.function.name();
  }
  EXPECT_EQ((ElementFunction{Kind::kSum, -2}.value(3, 5)), -7);
  for (const Kind kind : ElementFunction::Kinds()) {
    if (kind == Kind::kConstant) continue;
    EXPECT_TRUE(std::isnan(ElementFunction{kind, 1, 2, 3}.value(std::nan(""))))
        << ElementFunction{kind}.name() << " loses NaN";
  }
}

TEST(ElementFunctionTest, Names) {
  EXPECT_EQ(ElementFunction{}.name(), "none");
  EXPECT_EQ(kPlainReLU.name(), "relu");
  EXPECT_EQ((ElementFunction{Kind::kLeaky, 0.1f}.name()), "leaky 0.1");
  EXPECT_EQ((ElementFunction{Kind::kClip, -1, 6}.name()), "clip -1 6");
  EXPECT_EQ(ElementFunction{Kind::kPReLU}.name(), "prelu");
}

TEST(ElementFunctionTest, Uses) {
  EXPECT_TRUE(ElementFunction{}.linear());
  EXPECT_TRUE(kPlainReLU.linear() && kPlainReLU.activation());
  EXPECT_TRUE(ElementFunction{Kind::kTanH}.activation());
  EXPECT_FALSE(ElementFunction{Kind::kTanH}.linear());
  EXPECT_FALSE(ElementFunction{Kind::kExp}.activation());
  EXPECT_FALSE(kPlainReLU.HasSlope() || ElementFunction{Kind::kReLU6}.HasSlope());
  EXPECT_TRUE((ElementFunction{Kind::kReLU6, 0.1}.HasSlope()));
  EXPECT_TRUE((ElementFunction{Kind::kLeaky, 0.1}.HasSlope()));
}

}  // namespace
}  // namespace caffe
