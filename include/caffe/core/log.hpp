#pragma once

#include <string_view>

// Log lines carry glog's prefix, `I0213 12:34:56.123456  1234 solver.cpp:239] `, because scripts
// parse it. They go to standard error. CAFFE_LOG=debug|info|warning|error|off sets the level.
namespace caffe::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

// A line of source. Not std::source_location, which clang 14 lacks.
struct Where {
  const char* file = "";
  int line = 0;

  // The line of the call, also where this is a default argument.
  static constexpr Where current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

void SetLevel(Level level);
Level level();

// True if CAFFE_DEBUG (a comma-separated list) holds this topic: kernels, passes, memory.
bool Topic(std::string_view topic);

void Debug(std::string_view text, Where where = Where::current());
void Info(std::string_view text, Where where = Where::current());
void Warning(std::string_view text, Where where = Where::current());
void Error(std::string_view text, Where where = Where::current());

// Warns once per process and text.
void WarnOnce(std::string_view text, Where where = Where::current());

}  // namespace caffe::log
