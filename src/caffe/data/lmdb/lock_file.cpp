#include "caffe/data/lmdb/lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace caffe {
namespace {

int Prepare(int file) {
  constexpr off_t kBytes = 8192;  // LMDB's table for the usual number of readers
  constexpr uint32_t kMagic = 0xBEEFC0DE;
  struct stat status;
  if (fstat(file, &status) != 0) return errno;
  uint32_t magic = 0;
  const bool whole = status.st_size == 0 || pread(file, &magic, sizeof(magic), 0) == sizeof(magic);
  // A new file may still hold zeros only.
  if (!S_ISREG(status.st_mode) || !whole || (magic != 0 && magic != kMagic)) return EEXIST;
  // Unlike posix_fallocate it never writes, so that it does not disturb processes that use the
  // file.
  if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, kBytes) == 0) return 0;
  return errno == ENOSPC || errno == EDQUOT ? errno : 0;  // others: the file system cannot do it
}

}  // namespace

int PrepareLockFile(const std::string& folder) {
  const int file = open((folder + "/lock.mdb").c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0664);
  if (file < 0) return errno;
  const int result = Prepare(file);
  close(file);
  return result;
}

}  // namespace caffe
