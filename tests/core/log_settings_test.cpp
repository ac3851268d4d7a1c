#include "caffe/core/log_settings.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <tuple>

#include "caffe/core/error.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// The files of the folder, without links.
std::vector<std::string> Files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_symlink()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void LogEach() {
  log::Debug("a debug line");
  log::Info("an info line");
  log::Warning("a warning");
  log::Error("an error");
}

// Settings belong to a process. What a fresh one with `environment` writes to standard error.
std::string Written(const std::vector<std::pair<std::string, std::string>>& environment,
                    const std::vector<std::pair<std::string, std::string>>& settings) {
  TemporaryFolder folder;
  std::string command;
  for (const auto& [name, value] : environment) command += name + "='" + value + "' ";
  std::string list;
  for (const auto& [name, value] : settings) list += name + "=" + value + "\n";
  folder.Put("settings", list);
  command = "cd '" + folder.path().string() + "' && env -u CAFFE_LOG " + command +
            CAFFE_BINARY_DIR "/tests/test_core --gtest_also_run_disabled_tests " +
            "--gtest_filter=LogSettingsChild.* 2>err >/dev/null";
  EXPECT_EQ(0, std::system(command.c_str())) << command;
  return folder.Get("err");
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t head = line.find("] ");
    lines.push_back(head == std::string::npos ? line : line[0] + line.substr(head + 1));
  }
  return lines;
}

}  // namespace

// The actions of the processes of Written.
TEST(LogSettingsChild, DISABLED_LogsEach) {
  std::ifstream in("settings");
  for (std::string line; std::getline(in, line);) {
    const size_t equal = line.find('=');
    log::Set(line.substr(0, equal), line.substr(equal + 1));
  }
  LogEach();
}

namespace {

using Strings = std::vector<std::string>;
const Strings kAll{"I an info line", "W a warning", "E an error"};
const Strings kWarnings{"W a warning", "E an error"};
const Strings kErrors{"E an error"};
const Strings kDebug{"D a debug line", "I an info line", "W a warning", "E an error"};

TEST(LogSettingsTest, LevelsOfTheEnvironment) {
  const std::pair<std::string, Strings> levels[] = {
      {"debug", kDebug},      {"info", kAll},      {"INFO", kAll},   {"0", kAll},
      {"warning", kWarnings}, {"warn", kWarnings}, {"1", kWarnings}, {"error", kErrors},
      {"2", kErrors},         {"off", {}},         {"3", {}},        {"", kAll}};
  for (const auto& [level, lines] : levels) {
    EXPECT_EQ(lines, Lines(Written({{"CAFFE_LOG", level}}, {}))) << level;
    if (level == "debug") continue;
    EXPECT_EQ(lines, Lines(Written({{"GLOG_minloglevel", level}}, {}))) << level;
  }
  // The own name goes before glog's; a flag before both.
  EXPECT_EQ(kAll, Lines(Written({{"CAFFE_LOG", "info"}, {"GLOG_minloglevel", "2"}}, {})));
  EXPECT_EQ(kErrors, Lines(Written({{"CAFFE_LOG", "info"}}, {{"minloglevel", "2"}})));
}

TEST(LogSettingsTest, UnknownValuesAreOneWarning) {
  for (const auto& [name, value, complaint] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"CAFFE_LOG", "loud",
            "W CAFFE_LOG=loud is ignored: the levels are debug, info, warning, "
            "error and off, or glog's numbers 0 (info), 1 (warning)"},
           {"GLOG_minloglevel", "4",
            "W GLOG_minloglevel is ignored: minloglevel: there is no level "
            "'4'; the levels are debug"},
           {"GLOG_v", "x", "W GLOG_v is ignored: v: 'x' is not a whole number"},
           {"GLOG_vmodule", "net", "'net' is not of the form FILE=LEVEL"},
           {"GLOG_logtostderr", "maybe", "logtostderr: 'maybe' is neither true nor false"},
           {"GLOG_max_log_size", "0", "max_log_size: 0 MiB; it must be positive"},
           {"GLOG_log_dir", "/no/such", "no log files can be written to /no/such: No such file"}}) {
    const Strings lines = Lines(Written({{name, value}}, {}));
    ASSERT_EQ(4u, lines.size()) << name;
    EXPECT_TRUE(Holds(lines[0], complaint));
    EXPECT_EQ(kAll, Strings(lines.begin() + 1, lines.end())) << name;
  }
}

