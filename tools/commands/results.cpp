#include "commands/results.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "caffe/core/error.hpp"
#include "caffe/core/log_settings.hpp"

namespace caffe {

void Results::Print(const std::string& line, log::Where where) const {
  log::Info(line, where);
  if (!json_ && !log::OnStandardError(log::Level::kInfo)) std::cout << line << std::endl;
}

void CheckStandardOutput() {
  errno = 0;
  const bool lost = std::cout.flush().fail(), late = std::fflush(stdout) != 0;
  if (!lost && !late && std::ferror(stdout) == 0) return;
  // An earlier flush failed, and its cause is forgotten: another write fails for the same one.
  if (errno == 0 && std::fputc('\n', stdout) != EOF) std::fflush(stdout);
  CAFFE_THROW("cannot write to standard output",
              errno != 0 ? std::string(": ") + std::strerror(errno) : "",
              "; a part of the results was lost");
}

}  // namespace caffe
