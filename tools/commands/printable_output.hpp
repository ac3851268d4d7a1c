#pragma once

#include <iosfwd>
#include <streambuf>
#include <string>

namespace caffe {

// While it exists, everything that is written to the stream is Printable: names from files, in
// tables and in JSON, cannot change a terminal. Lines are passed on when they end or when the
// stream is flushed.
class PrintableOutput final : public std::streambuf {
 public:
  explicit PrintableOutput(std::ostream* stream);
  ~PrintableOutput() override;
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 private:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;
  bool PassOn(size_t bytes);  // the first ones of line_

  std::ostream* stream_;
  std::streambuf* target_;
  std::string line_;
};

}  // namespace caffe
