#include "commands/cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/program_cache.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

class CacheCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cache-command-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    if (const char* value = std::getenv("CAFFE_CACHE_DIR")) {
      saved_ = value;
    }
    ::setenv("CAFFE_CACHE_DIR", directory_.c_str(), 1);
  }
  void TearDown() override {
    saved_ ? ::setenv("CAFFE_CACHE_DIR", saved_->c_str(), 1) : ::unsetenv("CAFFE_CACHE_DIR");
    ::unsetenv("CAFFE_CACHE");
    fs::remove_all(directory_);
  }

  void Fill(int count) {
    ProgramCache cache(directory_, ProgramCache::Mode::kReadWrite);
    for (int i = 0; i < count; ++i) {
      ProgramCache::Entry entry;
      entry.binary = std::string(2048, 'x');
      entry.build_seconds = 1.5;
      cache.Store(Concat("0123456789abcdef", i), "a device", Concat("program_", i), entry);
    }
  }
  // Exit status; out_ and err_ are what was printed.
  int Run(const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = CacheCommand(arguments);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  bool Printed(const std::string& text) const { return out_.find(text) != std::string::npos; }

  fs::path directory_;
  std::optional<std::string> saved_;
  std::string out_, err_;
};

TEST_F(CacheCommandTest, ListsNothingAndMakesNothing) {
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_EQ(out_, Concat("0 programs, 0 B, in ", (directory_ / "programs.db").string(),
                         "\n0 algorithms chosen by measurement\n"));
  EXPECT_EQ(Run({"verify"}), 0);
  EXPECT_EQ(Run({"prune", "--all"}), 0);
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(CacheCommandTest, ListsPrograms) {
  Fill(2);
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("0123456789ab ")) << out_;
  EXPECT_TRUE(Printed("program_1\n")) << out_;
  EXPECT_TRUE(Printed("2.0 KiB     1.500")) << out_;
  EXPECT_TRUE(Printed("2 programs, 4.0 KiB")) << out_;
}

TEST_F(CacheCommandTest, CountsTuningResults) {
  {
    ProgramCache cache(directory_, ProgramCache::Mode::kReadWrite);
    cache.StoreTuning({"cudnn forward", "a", "half", "device", "driver"}, "quick 1 engine 1");
  }
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("0 programs")) << out_;
  EXPECT_TRUE(Printed("\n1 algorithm chosen by measurement\n")) << out_;
  {
    ProgramCache cache(directory_, ProgramCache::Mode::kReadWrite);
    cache.StoreTuning({"cudnn data", "a", "half", "device", "driver"}, "quick 1 engine 1");
  }
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("\n2 algorithms chosen by measurement\n")) << out_;
  EXPECT_EQ(Run({"prune", "--all"}), 0);
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("\n0 algorithms chosen by measurement\n")) << out_;
}

TEST_F(CacheCommandTest, PrunesToASizeInAllSpellings) {
  for (const std::vector<std::string>& size : std::vector<std::vector<std::string>>{
           {"--max-size", "4K"}, {"-max_size=4096"}, {"--max-size=4k"}}) {
    Fill(4);
    std::vector<std::string> arguments = {"prune"};
    arguments.insert(arguments.end(), size.begin(), size.end());
    EXPECT_EQ(Run(arguments), 0);
    EXPECT_EQ(out_, "removed 2 programs, 4.0 KiB; kept 2 programs, 4.0 KiB\n");
  }
  EXPECT_EQ(Run({"prune", "--all"}), 0);
  EXPECT_EQ(out_, "removed 2 programs, 4.0 KiB; kept 0 programs, 0 B\n");
}

TEST_F(CacheCommandTest, VerifyReportsDamageOnce) {
  Fill(4);
  EXPECT_EQ(Run({"verify"}), 0);
  EXPECT_EQ(out_, "4 programs checked, 0 with a wrong checksum; the file is intact\n");
  fs::resize_file(directory_ / "programs.db", 8192);
  EXPECT_EQ(Run({"list"}), 1) << "cannot be read, and is not repaired";
  EXPECT_EQ(Run({"verify"}), 1);
  EXPECT_TRUE(Printed("set aside")) << out_;
  EXPECT_EQ(Run({"verify"}), 0);
}

TEST_F(CacheCommandTest, ReadOnlyForbidsPrune) {
  Fill(1);
  ::setenv("CAFFE_CACHE", "ro", 1);
  EXPECT_EQ(Run({"prune", "--all"}), 1);
  EXPECT_EQ(err_, "caffe cache: CAFFE_CACHE=ro forbids prune\n");
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("1 program, 2.0 KiB")) << out_;
}

// Code of a folder that others may write does not run, and the command says so.
TEST_F(CacheCommandTest, AFolderThatOthersMayWriteIsAWarning) {
  for (const int count : {0, 1}) {
    if (count > 0) Fill(count);
    ::chmod(directory_.c_str(), 0777);
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"list"}, {"verify"}, {"prune", "--all"}}) {
      EXPECT_EQ(Run(arguments), 1) << arguments[0];
      EXPECT_EQ(out_, "");
      EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
      for (const std::string& part :
           {directory_.string(), std::string("mode 0777"), std::string("chmod -R go-w"),
            std::string("CAFFE_CACHE_DIR")}) {
        EXPECT_NE(err_.find(part), std::string::npos) << err_;
      }
    }
    EXPECT_EQ(fs::exists(directory_ / "programs.db"), count > 0);
    ::chmod(directory_.c_str(), 0700);
  }
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_TRUE(Printed("1 program, ")) << out_;
}

TEST_F(CacheCommandTest, SaysOneLineAfterAUsageError) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"unknown"},
                                             {"list", "--all"},
                                             {"prune", "--nonsense"},
                                             {"prune", "--max-size"},
                                             {"prune", "--max-size", "much"},
                                             {"prune", "--max-size=-1"},
                                             {"prune", "--max-size=1T"},
                                             {"prune", "--max-size=1MB"},
                                             {"prune", "--max-size=9223372036854775807K"},
                                             {"prune", "--max-size=1", "--all"}}) {
    EXPECT_EQ(Run(arguments), 1);
    EXPECT_EQ(out_, "");
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_TRUE(err_.starts_with("caffe cache: ")) << err_;
  }
}

}  // namespace
}  // namespace caffe
