#include "caffe/core/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>

namespace caffe {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override { log::SetLevel(log::Level::kInfo); }
  void TearDown() override { log::SetLevel(before_); }
  // The text that `write` puts on standard error.
  template <class Function> static std::string Captured(Function write) {
    testing::internal::CaptureStderr();
    write();
    return testing::internal::GetCapturedStderr();
  }
  log::Level before_ = log::level();
};

// Scripts find numbers by glog's prefix: level, month, day, time, thread, file and line.
TEST_F(LogTest, LinesCarryGlogsPrefix) {
  const std::string line = Captured([] { log::Info("Iteration 100, loss = 0.25"); });
  const std::regex form(
      R"(^I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ log_test\.cpp:\d+\] Iteration 100, loss = 0\.25\n$)");
  EXPECT_TRUE(std::regex_match(line, form)) << line;
  EXPECT_EQ(Captured([] { log::Warning("x"); })[0], 'W');
  EXPECT_EQ(Captured([] { log::Error("x"); })[0], 'E');
}

TEST_F(LogTest, BracesAreText) {
  const std::string line = Captured([] { log::Info("layer { name: \"x\" } {}"); });
  EXPECT_NE(line.find("layer { name: \"x\" } {}"), std::string::npos) << line;
}

TEST_F(LogTest, TheLevelDecides) {
  EXPECT_EQ(Captured([] { log::Debug("x"); }), "");
  log::SetLevel(log::Level::kDebug);
  EXPECT_EQ(Captured([] { log::Debug("x"); })[0], 'D');
  log::SetLevel(log::Level::kWarning);
  EXPECT_EQ(Captured([] { log::Info("x"); }), "");
  EXPECT_NE(Captured([] { log::Warning("x"); }), "");
  log::SetLevel(log::Level::kOff);
  EXPECT_EQ(Captured([] { log::Error("x"); }), "");
}

TEST_F(LogTest, WarnOnceWarnsOnce) {
  const auto warn = [] { log::WarnOnce("the LogTest warns of this"); };
  EXPECT_NE(Captured(warn), "");
  EXPECT_EQ(Captured(warn), "");
  EXPECT_NE(Captured([] { log::WarnOnce("and of this"); }), "");
}

TEST_F(LogTest, ANameCannotForgeALine) {
  const std::string line = Captured([] {
    log::Info(
        "Creating Layer a\nI1127 12:00:00.000000  1 solver.cpp:9] Iteration 5, loss = 0\nmore");
  });
  EXPECT_NE(line.find("Layer a\n  I1127 12:00"), std::string::npos) << line;
  EXPECT_NE(line.find("loss = 0\nmore\n"), std::string::npos) << line;
}

TEST_F(LogTest, TopicsAreWholeWords) {
  const char* before = std::getenv("CAFFE_DEBUG");
  const std::string kept = before ? before : "";
  setenv("CAFFE_DEBUG", "kernels,memory", 1);
  EXPECT_TRUE(log::Topic("kernels"));
  EXPECT_TRUE(log::Topic("memory"));
  EXPECT_FALSE(log::Topic("passes"));
  EXPECT_FALSE(log::Topic("kernel"));
  unsetenv("CAFFE_DEBUG");
  EXPECT_FALSE(log::Topic("kernels"));
  if (before) setenv("CAFFE_DEBUG", kept.c_str(), 1);
}

}  // namespace
}  // namespace caffe