TEST(LogSettingsTest, Verbosity) {
  EXPECT_EQ(kDebug, Lines(Written({{"GLOG_v", "1"}}, {})));
  EXPECT_EQ(kDebug, Lines(Written({}, {{"v", "2"}})));
  EXPECT_EQ(kAll, Lines(Written({{"GLOG_v", "0"}}, {})));
  // glog's verbose lines are of level info.
  EXPECT_EQ(kWarnings, Lines(Written({{"GLOG_v", "1"}, {"GLOG_minloglevel", "1"}}, {})));
  EXPECT_EQ(kDebug, Lines(Written({{"GLOG_vmodule", "net=1,log_settings*=1"}}, {})));
  EXPECT_EQ(kAll, Lines(Written({{"GLOG_vmodule", "net=1"}}, {})));
  EXPECT_EQ(kAll, Lines(Written({{"GLOG_v", "1"}, {"GLOG_vmodule", "log_settings_test=0"}}, {})));
}

TEST(LogSettingsTest, WhatStandardErrorShows) {
  TemporaryFolder folder;
  const std::string logs = folder.path().string();
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const std::pair<Settings, Strings> cases[] = {
      {{{"log_dir", logs}}, kAll},
      {{{"log_dir", logs}, {"alsologtostderr", "0"}}, kErrors},
      {{{"log_dir", logs}, {"alsologtostderr", "false"}, {"stderrthreshold", "1"}}, kWarnings},
      {{{"log_dir", logs}, {"stderrthreshold", "1"}}, kWarnings},
      {{{"log_dir", logs}, {"stderrthreshold", "3"}}, {}},
      {{{"log_dir", logs}, {"stderrthreshold", "2"}, {"alsologtostderr", "1"}}, kAll},
      {{{"log_dir", logs}, {"stderrthreshold", "2"}, {"logtostderr", "1"}}, kAll},
      {{{"stderrthreshold", "2"}}, kErrors},
      // No file takes the others.
      {{{"alsologtostderr", "0"}}, kAll},
      {{{"logtostderr", "0"}}, kAll}};
  for (const auto& [settings, lines] : cases) {
    std::string names;
    Settings environment;
    for (const auto& [name, value] : settings) {
      names += name + "=" + value + " ";
      environment.emplace_back("GLOG_" + name, value);
    }
    EXPECT_EQ(lines, Lines(Written({}, settings))) << names;
    EXPECT_EQ(lines, Lines(Written(environment, {}))) << names;
  }
}

TEST(LogSettingsTest, FilesOfEachLevel) {
  TemporaryFolder folder;
  const std::string logs = folder.path().string();
  EXPECT_EQ(Strings{}, Lines(Written({{"GLOG_log_dir", logs}, {"GLOG_stderrthreshold", "3"}}, {})));
  const Strings files = Files(logs);
  ASSERT_EQ(3u, files.size());
  const char* severities[] = {"ERROR", "INFO", "WARNING"};
  for (int i = 0; i < 3; ++i) {
    const std::regex form(
        Concat(R"(caffe\.[^.]+.*\.\w+\.log\.)", severities[i], R"(\.\d{8}-\d{6}\.\d+)"));
    EXPECT_TRUE(std::regex_match(files[i], form)) << files[i];
    EXPECT_EQ(files[i], std::filesystem::read_symlink(std::filesystem::path(logs) /
                                                      (Concat("caffe.", severities[i]))));
  }
  for (const auto& [link, lines] : std::vector<std::pair<std::string, Strings>>{
           {"caffe.INFO", kAll}, {"caffe.WARNING", kWarnings}, {"caffe.ERROR", kErrors}}) {
    const Strings all = Lines(folder.Get(link));
    ASSERT_EQ(3 + lines.size(), all.size()) << link;
    EXPECT_TRUE(Holds(all[0], "Log file created at: 20"));
    EXPECT_TRUE(Holds(all[1], "Running on machine: "));
    EXPECT_EQ(lines, Strings(all.begin() + 3, all.end())) << link;
  }
  // minloglevel holds for files, too, and a file without lines is not made.
  TemporaryFolder other;
  Written({}, {{"log_dir", other.path().string()}, {"minloglevel", "1"}});
  EXPECT_EQ(kWarnings.size() + 3, Lines(other.Get("caffe.INFO")).size());
  EXPECT_EQ(kWarnings.size() + 3, Lines(other.Get("caffe.WARNING")).size());
  TemporaryFolder errors;
  Written({}, {{"log_dir", errors.path().string()}, {"v", "1"}, {"minloglevel", "3"}});
  EXPECT_EQ(0u, errors.count());
  // logtostderr: instead of files.
  TemporaryFolder none;
  Written({}, {{"log_dir", none.path().string()}, {"logtostderr", "1"}});
  EXPECT_EQ(0u, none.count());
}

