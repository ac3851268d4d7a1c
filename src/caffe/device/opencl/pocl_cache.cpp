#include "caffe/device/opencl/pocl_cache.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/trusted_path.hpp"

namespace caffe::opencl {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "POCL_CACHE_DIR";
// A program takes less than 1 MiB, some of it for as long as the compiler runs.
constexpr uint64_t kScarceBytes = uint64_t{8} << 20;

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

// PoCL loads the libraries of its folder. It makes a folder for each program, and each folder that
// another user made when everybody could write there stays that user's.
std::string WhyUntrustedWithEntries(const fs::path& folder) {
  std::string why = WhyUntrusted(folder);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; why.empty() && !error && entry != end;
       entry.increment(error)) {
    why = WhyUntrusted(entry->path());
  }
  return why;
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
  const std::string unwritable = WhyUnwritable(Folder());
  const std::string reason = unwritable.empty() ? WhyUntrustedWithEntries(Folder()) : std::string();
  if (unwritable.empty() && reason.empty()) return;
  problem_ = Folder().string() + (unwritable.empty() ? " is not used, because " + reason
                                                     : " cannot be written (" + unwritable + ")");
  std::string why;
  replacement_ = MakeTemporaryFolder("cortado-pocl", &why).string();
  if (replacement_.empty()) {
    refusal_ = unwritable.empty()
                   ? Concat("PoCL's cache folder ", problem_, ", and nothing can replace it: ", why)
                   : "";
    return;
  }
  before_ = Variable(kVariable);
  ::setenv(kVariable, replacement_.c_str(), 1);
  folder_to_remove = replacement_;
  owner = ::getpid();
}

void PoclCache::Finish(bool is_there) {
  CAFFE_CHECK(!is_there || refusal_.empty(), refusal_,
              "; set POCL_CACHE_DIR to a folder that only you can write");
  if (replacement_.empty()) {
    // PoCL would take a folder that another user makes first, for example below /tmp.
    if (is_there && MakePrivateFolder(Folder()) == 0) {
      const std::string why = WhyUntrusted(Folder());
      CAFFE_CHECK(why.empty(), "PoCL's cache folder ", Folder().string(), " is not used, because ",
                  why);
    }
    return;
  }
  if (!is_there) {
    before_.empty() ? ::unsetenv(kVariable) : ::setenv(kVariable, before_.c_str(), 1);
    return RemoveFolder();
  }
  std::atexit(&RemoveFolder);
  log::Warning(Concat("PoCL's cache folder ", problem_, "; its programs go to ", replacement_,
                      " until this process ends; set POCL_CACHE_DIR to a permanent folder that "
                      "only you can write"));
}

PoclFailure ExplainPoclFailure() {
  const std::string folder = Folder().string();
  const std::string reason = WhyUnwritable(folder);
  if (!reason.empty()) {
    return {Concat("PoCL's cache folder ", folder, " cannot be written (", reason, ")"),
            "PoCL compiles in its cache folder; make room there, or set POCL_CACHE_DIR to a folder "
            "that only you can write"};
  }
  struct statvfs system;
  if (::statvfs(folder.c_str(), &system) == 0) {
    const uint64_t free = uint64_t{system.f_bavail} * system.f_frsize;
    if (free < kScarceBytes) {
      return {Concat("PoCL's cache folder ", folder, " has room for ", free >> 10, " KiB only"),
              "PoCL compiles in its cache folder; make room there, or set POCL_CACHE_DIR to a "
              "folder that only you can write"};
    }
  }
  return {"", Concat("PoCL compiles in its cache folder, ", folder,
                     " (POCL_CACHE_DIR); POCL_DEBUG=all logs the details")};
}

}  // namespace caffe::opencl
