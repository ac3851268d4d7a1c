#include "caffe/core/json.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace caffe {
namespace {

TEST(JsonTest, TextIsQuoted) {
  EXPECT_EQ(JsonString("conv1"), "\"conv1\"");
  EXPECT_EQ(JsonString("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(JsonString("Größe, 層, 🙂"), "\"Größe, 層, 🙂\"");
}

// RFC 8259: control characters are escaped, and the text is UTF-8. The others are for terminals.
TEST(JsonTest, AnyBytesAreAString) {
  EXPECT_EQ(JsonString(std::string_view("\0\n\t\x1b[31m\x7f", 9)),
            "\"\\u0000\\u000a\\u0009\\u001b[31m\\u007f\"");
  EXPECT_EQ(JsonString("\xc2\x9b"
                       "31m"),
            "\"\\u009b31m\"");
  EXPECT_EQ(JsonString("a\xff\xc3"), "\"a\\\\xff\\\\xc3\"");
  EXPECT_EQ(JsonString("\xed\xa0\x80"), "\"\\\\xed\\\\xa0\\\\x80\"");
}

TEST(JsonTest, NumbersAreFiniteOrNull) {
  EXPECT_EQ(JsonNumber(0.25), "0.25");
  EXPECT_EQ(JsonNumber(1 / 0.0), "null");
}

}  // namespace
}  // namespace caffe
