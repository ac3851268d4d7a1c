#include "caffe/data/image_list.hpp"

#include <gtest/gtest.h>

#include "caffe/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

TEST(ImageListTest, TheLabelStandsBehindTheLastBlank) {
  const TemporaryFolder folder;
  const auto entries =
      ReadImageList(folder.Put("list", "a b/c.png 7\r\n\n  \nd.jpg\t-1  \nlast 2000000000"));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].path, "a b/c.png");
  EXPECT_EQ(entries[0].label, 7);
  EXPECT_EQ(entries[0].line, 1);
  EXPECT_EQ(entries[1].path, "d.jpg");
  EXPECT_EQ(entries[1].label, -1);
  EXPECT_EQ(entries[1].line, 4);
  EXPECT_EQ(entries[2].label, 2000000000);  // more than a float holds
}

TEST(ImageListTest, AMarkOfUtf8IsSkipped) {
  const TemporaryFolder folder;
  const auto entries = ReadImageList(folder.Put("list",
                                                "\xef\xbb\xbf"
                                                "a.png 1\nb.png 2\n"));
  EXPECT_EQ(entries[0].path, "a.png");
  EXPECT_EQ(entries[1].path, "b.png");
}

// A path may end with a blank, as one does before two blanks.
TEST(ImageListTest, BlanksOfAPathAreSeen) {
  const TemporaryFolder folder;
  const auto entries = ReadImageList(folder.Put("list", "a.png  1\n"));
  EXPECT_EQ(entries[0].path, "a.png ");
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadFile(folder / entries[0].path); }),
                    "File not found: '" + (folder / "a.png") + " '"));
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadFile(folder / "a\tb"); }), "/a\\x09b'"));
  EXPECT_TRUE(
      Holds(ErrorOf([&] { ReadFile(folder / "a b"); }), "File not found: " + (folder / "a b")));
}

TEST(ImageListTest, BadLinesAreNamed) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text) {
    return ErrorOf([&] { ReadImageList(folder.Put("list", text)); });
  };
  EXPECT_TRUE(
      Holds(error("a 1\nb\n"), folder / "list" + ", line 2: 'b' is not a path and a label"));
  EXPECT_TRUE(Holds(error("a 1.5\n"), "line 1: the label '1.5' is not an integer"));
  EXPECT_TRUE(Holds(error("a 3000000000\n"), "line 1: the label '3000000000' is not an integer"));
  EXPECT_TRUE(Holds(error("\n\n"), "the list has no images"));
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadImageList(folder / "none"); }), "none"));
}

}  // namespace
}  // namespace caffe
