#include "caffe/io/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <vector>

#include "io/pipe.hpp"
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

TEST(FileTest, DevicesAndFoldersAreErrors) {
  const TemporaryFolder folder;
  for (const std::string path : {"/dev/zero", "/dev/null"}) {
    const std::string error = ErrorOf([&] { ReadFile(path); });
    EXPECT_EQ(error, path + " is a device, not a file; give a file or a pipe");
  }
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder.path().string()); }),
            folder.path().string() + " is a folder, not a file");
}

TEST(FileTest, APipeIsReadToItsEnd) {
  const TemporaryFolder folder;
  const std::string bytes(200000, 'x');
  const Pipe pipe(folder / "pipe", bytes);
  EXPECT_EQ(ReadFile(pipe.path()), bytes);
}

TEST(FileTest, AnEndlessPipeIsAnError) {
  const TemporaryFolder folder;
  const Pipe pipe(folder / "pipe", std::string(1 << 16, '\n'), true);
  const std::string error = ErrorOf([&] { ReadFile(pipe.path(), 1 << 20); });
  EXPECT_EQ(error, pipe.path() +
                       " has more than 1048576 bytes; at most 1048576 are read from a pipe: write "
                       "them to a file, and give that");
}

TEST(FileTest, APipeToWhichNothingWritesIsAnError) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder / "pipe"); }),
            "cannot read " + folder / "pipe" + ": it is a pipe to which no program writes");
}

TEST(FileTest, AnEmptyPipeIsEmpty) {
  const TemporaryFolder folder;
  const Pipe pipe(folder / "pipe", "");
  EXPECT_EQ(ReadFile(pipe.path()), "");
}

TEST(FileTest, ALimitHoldsForFiles) {
  const TemporaryFolder folder;
  folder.Put("x", "12345");
  EXPECT_EQ(ReadFile(folder / "x", 5), "12345");
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder / "x", 4); }),
            folder / "x" + " has 5 bytes; at most 4 are read");
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

TEST(FileTest, AFinishedFileIsNotVisibleBeforeItsCommit) {
  TemporaryFolder folder;
  AtomicFile one(folder / "one"), two(folder / "two");
  one.Write("1");
  one.Finish();
  two.Write("2");
  two.Finish();
  EXPECT_FALSE(fs::exists(folder / "one"));
  one.Commit();
  two.Commit();
  EXPECT_EQ(folder.Get("one") + folder.Get("two"), "12");
}

TEST(FileTest, NamesMayBeAsLongAsTheFileSystemTakes) {
  TemporaryFolder folder;
  const std::string longest = folder / std::string(255, 'n');
  WriteFileAtomically(longest, "bytes");
  EXPECT_EQ(ReadFile(longest), "bytes");
  // Before anything is written.
  const std::string error = ErrorOf([&] { AtomicFile(longest + "n"); });
  EXPECT_NE(error.find("cannot write " + longest + "n: File name too long"), error.npos) << error;
  EXPECT_EQ(folder.count(), 1u);
}

TEST(FileTest, AZeroByteEndsNoPath) {
  TemporaryFolder folder;
  folder.Put("x", "old");
  const std::string path = (folder / "x") + std::string("\0y", 2);
  for (const auto& work : std::vector<std::function<void()>>{
           [&] { WriteFileAtomically(path, "new"); }, [&] { ReadFile(path); },
           [&] { AtomicFolder made(path); }}) {
    const std::string error = ErrorOf(work);
    EXPECT_NE(error.find("x\\x00y: a path cannot hold a zero byte"), error.npos) << error;
  }
  EXPECT_EQ(folder.Get("x"), "old");
}

TEST(FileTest, FilesThatBelongTogetherAreReplacedTogether) {
  TemporaryFolder folder;
  folder.Put("one", "old");
  AtomicFile one(folder / "one"), added(folder / "added"), two(folder / "two");
  for (AtomicFile* file : {&one, &added, &two}) file->Write("new");
  fs::create_directories(folder / "two/full");  // the last one cannot be renamed
  EXPECT_NE(ErrorOf([&] { AtomicFile::CommitTogether({&one, &added, &two}); }), "");
  EXPECT_EQ(folder.Get("one"), "old");
  EXPECT_FALSE(fs::exists(folder / "added"));
}

TEST(FileTest, AFolderAppearsWhenItIsWhole) {
  TemporaryFolder folder;
  {
    AtomicFolder dropped(folder / "dropped");
    EXPECT_EQ(folder.count(), 1u);
  }
  EXPECT_EQ(folder.count(), 0u);
  AtomicFolder made(folder / "made//");
  WriteFileAtomically(made.temporary_path() + "/x", "bytes");
  EXPECT_EQ(RemoveLeftovers(folder.path()), 0);
  EXPECT_FALSE(fs::exists(folder / "made"));
  made.Commit();
  EXPECT_EQ(folder.Get("made/x"), "bytes");
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_NE(ErrorOf([&] { AtomicFolder again(folder / "made"); }).find("it exists already"),
            std::string::npos);
}

// Returns the number of a process that has ended. The system does not use it again for a while.
pid_t EndedProcess() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(FileTest, LeftoversOfEndedProcessesOfThisHostAreRemoved) {
  TemporaryFolder folder;
  AtomicFile open_file(folder / "own");
  const std::string own = open_file.temporary_path();  // <file>.tmp.HOST.PID.N
  const std::string name = fs::path(own).filename().string();
  const std::string host = name.substr(8, 8), pid = std::to_string(getpid());
  const std::string ended = std::to_string(EndedProcess());
  folder.Put("a.tmp." + host + "." + ended + ".0", "left");
  folder.Put("b.c.tmp." + host + "." + pid + ".9000", "left by a container with our number");
  fs::create_directories(folder / ("d.tmp." + host + "." + ended + ".0/inner"));
  const std::vector<std::string> stay = {
      "a.tmp." + ended + ".0",  // no host
      "a.tmp." + std::string(host == "00000000" ? "1" : "0") + host.substr(1) + "." + ended + ".0",
      "a.tmp." + host + "." + std::to_string(getppid()) + ".0",  // it runs
      ".tmp." + host + "." + ended + ".0",
      "a.tmp." + host + "." + ended + ".x",
      "a.tmp"};
  for (const std::string& other : stay) folder.Put(other, "stays");
  EXPECT_EQ(RemoveLeftovers(folder.path().string()), 3);
  for (const std::string& other : stay) EXPECT_TRUE(fs::exists(folder / other)) << other;
  EXPECT_TRUE(fs::exists(own));
  open_file.Commit();
  EXPECT_EQ(RemoveLeftovers(folder / "missing"), 0);
}

}  // namespace
}  // namespace caffe
