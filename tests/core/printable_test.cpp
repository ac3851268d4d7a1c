#include <gtest/gtest.h>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

TEST(PrintableTest, TextStaysAsItIs) {
  for (const char* text :
       {"", "conv1 (Convolution): 3 x 4\n\tmore", "Größe, 層, 🙂", "a\\x1b"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Printable("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(Printable(std::string_view("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
  // The eight-bit form of the same control characters.
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b"
            "31m");
}

TEST(PrintableTest, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3");                           // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");                    // longer than necessary
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a pair
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
}

TEST(PrintableTest, ErrorsArePrintable) {
  EXPECT_STREQ(Error("layer '\x1b]0;title\x07'").what(), "layer '\\x1b]0;title\\x07'");
}

}  // namespace
}  // namespace caffe