TEST(LogSettingsTest, WithoutPrefix) {
  EXPECT_EQ("an info line\na warning\nan error\n", Written({{"GLOG_log_prefix", "0"}}, {}));
}

// In this process, where the folder can vanish between two lines.
TEST(LogFilesTest, ALineThatNoFileTakesGoesToStandardError) {
  const log::Level before = log::level();
  log::SetLevel(log::Level::kInfo);
  TemporaryFolder folder;
  const std::string logs = folder / "logs";
  std::filesystem::create_directories(logs);
  log::Set("log_dir", logs);
  log::SetProgram("a_tool");
  log::Set("alsologtostderr", "0");
  testing::internal::CaptureStderr();
  log::Info("into the file");
  EXPECT_FALSE(log::OnStandardError(log::Level::kInfo));
  EXPECT_TRUE(log::OnStandardError(log::Level::kError));
  EXPECT_EQ("", testing::internal::GetCapturedStderr());
  EXPECT_TRUE(Holds(folder.Get("logs/a_tool.INFO"), "] into the file\n"));

  std::filesystem::remove_all(logs);
  testing::internal::CaptureStderr();
  log::Warning("needs a second file");
  log::Info("and the next");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(text, "caffe: log files: cannot make " + logs + "/a_tool."));
  EXPECT_TRUE(Holds(text, "No such file or directory; log lines go to standard error from here"));
  EXPECT_TRUE(Holds(text, "] needs a second file\n"));
  EXPECT_TRUE(Holds(text, "] and the next\n"));
  EXPECT_TRUE(log::OnStandardError(log::Level::kInfo));

  EXPECT_TRUE(Holds(ErrorOf([&] { log::Set("log_dir", logs); }), "No such file or directory"));
  const std::string file = folder.Put("file", "x");
  EXPECT_EQ("log_dir: " + file + " is not a folder", ErrorOf([&] { log::Set("log_dir", file); }));
  EXPECT_EQ("the log has no setting 'logdir'", ErrorOf([&] { log::Set("logdir", "x"); }));
  log::Set("log_dir", "");
  log::Set("alsologtostderr", "1");
  log::SetProgram("caffe");
  log::SetLevel(before);
}

TEST(LogFilesTest, ALargeFileIsFollowedByANewOne) {
  const log::Level before = log::level();
  log::SetLevel(log::Level::kInfo);
  TemporaryFolder folder;
  log::Set("log_dir", folder.path().string());
  log::Set("max_log_size", "1");
  testing::internal::CaptureStderr();
  const std::string line(100000, 'x');
  for (int i = 0; i < 11; ++i) log::Info(line);
  sleep(1);  // names differ in the second
  sleep(1);
  log::Info("in the second file");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(3u, folder.count()) << "two files and the link";
  EXPECT_TRUE(Holds(folder.Get("caffe.INFO"), "in the second file"));
  EXPECT_LT(folder.Get("caffe.INFO").size(), 1000u);
  log::Set("log_dir", "");
  log::Set("max_log_size", "1800");
  log::SetLevel(before);
}

TEST(LogFilesTest, EverySettingIsKnown) {
  const log::Level before = log::level();
  for (const log::SettingName& setting : log::SettingNames()) {
    EXPECT_NE("", setting.summary);
    if (setting.boolean) {
      const bool on = setting.name == "alsologtostderr" || setting.name == "log_prefix";
      EXPECT_EQ("", ErrorOf([&] { log::Set(setting.name, on ? "true" : "false"); }));
    } else if (setting.name == "log_dir" || setting.name == "vmodule") {
      EXPECT_EQ("", ErrorOf([&] { log::Set(setting.name, ""); }));
    } else if (setting.name != "stderrthreshold" && setting.name != "minloglevel") {
      const std::string value = setting.name == "max_log_size" ? "1800" : "0";
      EXPECT_EQ("", ErrorOf([&] { log::Set(setting.name, value); }));
    }
  }
  log::SetLevel(before);
}

}  // namespace
}  // namespace caffe
