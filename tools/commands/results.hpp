#pragma once

#include <string>

#include "caffe/core/log.hpp"

namespace caffe {

// Prints a line of a command's results at every level of the log: as a log line, or, if standard
// error does not show log lines, on standard output. With `json`, standard output holds a JSON
// text, and the line is a log line only.
class Results {
 public:
  explicit Results(bool json) : json_(json) {}
  void Print(const std::string& line, log::Where where = log::Where::current()) const;

 private:
  bool json_;
};

// Throws if a part of what was written to standard output was lost, for example on a full disk.
// Call this at the end of a program.
void CheckStandardOutput();

}  // namespace caffe
