#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

namespace caffe {

// One line at the bottom of a terminal, redrawn a few times a second:
//   [=====>              ]  26%  2600/10000  312 it/s  19968 img/s  ETA 0:00:24
// The cursor stays at its beginning, so that the next log line overwrites it.
class ProgressBar {
 public:
  // True if standard error is a terminal that understands control sequences.
  static bool Wanted();

  // `images` per iteration; 0 if unknown.
  ProgressBar(std::ostream* out, int64_t first, int64_t last, int64_t images);
  ~ProgressBar();

  // `what` replaces speed and ETA, for example "testing 30/100".
  void Show(int64_t done, const std::string& what = "");
  void Clear();
  // The line for `done` iterations, `seconds` after the bar was made.
  std::string Line(int64_t done, double seconds, const std::string& what) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::ostream* out_;
  int64_t first_, last_, images_;
  Clock::time_point begin_, shown_;
  bool visible_ = false;
};

}  // namespace caffe
