#include "caffe/core/repeated_names.hpp"

#include <gtest/gtest.h>

namespace caffe {
namespace {

using Names = std::vector<std::string>;

TEST(RepeatedNamesTest, UniqueNamesCount) {
  EXPECT_EQ(UniqueNames({"a", "b", "a", "a"}), (Names{"a", "b", "a#2", "a#3"}));
  EXPECT_EQ(UniqueNames({"", "", "a#2", "a", "a"}), (Names{"", "#2", "a#2", "a", "a#3"}));
  EXPECT_EQ(UniqueNames({"a", "a", "a#2", "a"}), (Names{"a", "a#3", "a#2", "a#4"}));
}

TEST(RepeatedNamesTest, MatchesAreInOrder) {
  EXPECT_EQ(MatchInOrder({"b", "a", "a", "c", "a"}, {"a", "b", "a"}),
            (std::vector<int>{1, 0, 2, -1, -1}));
}

}  // namespace
}  // namespace caffe
