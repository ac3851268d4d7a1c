#pragma once

#include <spdlog/sinks/base_sink.h>

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace caffe::log {

// Log files like glog's: one each for INFO, WARNING and ERROR, created with its first line.
class LogFiles final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // `on_failure` gets the reason if a file cannot be created or written; no file is used
  // afterwards.
  explicit LogFiles(std::function<void(const std::string&)> on_failure)
      : on_failure_(std::move(on_failure)) {}
  ~LogFiles() override;

  // Closes open files. An empty folder means no files.
  void SetFolder(const std::string& folder);
  void SetProgram(const std::string& program);
  void SetMaxSize(int64_t bytes);
  bool used();

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  struct File {
    int descriptor = -1;
    std::string name;
    int64_t bytes = 0;
  };
  void Close();
  // Both return the reason of a failure, or "".
  std::string Open(File* file, const char* severity);
  std::string Append(File* file, const char* text, size_t size);

  std::function<void(const std::string&)> on_failure_;
  std::string folder_, program_ = "caffe";
  int64_t max_size_ = int64_t{1800} << 20;
  std::array<File, 3> files_;
};

}  // namespace caffe::log
