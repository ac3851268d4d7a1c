#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "caffe/core/error.hpp"

namespace caffe {

// A named pipe, to which a thread writes bytes; `endless`: again and again, until no one reads
// them.
class Pipe {
 public:
  Pipe(std::string path, std::string bytes, bool endless = false)
      : path_(std::move(path)), before_(std::signal(SIGPIPE, SIG_IGN)) {
    CAFFE_CHECK(mkfifo(path_.c_str(), 0600) == 0, "cannot make a pipe: ", path_);
    writer_ = std::thread([this, bytes = std::move(bytes), endless] {
      const int descriptor = open(path_.c_str(), O_WRONLY);
      opened_ = true;
      do {
        size_t done = 0;
        while (done < bytes.size()) {
          const ssize_t count = write(descriptor, bytes.data() + done, bytes.size() - done);
          if (count < 0) break;
          done += static_cast<size_t>(count);
        }
        if (done < bytes.size()) break;
      } while (endless);
      close(descriptor);
    });
  }
  ~Pipe() {
    // Lets a writer go on that still waits for a reader.
    const int descriptor = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
    while (!opened_) std::this_thread::yield();
    close(descriptor);
    writer_.join();
    std::signal(SIGPIPE, before_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  void (*before_)(int);
  std::atomic<bool> opened_{false};
  std::thread writer_;
};

}  // namespace caffe
