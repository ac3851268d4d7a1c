#pragma once

#include <source_location>
#include <string_view>

// Log lines carry glog's prefix, `I0213 12:34:56.123456  1234 solver.cpp:239] `, because scripts
// parse it. They go to standard error. CAFFE_LOG=debug|info|warning|error|off sets the level.
namespace caffe::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

using Where = std::source_location;

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
