#pragma once

#include "caffe/core/log.hpp"

namespace caffe {

// During its lifetime the log has no lines of the default level: each net writes some lines for
// every layer. Another level, such as debug, stays.
class LessLog {
 public:
  LessLog() {
    if (before_ == log::Level::kInfo) log::SetLevel(log::Level::kWarning);
  }
  ~LessLog() { log::SetLevel(before_); }
  LessLog(const LessLog&) = delete;
  LessLog& operator=(const LessLog&) = delete;

 private:
  const log::Level before_ = log::level();
};

}  // namespace caffe
