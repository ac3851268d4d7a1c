#pragma once

#include <source_location>
#include <string>

namespace caffe {

// Prints what a command was started for, whatever the level of the log is: a line is a log line, and
// where standard error does not show those, it is written to standard output instead. With
// `json`, where standard output holds a JSON text, it is a log line only.
class Results {
 public:
  explicit Results(bool json) : json_(json) {}
  void Print(const std::string& line,
             std::source_location where = std::source_location::current()) const;

 private:
  bool json_;
};

}  // namespace caffe
