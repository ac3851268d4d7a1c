#include "caffe/io/file_list.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

TEST(FileListTest, ANameThatExistsIsTakenWhole) {
  TemporaryFolder folder;
  for (const char* name : {"a", "b", "a,b", " c", "d, e"}) folder.Put(name, "");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  using Names = std::vector<std::string>;
  EXPECT_EQ(FilesInList("a"), Names({"a"}));
  EXPECT_EQ(FilesInList("a,b"), Names({"a,b"}));
  EXPECT_EQ(FilesInList("b,a"), Names({"b", "a"}));
  EXPECT_EQ(FilesInList("b, a ,a,b"), Names({"b", "a", "a,b"}));
  EXPECT_EQ(FilesInList(" c,d, e"), Names({" c", "d, e"}));
  EXPECT_EQ(FilesInList("x,y , z"), Names({"x", "y", "z"}));
  EXPECT_EQ(FilesInList(","), Names());
  EXPECT_EQ(FilesInList(""), Names());
  fs::current_path(before);
}

}  // namespace
}  // namespace caffe
