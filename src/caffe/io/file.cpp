#include "caffe/io/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"

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
  void Release() { value_ = -1; }

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

// A hash of the host's name (FNV-1a), which every file system can store.
std::string HostMark() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  uint32_t hash = 2166136261u;
  for (const char* c = name; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 16777619u;
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", hash);
  return text;
}

// The path, quoted and with escapes if it has characters at an end that a reader would not see.
std::string Visible(const std::string& path) {
  const auto unseen = [](char c) { return static_cast<unsigned char>(c) <= 32; };
  if (path.empty() || (!unseen(path.front()) && !unseen(path.back()) &&
                       std::ranges::none_of(path, [](char c) { return c > 0 && c < 32; }))) {
    return path;
  }
  std::string text;
  for (const char c : path) {
    char code[8];
    std::snprintf(code, sizeof(code), c > 0 && c < 32 ? "\\x%02x" : "%c", c);
    text += code;
  }
  return "'" + text + "'";
}

// File systems store names of up to 255 bytes. A part of a longer name leaves room for the ending.
constexpr size_t kLongestName = 200;

std::string TemporaryName(const std::string& path) {
  static std::atomic<int> count{0};
  const size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  return Concat(path.substr(0, begin + kLongestName), ".tmp.", HostMark(), ".", getpid(), ".",
                count++);
}

bool AllDigits(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The process in the name of a temporary file of this host; 0 if it is not such a name.
pid_t ProcessInName(const std::string& name) {
  std::string_view rest = name;
  const auto take_last = [&rest] {
    const size_t dot = rest.rfind('.');
    if (dot == std::string_view::npos) return std::string_view();
    const std::string_view last = rest.substr(dot + 1);
    rest = rest.substr(0, dot);
    return last;
  };
  const std::string_view number = take_last(), process = take_last(), host = take_last();
  if (!AllDigits(number) || !AllDigits(process) || host.size() != 8 || host != HostMark() ||
      take_last() != "tmp" || rest.empty()) {
    return 0;
  }
  return static_cast<pid_t>(std::stol(std::string(process)));
}

// The names of the temporary files of this process. Its own number says nothing about a file: an
// earlier container with the same name may have left it.
class OwnFiles {
 public:
  static OwnFiles& Get() {
    static auto* const own = new OwnFiles;
    return *own;
  }
  void Add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.insert(name);
  }
  void Remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.erase(name);
  }
  bool Has(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return names_.contains(name);
  }
  // Whether this is the first call with the folder.
  bool Enters(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    return folders_.insert(folder).second;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_, folders_;
};

std::string NameOf(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Removes a temporary file or folder unless a process holds its lock.
bool RemoveUnlessLocked(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return false;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error;
}

// Flushes the names of the files in the folder of `path`. A folder without read permission can be
// written to but not flushed.
void FlushFolderOf(const std::string& path) {
  const std::string parent = FolderOf(path);
  Descriptor folder(open(parent.c_str(), O_RDONLY | O_CLOEXEC));
  CAFFE_CHECK(folder.get() < 0 ? errno == EACCES : Flush(folder.get()), "cannot flush ", parent,
              " after writing ", path, ": ", Reason());
}

// Names and protects the temporary file or folder of `path`, after those of ended processes next to
// it were removed.
std::string NewTemporaryName(const std::string& path) {
  if (OwnFiles::Get().Enters(FolderOf(path))) RemoveLeftovers(FolderOf(path));
  const std::string name = TemporaryName(path);
  OwnFiles::Get().Add(NameOf(name));
  return name;
}

// Locks a temporary file or folder. Without a lock, where the file system has none, the number of
// the process in its name protects it.
void Lock(int descriptor, const std::string& temporary) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    log::Debug(Concat(temporary, ": no lock: ", Reason()));
  }
}

}  // namespace

void CheckPath(const std::string& path) {
  CAFFE_CHECK(path.find('\0') == std::string::npos, path, ": a path cannot hold a zero byte");
}

int RemoveLeftovers(const std::string& folder) {
  int removed = 0;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const pid_t process = ProcessInName(name);
    if (process == 0 || OwnFiles::Get().Has(name)) continue;
    const bool ended = process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
    if (!ended || !RemoveUnlessLocked(entry->path().string())) continue;
    log::Info(Concat("Removed ", entry->path().string(),
                     ", which a process that was ended has left half-written"));
    ++removed;
  }
  return removed;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  CheckPath(path);
  // Without O_NONBLOCK, opening a named pipe waits until a program opens its other end.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    CAFFE_CHECK(errno != ENOENT, "File not found: ", Visible(path));
    CAFFE_THROW("cannot open ", path, ": ", Reason());
  }
  Descriptor owner(descriptor_);
  struct stat status;
  CAFFE_CHECK(fstat(descriptor_, &status) == 0, "cannot read ", path, ": ", Reason());
  CAFFE_CHECK(!S_ISDIR(status.st_mode), path, " is a folder, not a file");
  CAFFE_CHECK(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode), path,
              " is a device, not a file; give a file or a pipe");
  if (S_ISREG(status.st_mode)) size_ = status.st_size;
  owner.Release();
}

