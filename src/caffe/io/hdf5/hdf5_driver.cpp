#include "hdf5_driver.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace caffe {

bool ReadOrZero(int descriptor, haddr_t at, size_t bytes, void* target) {
  auto* to = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor, to, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;
    to += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  std::memset(to, 0, bytes);
  return true;
}

}  // namespace caffe
