#include "caffe/io/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

TEST(FileTest, ReadsWhatWasWritten) {
  TemporaryFolder folder;
  const std::string bytes("a\0b\xff\n", 5);
  WriteFileAtomically(folder / "x", bytes);
  EXPECT_EQ(ReadFile(folder / "x"), bytes);
  EXPECT_EQ(folder.count(), 1u);
}

TEST(FileTest, ReplacesAnOlderFileAndKeepsItsPermissions) {
  TemporaryFolder folder;
  fs::permissions(folder.Put("x", "old"), fs::perms::owner_read | fs::perms::owner_write);
  WriteFileAtomically(folder / "x", "new");
  EXPECT_EQ(folder.Get("x"), "new");
  EXPECT_EQ(fs::status(folder / "x").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(FileTest, WithoutCommitTheOldFileStays) {
  TemporaryFolder folder;
  folder.Put("x", "old");
  {
    AtomicFile file(folder / "x");
    file.Write("half of the new");
    EXPECT_EQ(folder.count(), 2u);
  }
  EXPECT_EQ(folder.Get("x"), "old");
  EXPECT_EQ(folder.count(), 1u);
}

// A limit on the size of files stands for a full disk.
TEST(FileTest, AFailedWriteLeavesTheOldFileWhole) {
  TemporaryFolder folder;
  folder.Put("x", "old");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error =
      ErrorOf([&] { WriteFileAtomically(folder / "x", std::string(100000, 'n')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(error.find(folder / "x"), std::string::npos) << error;
  EXPECT_EQ(folder.Get("x"), "old");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(FileTest, AFolderThatDoesNotExistIsNamed) {
  TemporaryFolder folder;
  const std::string path = folder / "missing/x";
  const std::string error = ErrorOf([&] { WriteFileAtomically(path, "new"); });
  EXPECT_NE(error.find(path), std::string::npos) << error;
  EXPECT_NE(error.find("folder must exist"), std::string::npos) << error;
}

TEST(FileTest, AReadOnlyFolderKeepsTheOldFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  TemporaryFolder folder;
  folder.Put("x", "old");
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(ErrorOf([&] { WriteFileAtomically(folder / "x", "new"); }), "");
  EXPECT_EQ(folder.Get("x"), "old");
}

TEST(FileTest, AFolderIsNeitherReadNorReplaced) {
  TemporaryFolder folder;
  fs::create_directory(folder / "x");
  EXPECT_NE(ErrorOf([&] { ReadFile(folder / "x"); }).find("is a folder"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { WriteFileAtomically(folder / "x", ""); }).find("is a folder"),
            std::string::npos);
  EXPECT_TRUE(fs::is_directory(folder / "x"));
}

TEST(FileTest, ALinkKeepsPointing) {
  TemporaryFolder folder;
  folder.Put("target", "old");
  fs::create_symlink("target", folder / "link");
  WriteFileAtomically(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(folder.Get("target"), "new");
}

TEST(FileTest, ADeviceIsWrittenNotReplaced) {
  WriteFileAtomically("/dev/null", "bytes");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(FileTest, AMissingFileIsNamed) {
  EXPECT_EQ(ErrorOf([] { ReadFile("no/such/file"); }), "File not found: no/such/file");
}

}  // namespace
}  // namespace caffe
