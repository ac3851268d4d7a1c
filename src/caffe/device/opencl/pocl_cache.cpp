#include "caffe/device/opencl/pocl_cache.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe::opencl {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "POCL_CACHE_DIR";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path Folder() {
  if (const std::string own = Variable(kVariable); !own.empty()) return own;
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "pocl" / "kcache";
  }
  if (const std::string home = Variable("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "pocl" / "kcache";
  }
  return "/tmp/pocl/kcache";
}

// The reason why files cannot be created in a folder or in the parents it needs; empty if they can.
// Changes nothing.
std::string WhyUnwritable(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, error)) return folder.string() + " is not a directory";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return folder.string() + ": " + std::strerror(errno);
  }
  return "";
}

std::string MakeTemporaryFolder() {
  for (const std::string& parent : {Variable("TMPDIR"), std::string("/tmp"),
                                    std::string("/var/tmp"), std::string("/dev/shm")}) {
    if (parent.empty()) continue;
    std::string name = parent + "/cortado-pocl-XXXXXX";
    if (::mkdtemp(name.data())) return name;
  }
  return "";
}

std::string folder_to_remove;
pid_t owner = 0;

void RemoveFolder() {
  if (owner != ::getpid()) return;  // the parent of a forked child still uses it
  std::error_code ignored;
  fs::remove_all(folder_to_remove, ignored);
}

}  // namespace

PoclCache::PoclCache() {
  const std::string reason = WhyUnwritable(Folder());
  if (reason.empty()) return;
  replacement_ = MakeTemporaryFolder();
  if (replacement_.empty()) return;
  unwritable_ = Concat(Folder().string(), " cannot be written (", reason, ")");
  before_ = Variable(kVariable);
  ::setenv(kVariable, replacement_.c_str(), 1);
  folder_to_remove = replacement_;
  owner = ::getpid();
}

void PoclCache::Finish(bool is_there) {
  if (replacement_.empty()) return;
  if (!is_there) {
    before_.empty() ? ::unsetenv(kVariable) : ::setenv(kVariable, before_.c_str(), 1);
    return RemoveFolder();
  }
  std::atexit(&RemoveFolder);
  log::Warning(Concat("PoCL's cache folder ", unwritable_, "; its programs go to ", replacement_,
                      " until this process ends; set POCL_CACHE_DIR to a permanent folder"));
}

std::string PoclCacheAdvice() {
  const std::string folder = Folder().string(), reason = WhyUnwritable(folder);
  if (!reason.empty()) {
    return Concat("PoCL needs a cache folder to compile, and ", folder, " cannot be written (",
                  reason, "); set POCL_CACHE_DIR to a writable folder");
  }
  return Concat("PoCL compiles in its cache folder, ", folder,
                " (POCL_CACHE_DIR); check its free space; POCL_DEBUG=all logs the details");
}

}  // namespace caffe::opencl