InputFile::~InputFile() { close(descriptor_); }

size_t InputFile::Read(char* target, size_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kStart(3), kSilence(60);
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const ssize_t count = read(descriptor_, target, bytes);
    if (count > 0) begun_ = true;
    if (count > 0 || (count == 0 && (begun_ || !is_pipe()))) return static_cast<size_t>(count);
    CAFFE_CHECK(count == 0 || errno == EINTR || errno == EAGAIN, "cannot read ", path_, ": ",
                Reason());
    if (!is_pipe() || (count < 0 && errno == EINTR)) continue;
    // Nothing was read so far (0), or a program has the pipe open but has not written (EAGAIN).
    const bool waits = count < 0;
    pollfd ready{descriptor_, POLLIN, 0};
    poll(&ready, 1, 100);
    if (!waits && (ready.revents & POLLHUP) && !(ready.revents & POLLIN)) return 0;  // it has ended
    CAFFE_CHECK(Clock::now() - begin < (waits ? kSilence : kStart), "cannot read ", path_,
                waits ? ": the program that writes to this pipe has written nothing for 60 s"
                      : ": it is a pipe to which no program writes");
  }
}

namespace {

// Appends up to `bytes` bytes; fewer only at the end.
void Append(InputFile* file, int64_t bytes, std::string* out) {
  char buffer[1 << 16];
  while (bytes > 0) {
    const size_t count =
        file->Read(buffer, static_cast<size_t>(std::min<int64_t>(sizeof(buffer), bytes)));
    if (count == 0) return;
    out->append(buffer, count);
    bytes -= static_cast<int64_t>(count);
  }
}

}  // namespace

std::string ReadFile(InputFile* file, int64_t most,
                     const std::function<void(std::string_view head)>& check) {
  constexpr int64_t kHead = 1 << 16;
  if (most < 0) most = file->is_pipe() ? kMostPiped : std::numeric_limits<int64_t>::max() - 1;
  CAFFE_CHECK(file->size() <= most, file->path(), " has ", file->size(), " bytes; at most ", most,
              " are read");
  return NamingMemory(file->path(), [&] {
    std::string bytes;
    Append(file, std::min(kHead, most + 1), &bytes);
    if (check) check(bytes);
    if (file->size() > 0) bytes.reserve(static_cast<size_t>(file->size()));
    Append(file, most + 1 - static_cast<int64_t>(bytes.size()), &bytes);
    CAFFE_CHECK(static_cast<int64_t>(bytes.size()) <= most, file->path(), " has more than ", most,
                " bytes; at most ", most, " are read",
                file->is_pipe() ? " from a pipe: write them to a file, and give that" : "");
    return bytes;
  });
}

std::string ReadFile(const std::string& path, int64_t most,
                     const std::function<void(std::string_view head)>& check) {
  InputFile file(path);
  return ReadFile(&file, most, check);
}

