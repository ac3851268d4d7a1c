#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "caffe/data/lmdb/lmdb_error.hpp"

namespace caffe {

int ReserveLockFile(const std::string& folder) {
  constexpr off_t kBytes = 8192;  // LMDB's table for the usual number of readers
  const int file = open((folder + "/lock.mdb").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (file < 0) return errno == ENOSPC || errno == EDQUOT ? errno : 0;
  // Unlike posix_fallocate it never writes, so that it does not disturb processes that use the file.
  const int result = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, kBytes) == 0 ? 0 : errno;
  close(file);
  return result == ENOSPC || result == EDQUOT ? result : 0;
}

}  // namespace caffe
