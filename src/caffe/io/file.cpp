#include "caffe/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

std::string Reason() { return std::strerror(errno); }

// Ignores EINVAL and the like: some file systems cannot flush a folder, and no device can be
// flushed.
bool Flush(int descriptor) {
  return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

std::string ResolveLink(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  // A link may name a file that does not exist yet.
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

std::string TemporaryName(const std::string& path) {
  static std::atomic<int> count{0};
  return Concat(path, ".tmp.", getpid(), ".", count++);
}

}  // namespace

std::string ReadFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    CAFFE_CHECK(errno != ENOENT, "File not found: ", path);
    CAFFE_THROW("cannot open ", path, ": ", Reason());
  }
  struct stat status;
  CAFFE_CHECK(fstat(file.get(), &status) == 0, "cannot read ", path, ": ", Reason());
  CAFFE_CHECK(!S_ISDIR(status.st_mode), path, " is a folder, not a file");
  std::string bytes;
  if (S_ISREG(status.st_mode)) bytes.reserve(static_cast<size_t>(status.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    CAFFE_CHECK(count >= 0, "cannot read ", path, ": ", Reason());
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(ResolveLink(path)) {
  struct stat status;
  const bool exists = stat(path_.c_str(), &status) == 0;
  CAFFE_CHECK(!exists || !S_ISDIR(status.st_mode), "cannot write ", path, ": it is a folder");
  if (exists && !S_ISREG(status.st_mode)) {
    temporary_ = path_;
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary_ = TemporaryName(path_);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  CAFFE_CHECK(descriptor_ >= 0, "cannot write ", path, ": ", Reason(),
              " (its folder must exist and be writable)");
  // Keep the permissions of the file that is replaced; if they cannot be set, use the usual ones.
  if (exists && S_ISREG(status.st_mode) && fchmod(descriptor_, status.st_mode & 07777) != 0) {
    log::Debug(Concat(path, ": permissions are not kept: ", Reason()));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_ && temporary_ != path_ && unlink(temporary_.c_str()) != 0 && errno != ENOENT) {
    log::Warning(Concat("cannot remove ", temporary_, ": ", Reason()));
  }
}

void AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    CAFFE_CHECK(count >= 0, "cannot write ", path_, ": ", Reason());
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::Commit() {
  CAFFE_CHECK(!committed_, path_, " was already committed");
  CAFFE_CHECK(Flush(descriptor_), "cannot write ", path_, ": ", Reason());
  const int closing = descriptor_;
  descriptor_ = -1;
  CAFFE_CHECK(close(closing) == 0, "cannot write ", path_, ": ", Reason());
  if (temporary_ != path_) {
    CAFFE_CHECK(rename(temporary_.c_str(), path_.c_str()) == 0, "cannot rename ", temporary_,
                " to ", path_, ": ", Reason());
    committed_ = true;
    const std::string parent = std::filesystem::path(path_).parent_path().string();
    Descriptor folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC));
    // A folder without read permission can be written to but not flushed.
    CAFFE_CHECK(folder.get() < 0 ? errno == EACCES : Flush(folder.get()), "cannot flush ", parent,
                " after writing ", path_, ": ", Reason());
  }
  committed_ = true;
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

}  // namespace caffe