AtomicFile::AtomicFile(const std::string& path) : path_(ResolveLink(path)) {
  CheckPath(path);
  struct stat status;
  const bool exists = stat(path_.c_str(), &status) == 0;
  // The temporary name is shorter than a file name that is too long.
  CAFFE_CHECK(exists || errno != ENAMETOOLONG, "cannot write ", path, ": ", Reason());
  CAFFE_CHECK(!exists || !S_ISDIR(status.st_mode), "cannot write ", path, ": it is a folder");
  if (exists && !S_ISREG(status.st_mode)) {
    temporary_ = path_;
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary_ = NewTemporaryName(path_);
    // HDF5 reads back what it has written.
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int reason = errno;
    if (descriptor_ < 0) {
      OwnFiles::Get().Remove(NameOf(temporary_));
    } else {
      lock_ = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
      Lock(descriptor_, temporary_);
    }
    errno = reason;
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
  if (lock_ >= 0) close(lock_);
  if (!committed_ && temporary_ != path_ && unlink(temporary_.c_str()) != 0 && errno != ENOENT) {
    log::Warning(Concat("cannot remove ", temporary_, ": ", Reason()));
  }
  OwnFiles::Get().Remove(NameOf(temporary_));
}

void AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    CAFFE_CHECK(count >= 0, "cannot write ", path_, ": ", Reason());
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::Finish() {
  if (finished_) return;
  CAFFE_CHECK(Flush(descriptor_), "cannot write ", path_, ": ", Reason());
  const int closing = descriptor_;
  descriptor_ = -1;
  CAFFE_CHECK(close(closing) == 0, "cannot write ", path_, ": ", Reason());
  finished_ = true;
}

void AtomicFile::Rename() {
  if (temporary_ == path_) {
    committed_ = true;
    return;
  }
  // HDF5 refuses to read a file that is locked.
  if (lock_ >= 0) close(std::exchange(lock_, -1));
  CAFFE_CHECK(rename(temporary_.c_str(), path_.c_str()) == 0, "cannot rename ", temporary_, " to ",
              path_, ": ", Reason());
  committed_ = true;
  FlushFolderOf(path_);
}

void AtomicFile::KeepOlder() {
  if (temporary_ == path_) return;
  const std::string name = TemporaryName(path_);
  OwnFiles::Get().Add(NameOf(name));
  if (link(path_.c_str(), name.c_str()) == 0) {
    older_ = name;
    return;
  }
  replaces_ = errno != ENOENT;
  if (replaces_) log::Debug(Concat(path_, ": no second name: ", Reason()));
  OwnFiles::Get().Remove(NameOf(name));
}

void AtomicFile::ForgetOlder() {
  if (older_.empty()) return;
  if (unlink(older_.c_str()) != 0) log::Warning(Concat("cannot remove ", older_, ": ", Reason()));
  OwnFiles::Get().Remove(NameOf(std::exchange(older_, "")));
}

void AtomicFile::BringBackOlder() {
  // Without hard links, where the file system has none, the new file is better than none.
  if (!committed_ || temporary_ == path_ || replaces_) return;
  const int failed = older_.empty() ? unlink(path_.c_str()) : rename(older_.c_str(), path_.c_str());
  if (failed) {
    log::Warning(older_.empty() ? Concat("cannot remove ", path_, ": ", Reason())
                                : Concat("cannot rename ", older_, " to ", path_, ": ", Reason()));
    return;
  }
  if (!older_.empty()) OwnFiles::Get().Remove(NameOf(std::exchange(older_, "")));
}

void AtomicFile::CommitTogether(std::initializer_list<AtomicFile*> files) {
  for (AtomicFile* file : files) {
    CAFFE_CHECK(!file->committed_, file->path_, " was already committed");
    file->Finish();
  }
  for (AtomicFile* file : files) file->KeepOlder();
  try {
    for (AtomicFile* file : files) file->Rename();
  } catch (...) {
    for (AtomicFile* file : files) file->BringBackOlder();
    for (AtomicFile* file : files) file->ForgetOlder();
    throw;
  }
  for (AtomicFile* file : files) file->ForgetOlder();
}

void AtomicFile::Commit() { CommitTogether({this}); }

AtomicFolder::AtomicFolder(const std::string& path) : path_(path) {
  CheckPath(path_);
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  struct stat status;
  CAFFE_CHECK(lstat(path_.c_str(), &status) != 0, "cannot create ", path_,
              ": it exists already; remove it, or choose another name");
  CAFFE_CHECK(errno != ENAMETOOLONG, "cannot create ", path_, ": ", Reason());
  temporary_ = NewTemporaryName(path_);
  if (mkdir(temporary_.c_str(), 0777) != 0) {
    const std::string reason = Reason();
    OwnFiles::Get().Remove(NameOf(temporary_));
    CAFFE_THROW("cannot create ", path_, ": cannot make the folder ", temporary_, ": ", reason);
  }
  lock_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) Lock(lock_, temporary_);
}

AtomicFolder::~AtomicFolder() {
  if (lock_ >= 0) close(lock_);
  std::error_code error;
  std::filesystem::remove_all(temporary_, error);
  if (error) log::Warning(Concat("cannot remove ", temporary_, ": ", error.message()));
  OwnFiles::Get().Remove(NameOf(temporary_));
}

void AtomicFolder::Commit() {
  CAFFE_CHECK(lock_ < 0 || Flush(lock_), "cannot create ", path_, ": ", Reason());
  CAFFE_CHECK(rename(temporary_.c_str(), path_.c_str()) == 0, "cannot rename ", temporary_, " to ",
              path_, ": ", Reason());
  try {
    FlushFolderOf(path_);
  } catch (const Error&) {
    rename(path_.c_str(), temporary_.c_str());  // to be removed
    throw;
  }
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

}  // namespace caffe
