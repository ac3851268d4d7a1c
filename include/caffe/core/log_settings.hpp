#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "caffe/core/log.hpp"

// Settings of the log, with the names of glog's flags:
//   minloglevel       lowest level that is written anywhere: 0 info, 1 warning, 2 error, 3 none
//   v, vmodule        1 and more: debug lines, too; vmodule=FILE=1,… those of some sources only
//   log_dir           folder for log files; without it there are none
//   logtostderr       true: standard error instead of files
//   alsologtostderr   true: every line goes to standard error besides the files (the default, as in
//                     BVLC's tools); false: only lines of stderrthreshold do
//   stderrthreshold   lowest level of the lines on standard error (default 2) if neither of the
//                     two flags above is true
//   log_prefix        false: lines without level, time, thread and source line
//   colorlogtostderr  true: colours for warnings and errors on a terminal
//   max_log_size      MiB after which a new log file is started (default 1800)
//   logbufsecs        accepted without an effect: every line is written at once
// The environment variables GLOG_minloglevel, GLOG_log_dir … set them, too; CAFFE_LOG takes
// precedence over GLOG_minloglevel. Whatever the settings are, lines that cannot be written to a
// file go to standard error.
//
// Files are <program>.<host>.<user>.log.<INFO|WARNING|ERROR>.<date>-<time>.<process>, each with the
// lines of its level and those above; the link <program>.<level> names the newest.
namespace caffe::log {

struct SettingName {
  std::string name;
  bool boolean = false;
  std::string summary;
};

// All of the above.
const std::vector<SettingName>& SettingNames();

// Throws for an unknown name or value, and for a log_dir that cannot be written.
void Set(const std::string& name, const std::string& value);

// The first part of the names of log files; "caffe" unless set.
void SetProgram(const std::string& name);

// While it exists, the calling thread logs warnings and errors alone, with "rank 2: " before their
// text; nothing changes for rank 0.
class RankScope {
 public:
  explicit RankScope(int rank);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  const int before_;
};

// True if lines of this level appear on standard error now.
bool OnStandardError(Level level);

}  // namespace caffe::log
