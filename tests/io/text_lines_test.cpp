#include "caffe/io/text_lines.hpp"

#include <gtest/gtest.h>

#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Joined(const std::string& text) {
  const TemporaryFolder folder;
  std::string joined;
  for (const TextLine& line : ReadTextLines(folder.Put("list", text))) {
    joined += std::to_string(line.number) + "[" + line.text + "]";
  }
  return joined;
}

TEST(TextLinesTest, EndsOfLinesAndTheMarkOfUtf8AreLeftOut) {
  EXPECT_EQ(Joined("a\nb b\n"), "1[a]2[b b]");
  EXPECT_EQ(Joined("a\r\nb \t\r\n"), "1[a]2[b]");
  EXPECT_EQ(Joined("\n  \n\r\n a"), "4[ a]");
  EXPECT_EQ(Joined("\xef\xbb\xbf"
                   "a\nb"),
            "1[a]2[b]");
  EXPECT_EQ(Joined("\xef\xbb\xbf"), "");
  EXPECT_EQ(Joined("a\n\xef\xbb\xbf"
                   "b"),
            "1[a]2[\xef\xbb\xbf"
            "b]");  // only at the beginning
  EXPECT_EQ(Joined(""), "");
}

TEST(TextLinesTest, WhatIsNoTextIsRefused) {
  EXPECT_TRUE(Holds(ErrorOf([] { Joined(std::string("a\nb\0c\n", 6)); }),
                    "list, line 2: it has a zero byte; the list must be text in UTF-8"));
  EXPECT_TRUE(Holds(ErrorOf([] {
                      Joined(
                          std::string("\xff\xfe"
                                      "a\0\n\0",
                                      6));
                    }),
                    "a zero byte"));
  EXPECT_EQ(Joined(std::string(65536, 'a')).size(), 65536u + 3);
  EXPECT_TRUE(Holds(ErrorOf([] { Joined("x\n" + std::string(65537, 'a')); }),
                    "list, line 2: it has 65537 bytes, but a line of a list has at most 65536"));
}

}  // namespace
}  // namespace caffe
