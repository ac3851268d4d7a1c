#include "trusted_path.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;
constexpr int kMostLinks = 40;  // as in the kernel
constexpr int kMostLooks = 8;
constexpr size_t kProbeBytes = size_t{1} << 16;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A path as one word of a shell's command.
std::string Quoted(const fs::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string UserName(uid_t user) {
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> buffer(1 << 14);
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found) {
    return Concat(found->pw_name, " (uid ", user, ")");
  }
  return Concat("uid ", user);
}

std::string ModeText(mode_t mode) {
  std::string digits = "0000";
  for (int i = 0; i < 4; ++i) digits[i] = static_cast<char>('0' + ((mode >> (9 - 3 * i)) & 7));
  return digits;
}

enum class Role { kOnTheWay, kLink, kCode };

std::string Complaint(const struct stat& found, const fs::path& path, Role role) {
  const uid_t user = ::geteuid();
  const bool foreign = found.st_uid != 0 && found.st_uid != user;
  mode_t writable = found.st_mode & kWritableByOthers;
  // The mode of a link has no meaning.
  if (role == Role::kLink || (role == Role::kOnTheWay && (found.st_mode & S_ISVTX))) writable = 0;
  if (!foreign && !writable) return "";
  const char* what = S_ISDIR(found.st_mode)   ? "folder "
                     : S_ISLNK(found.st_mode) ? "symbolic link "
                                              : "file ";
  std::string text = Concat("the ", what, path.string(), role == Role::kCode ? "" : " on the way",
                            " belongs to ", UserName(found.st_uid), " and has mode ",
                            ModeText(found.st_mode), ", so that code of other users could run; ");
  if (foreign) {
    text += Concat("it has to belong to ", UserName(user), user == 0 ? "" : " or to root");
  } else {
    text += Concat(writable == S_IWGRP   ? "its group"
                   : writable == S_IWOTH ? "others"
                                         : "neither its group nor others",
                   writable == kWritableByOthers ? " may write it" : " must not write it");
  }
  // Only its owner can change a folder on the way that belongs to another user.
  if (role != Role::kCode && foreign) return text;
  const char* depth = role == Role::kCode && S_ISDIR(found.st_mode) ? " -R " : " ";
  std::string command;
  if (foreign) command = Concat("chown", depth, user, " ", Quoted(path));
  if (writable) {
    const char* change = writable == S_IWGRP ? "g-w" : writable == S_IWOTH ? "o-w" : "go-w";
    command += Concat(foreign ? " && " : "", "chmod", depth, change, " ", Quoted(path));
  }
  if (role == Role::kCode) {
    return Concat(text, ": remove it, or, if you trust all of its content, run ", command);
  }
  return Concat(text, ": run ", command, writable & S_IWOTH ? ", or chmod +t if many use it" : "");
}

void Prepend(const fs::path& path, std::vector<std::string>* reversed_names) {
  std::vector<std::string> names;
  for (const fs::path& part : path.relative_path()) {
    if (!part.empty() && part != ".") names.push_back(part.string());
  }
  reversed_names->insert(reversed_names->end(), names.rbegin(), names.rend());
}

std::optional<struct stat> StatusOf(const std::string& path) {
  struct stat status;
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool Same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// A file that vanishes when it is closed.
Descriptor MakeNamelessFile(const fs::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  std::string name = folder / ".caffe-probe-XXXXXX";
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file.valid()) ::unlink(name.c_str());
  return file;
}

}  // namespace

std::string WhyUntrusted(const fs::path& path) {
  constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  std::error_code unknown;
  std::vector<std::string> names;  // those that are still to be followed, the next one last
  Prepend(fs::absolute(path, unknown), &names);
  const auto home = StatusOf(Variable("HOME"));
  Descriptor here(::open("/", kFlags));
  fs::path at = "/";
  struct stat status;
  if (!here.valid() || ::fstat(here.get(), &status) != 0) return "";
  std::string complaint = Complaint(status, at, names.empty() ? Role::kCode : Role::kOnTheWay);
  int links = 0;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    Descriptor next(::openat(here.get(), name.c_str(), kFlags));
    // A path that does not exist, or cannot be reached, brings no code; one that can be made there
    // later can.
    if (!next.valid() || ::fstat(next.get(), &status) != 0) return complaint;
    const fs::path there = name == ".." ? at.parent_path() : at / name;
    // Beyond these, HOME no longer lies below the folder of the complaint.
    if (!complaint.empty() && (S_ISLNK(status.st_mode) || name == "..")) return complaint;
    if (S_ISLNK(status.st_mode)) {
      char target[PATH_MAX];
      const ssize_t length = ::readlinkat(next.get(), "", target, sizeof target);
      if (length <= 0 || ++links > kMostLinks) return "";
      if (auto of_link = Complaint(status, there, Role::kLink); !of_link.empty()) return of_link;
      const fs::path to(std::string(target, static_cast<size_t>(length)));
      Prepend(to, &names);
      if (to.is_absolute()) {
        here = Descriptor(::open("/", kFlags));
        at = "/";
      }
      continue;
    }
    here = std::move(next);
    at = there;
    if (home && Same(*home, status)) complaint.clear();
    if (complaint.empty()) {
      complaint = Complaint(status, at, names.empty() ? Role::kCode : Role::kOnTheWay);
    }
  }
  // Some links of /proc lead elsewhere than their texts say. Another process of this user may
  // replace the file between two looks, but not each time.
  for (int looks = 0; complaint.empty() && links > 0; ++looks) {
    const auto followed = StatusOf(path.string()), named = StatusOf(at.string());
    if (!followed || (named && Same(*followed, *named))) break;
    if (looks == kMostLooks) return Concat(path.string(), " leads elsewhere than to ", at.string());
  }
  return complaint;
}

int MakePrivateFolder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return 0;
  if (folder.has_relative_path()) {
    if (const int code = MakePrivateFolder(folder.parent_path())) return code;
  }
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

fs::path MakeTemporaryFolder(const std::string& name, std::string* why) {
  why->clear();
  for (const std::string& parent : {Variable("TMPDIR"), std::string("/tmp"),
                                    std::string("/var/tmp"), std::string("/dev/shm")}) {
    struct statvfs system;
    if (parent.empty()) continue;
    std::string reason = WhyUnwritable(parent), made = parent + "/" + name + "-XXXXXX";
    if (reason.empty() && ::statvfs(parent.c_str(), &system) == 0 && system.f_flag & ST_NOEXEC) {
      reason = parent + " is mounted with noexec";
    }
    if (reason.empty() && !::mkdtemp(made.data())) {
      reason = Concat(parent, ": ", std::strerror(errno));
    }
    if (reason.empty()) {
      reason = WhyUntrusted(made);
      if (reason.empty()) return made;
      ::rmdir(made.c_str());
    }
    *why += (why->empty() ? "" : "\n") + reason;
  }
  return {};
}

std::string WhyUnwritable(const fs::path& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, error)) return folder.string() + " is not a directory";
  const Descriptor file = MakeNamelessFile(folder);
  if (!file.valid()) return Concat(folder.string(), ": ", std::strerror(errno));
  const std::string bytes(kProbeBytes, 'x');
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(file.get(), &bytes[written], bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Concat(folder.string(), ": ", std::strerror(count < 0 ? errno : ENOSPC));
    written += static_cast<size_t>(count);
  }
  return "";
}

}  // namespace caffe
