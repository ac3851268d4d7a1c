// The functions of the C library that change files, for this program and the libraries that it
// loads.
#undef _FORTIFY_SOURCE
#include "durability/file_changes.hpp"

#include <gtest/gtest.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "caffe/core/error.hpp"

// Values of <fcntl.h>, whose declarations of open do not fit those below.
#ifndef AT_FDCWD
#define AT_FDCWD (-100)
#endif
#define FLAG_CREATE 0100
#define FLAG_TRUNCATE 01000

namespace {

using caffe::Fault;

struct Plan {
  std::string folder;
  Fault fault;
  int64_t step;
  std::atomic<int64_t> count{0};
  std::string fault_at;
};

std::atomic<Plan*> plan{nullptr};
thread_local bool looking = false;  // calls of this file itself are not counted

enum class Call {
  kWrite,    // needs space, and can be done by halves
  kCreates,  // needs space
  kOther,    // can fail on a full disk, but needs no space
  kRemoves,  // cannot fail on a full disk
};

std::string PathOf(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

std::string Absolute(const char* path) {
  if (path[0] == '/') return path;
  char folder[4096];
  return getcwd(folder, sizeof(folder)) ? std::string(folder) + "/" + path : path;
}

enum class Action { kGoOn, kKill, kFail };

// The event at a call that changes `path`.
Action At(Call call, const std::string& name, const std::string& path) {
  Plan* const now = plan.load();
  if (!path.starts_with(now->folder)) return Action::kGoOn;
  const int64_t step = now->count++;
  if (now->fault == Fault::kNone || step < now->step) return Action::kGoOn;
  const bool here = step == now->step;
  if (here) now->fault_at = name + " " + path;
  switch (now->fault) {
    case Fault::kKill: return here ? Action::kKill : Action::kGoOn;
    case Fault::kFullDisk:
      return call == Call::kWrite || call == Call::kCreates ? Action::kFail : Action::kGoOn;
    default: return here && call != Call::kRemoves ? Action::kFail : Action::kGoOn;
  }
}

// The result of `work`, or -1 with ENOSPC.
template <class Path, class Work>
auto Change(Call call, const char* name, const Path& path, const Work& work) -> decltype(work()) {
  if (!plan.load() || looking) return work();
  looking = true;
  const Action action = At(call, name, path());
  looking = false;
  if (action == Action::kKill) syscall(SYS_kill, getpid(), SIGKILL);
  if (action == Action::kGoOn) return work();
  errno = ENOSPC;
  return -1;
}

// Writes half of the bytes before the process is killed or the call fails.
template <class Work>
ssize_t Write(const char* name, int descriptor, size_t bytes, const Work& work) {
  if (!plan.load() || looking) return work(bytes);
  looking = true;
  const Action action = At(Call::kWrite, name, PathOf(descriptor));
  looking = false;
  if (action == Action::kGoOn) return work(bytes);
  if (bytes > 1) work(bytes / 2);
  if (action == Action::kKill) syscall(SYS_kill, getpid(), SIGKILL);
  errno = ENOSPC;
  return -1;
}

int Open(int folder, const char* path, int flags, unsigned mode) {
  const auto work = [&] {
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  };
  if (!(flags & (FLAG_CREATE | FLAG_TRUNCATE))) return work();
  // A file that exists needs no space.
  const bool creates = syscall(SYS_faccessat, folder, path, 0) != 0;
  if (!creates && !(flags & FLAG_TRUNCATE)) return work();
  return Change(
      creates ? Call::kCreates : Call::kOther, "open", [&] { return Absolute(path); }, work);
}

}  // namespace

#define SHOWN extern "C" __attribute__((visibility("default")))
#define MODE                                    \
  va_list rest;                                 \
  va_start(rest, flags);                        \
  const unsigned mode = va_arg(rest, unsigned); \
  va_end(rest)

SHOWN int open(const char* path, int flags, ...) {
  MODE;
  return Open(AT_FDCWD, path, flags, mode);
}
SHOWN int open64(const char* path, int flags, ...) {
  MODE;
  return Open(AT_FDCWD, path, flags, mode);
}
SHOWN int openat(int folder, const char* path, int flags, ...) {
  MODE;
  return Open(folder, path, flags, mode);
}
SHOWN int openat64(int folder, const char* path, int flags, ...) {
  MODE;
  return Open(folder, path, flags, mode);
}
SHOWN ssize_t write(int descriptor, const void* bytes, size_t count) {
  return Write("write", descriptor, count,
               [&](size_t n) { return syscall(SYS_write, descriptor, bytes, n); });
}
SHOWN ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t at) {
  return Write("pwrite", descriptor, count,
               [&](size_t n) { return syscall(SYS_pwrite64, descriptor, bytes, n, at); });
}
SHOWN ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t at) {
  return Write("pwrite", descriptor, count,
               [&](size_t n) { return syscall(SYS_pwrite64, descriptor, bytes, n, at); });
}
// All of the bytes or none: a part of them would need other vectors.
SHOWN ssize_t writev(int descriptor, const iovec* parts, int count) {
  return Change(
      Call::kWrite, "writev", [&] { return PathOf(descriptor); },
      [&] { return syscall(SYS_writev, descriptor, parts, count); });
}
SHOWN ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t at) {
  return Change(
      Call::kWrite, "pwritev", [&] { return PathOf(descriptor); },
      [&] { return syscall(SYS_pwritev, descriptor, parts, count, at, 0); });
}
SHOWN ssize_t pwritev64(int descriptor, const iovec* parts, int count, off64_t at) {
  return pwritev(descriptor, parts, count, at);
}
// Nothing is flushed: the system keeps the bytes of a process that was killed, and a disk is slow.
SHOWN int fsync(int descriptor) {
  return Change(
      Call::kOther, "fsync", [&] { return PathOf(descriptor); }, [] { return 0; });
}
SHOWN int fdatasync(int descriptor) {
  return Change(
      Call::kOther, "fdatasync", [&] { return PathOf(descriptor); }, [] { return 0; });
}
SHOWN int ftruncate(int descriptor, off_t bytes) noexcept {
  return Change(
      Call::kCreates, "ftruncate", [&] { return PathOf(descriptor); },
      [&] { return static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes)); });
}
SHOWN int ftruncate64(int descriptor, off64_t bytes) noexcept {
  return ftruncate(descriptor, bytes);
}
SHOWN int rename(const char* from, const char* to) noexcept {
  return Change(
      Call::kOther, "rename", [&] { return Absolute(to); },
      [&] { return static_cast<int>(syscall(SYS_rename, from, to)); });
}
SHOWN int link(const char* from, const char* to) noexcept {
  return Change(
      Call::kCreates, "link", [&] { return Absolute(to); },
      [&] { return static_cast<int>(syscall(SYS_link, from, to)); });
}
SHOWN int mkdir(const char* path, mode_t mode) noexcept {
  return Change(
      Call::kCreates, "mkdir", [&] { return Absolute(path); },
      [&] { return static_cast<int>(syscall(SYS_mkdir, path, mode)); });
}
SHOWN int unlink(const char* path) noexcept {
  return Change(
      Call::kRemoves, "unlink", [&] { return Absolute(path); },
      [&] { return static_cast<int>(syscall(SYS_unlink, path)); });
}
SHOWN int unlinkat(int folder, const char* path, int flags) noexcept {
  const auto whole = [&] {
    return folder == AT_FDCWD ? Absolute(path) : PathOf(folder) + "/" + path;
  };
  return Change(Call::kRemoves, "unlinkat", whole,
                [&] { return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)); });
}
SHOWN int rmdir(const char* path) noexcept {
  return Change(
      Call::kRemoves, "rmdir", [&] { return Absolute(path); },
      [&] { return static_cast<int>(syscall(SYS_rmdir, path)); });
}

namespace caffe {

FileChanges::FileChanges(const std::string& folder, Fault fault, int64_t step) {
  delete plan.exchange(new Plan{folder, fault, step});
}

FileChanges::~FileChanges() { delete plan.exchange(nullptr); }

int64_t FileChanges::count() const { return plan.load()->count; }

std::string FileChanges::fault_at() const { return plan.load()->fault_at; }

bool KilledAt(const std::string& folder, int64_t step, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int status = 0;
    try {
      const FileChanges changes(folder, Fault::kKill, step);
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      status = 1;
    }
    _exit(status);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "step " << step << ": status " << status;
  return false;
}

}  // namespace caffe
