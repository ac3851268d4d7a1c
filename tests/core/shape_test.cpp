#include "caffe/core/shape.hpp"

#include <gtest/gtest.h>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

TEST(ShapeTest, Count) {
  EXPECT_EQ(ShapeCount({}), 1);
  EXPECT_EQ(ShapeCount({0}), 0);
  EXPECT_EQ(ShapeCount({2, 3, 4}), 24);
  EXPECT_EQ(ShapeCount({2, 3, 4}, 1), 12);
  EXPECT_EQ(ShapeCount({2, 3, 4}, 1, 2), 3);
  EXPECT_EQ(ShapeCount({2, 3, 4}, 3), 1);
  EXPECT_EQ(ShapeCount({0, int64_t{1} << 40}), 0);
  EXPECT_EQ(ShapeCount({1 << 20, 1 << 20}), int64_t{1} << 40);  // beyond 32 bits
}

TEST(ShapeTest, RefusesWhatNoMemoryHolds) {
  EXPECT_THROW(ShapeCount({int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(ShapeCount({int64_t{1} << 62, 4}), Error);
  // Without the zero, too: other products of extents must not overflow.
  EXPECT_THROW(ShapeCount({0, int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(ShapeCount({2, -1}), Error);
}

TEST(ShapeTest, Text) {
  EXPECT_EQ(ShapeString({64, 1, 28, 28}), "64 1 28 28 (50176)");
  EXPECT_EQ(ShapeString({}), "(1)");
}

TEST(ShapeTest, CanonicalAxis) {
  EXPECT_EQ(CanonicalAxis({2, 3, 4}, 0, "x"), 0);
  EXPECT_EQ(CanonicalAxis({2, 3, 4}, -1, "x"), 2);
  EXPECT_EQ(CanonicalAxis({2, 3, 4}, -3, "x"), 0);
  for (int axis : {3, -4}) {
    try {
      CanonicalAxis({2, 3, 4}, axis, "blob fc1");
      FAIL() << axis;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("blob fc1", 0), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find("2 3 4"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace caffe
