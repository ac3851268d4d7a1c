#include "log_files.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "caffe/core/error.hpp"

namespace caffe::log {
namespace {

constexpr const char* kSeverities[] = {"INFO", "WARNING", "ERROR"};

std::string Host() {
  utsname names{};
  return ::uname(&names) == 0 && names.nodename[0] ? names.nodename : "unknown-host";
}

std::string User() {
  passwd entry{}, *found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found) {
    return found->pw_name;
  }
  return Concat("uid", ::geteuid());
}

std::string Time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof(text), format, &local);
  return text;
}

int Severity(spdlog::level::level_enum level) {
  return level >= spdlog::level::err ? 2 : level == spdlog::level::warn ? 1 : 0;
}

}  // namespace

LogFiles::~LogFiles() { Close(); }

void LogFiles::Close() {
  for (File& file : files_) {
    if (file.descriptor >= 0) ::close(file.descriptor);
    file = File();
  }
}

void LogFiles::SetFolder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  Close();
  folder_ = folder;
}

void LogFiles::SetProgram(const std::string& program) {
  const std::lock_guard lock(mutex_);
  program_ = program;
}

void LogFiles::SetMaxSize(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  max_size_ = bytes;
}

bool LogFiles::used() {
  const std::lock_guard lock(mutex_);
  return !folder_.empty();
}

std::string LogFiles::Open(File* file, const char* severity) {
  const std::string name = Concat(program_, ".", Host(), ".", User(), ".log.", severity, ".",
                                  Time("%Y%m%d-%H%M%S"), ".", ::getpid());
  if (name == file->name) return "";  // less than a second has passed: keep the old file
  const std::string path = folder_ + "/" + name;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0664);
  if (descriptor < 0) return Concat("cannot make ", path, ": ", std::strerror(errno));
  if (file->descriptor >= 0) ::close(file->descriptor);
  *file = {descriptor, name, 0};
  const std::string link = Concat(folder_, "/", program_, ".", severity);
  ::unlink(link.c_str());
  // The link is a convenience, which some file systems do not support.
  [[maybe_unused]] const int linked = ::symlink(name.c_str(), link.c_str());
  const std::string head =
      Concat("Log file created at: ", Time("%Y/%m/%d %H:%M:%S"), "\nRunning on machine: ", Host(),
             "\nLog line format: [DIWE]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n");
  return Append(file, head.data(), head.size());
}

std::string LogFiles::Append(File* file, const char* text, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::write(file->descriptor, text + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return Concat("cannot write ", folder_, "/", file->name, ": ", std::strerror(errno));
    done += static_cast<size_t>(count);
  }
  file->bytes += static_cast<int64_t>(size);
  return "";
}

void LogFiles::sink_it_(const spdlog::details::log_msg& message) {
  if (folder_.empty()) return;
  spdlog::memory_buf_t text;
  formatter_->format(message, text);
  for (int i = 0; i <= Severity(message.level); ++i) {
    File& file = files_[i];
    std::string failure;
    if (file.descriptor < 0 || file.bytes >= max_size_) failure = Open(&file, kSeverities[i]);
    if (failure.empty()) failure = Append(&file, text.data(), text.size());
    if (failure.empty()) continue;
    Close();
    folder_.clear();
    on_failure_(failure);
    return;
  }
}

}  // namespace caffe::log
