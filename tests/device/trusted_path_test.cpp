#include "caffe/device/trusted_path.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534, kSomebody = 65533;

bool IsRoot() { return ::geteuid() == 0; }

// The exit status of work in a child, as another user if `user` is not 0.
int InChild(uid_t user, const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (user != 0 && ::seteuid(user) != 0) ::_exit(77);
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TrustedPathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = std::getenv("HOME")) home_ = home;
    std::string name = testing::TempDir() + "trusted-path-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = fs::canonical(name);
    ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
    if (const std::string why = WhyUntrusted(root_); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    home_.empty() ? ::unsetenv("HOME") : ::setenv("HOME", home_.c_str(), 1);
    fs::remove_all(root_);
  }

  fs::path Folder(const std::string& name, mode_t mode = 0755, uid_t user = ::geteuid()) {
    const fs::path path = root_ / name;
    fs::create_directories(path);
    Own(path, mode, user);
    return path;
  }
  fs::path File(const std::string& name, mode_t mode = 0644, uid_t user = ::geteuid()) {
    std::ofstream(root_ / name) << "code";
    Own(root_ / name, mode, user);
    return root_ / name;
  }
  void Own(const fs::path& path, mode_t mode, uid_t user) {
    ASSERT_TRUE(user == ::geteuid() || ::chown(path.c_str(), user, user) == 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }

  fs::path root_;
  std::string home_;
};

TEST_F(TrustedPathTest, OthersMustNotWriteIt) {
  for (const mode_t mode : {0700, 0755, 0750, 0500, 0555, 0770, 0775, 0757, 0777, 0720, 0702, 01777,
                            02775, 02755, 01755}) {
    const bool open = (mode & 022) != 0, sticky = (mode & 01000) != 0;
    EXPECT_EQ(WhyUntrusted(Folder("folder", mode)).empty(), !open) << std::oct << mode;
    EXPECT_EQ(WhyUntrusted(File("file", mode)).empty(), !open) << std::oct << mode;
    const fs::path below = Folder("way") / "below";
    fs::create_directories(below);
    Own(root_ / "way", mode, ::geteuid());
    EXPECT_EQ(WhyUntrusted(below).empty(), !open || sticky) << std::oct << mode;
    EXPECT_EQ(WhyUntrusted(below / "missing").empty(), !open || sticky) << std::oct << mode;
  }
}

TEST_F(TrustedPathTest, ItBelongsToTheUserOrToRoot) {
  if (!IsRoot()) GTEST_SKIP() << "only root can give files to other users";
  for (const uid_t owner : {uid_t{0}, kNobody, kSomebody}) {
    for (const uid_t user : {uid_t{0}, kNobody}) {
      for (const mode_t mode : {0755, 0775, 0777, 01777}) {
        const bool known = owner == 0 || owner == user, open = (mode & 022) != 0;
        const fs::path folder = Folder("folder", mode, owner), file = File("file", mode, owner);
        const fs::path way = Folder("way", 0755, 0), below = Folder("way/below", 0755, user);
        Own(way, mode, owner);
        const int status = InChild(user, [&] {
          const bool trusted = known && !open;
          if (WhyUntrusted(folder).empty() != trusted) return 1;
          if (WhyUntrusted(file).empty() != trusted) return 2;
          return WhyUntrusted(below).empty() == (known && (!open || mode & 01000)) ? 0 : 3;
        });
        EXPECT_EQ(status, 0) << "owner " << owner << ", user " << user << ", mode " << std::oct
                             << mode;
      }
    }
  }
}

TEST_F(TrustedPathTest, TheTextNamesOwnerAndModeAndTheCure) {
  const fs::path group = Folder("g", 0775), all = Folder("a b's", 0777), file = File("f", 0646);
  const std::string user = Concat("uid ", ::geteuid());
  std::string why = WhyUntrusted(group);
  for (const std::string& part : {"folder " + group.string(), user, std::string("mode 0775"),
                                  "chmod -R g-w '" + group.string() + "'"}) {
    EXPECT_TRUE(Holds(why, part)) << why << " lacks " << part;
  }
  why = WhyUntrusted(all);
  EXPECT_TRUE(Holds(why, "chmod -R go-w '" + (root_ / "a b'\\''s'").string())) << why;
  why = WhyUntrusted(file);
  EXPECT_TRUE(Holds(why, "file " + file.string())) << why;
  EXPECT_TRUE(Holds(why, "chmod o-w '")) << why;
  fs::create_directories(all / "below");
  why = WhyUntrusted(all / "below");
  EXPECT_TRUE(Holds(why, "folder " + all.string() + " on the way")) << why;
  EXPECT_FALSE(Holds(why, " -R ")) << why;
  if (!IsRoot()) GTEST_SKIP() << "only root can give files to other users";
  why = WhyUntrusted(Folder("n", 0777, kNobody));
  EXPECT_TRUE(Holds(why, Concat("uid ", kNobody))) << why;
  EXPECT_TRUE(Holds(why, Concat("chown -R 0 '", (root_ / "n").string(), "' && chmod -R go-w '")))
      << why;
}

TEST_F(TrustedPathTest, LinksAreFollowed) {
  const fs::path good = Folder("good"), bad = Folder("bad", 0777);
  fs::create_directories(good / "code");
  fs::create_directories(bad / "code");
  fs::create_directory_symlink(good / "code", root_ / "to-good");
  fs::create_directory_symlink("good/code", root_ / "relative");
  fs::create_directory_symlink(bad / "code", root_ / "to-bad");
  fs::create_directory_symlink(good / "code", bad / "back");
  fs::create_directory_symlink(root_ / "missing", root_ / "to-nothing");
  fs::create_directory_symlink(root_ / "loop", root_ / "loop");
  EXPECT_EQ(WhyUntrusted(root_ / "to-good"), "");
  EXPECT_EQ(WhyUntrusted(root_ / "relative"), "");
  EXPECT_EQ(WhyUntrusted(root_ / "relative/.././code/"), "");
  EXPECT_EQ(WhyUntrusted(root_ / "to-nothing"), "");
  EXPECT_EQ(WhyUntrusted(root_ / "loop"), "");
  EXPECT_TRUE(Holds(WhyUntrusted(root_ / "to-bad"), bad.string() + " on the way"));
  EXPECT_TRUE(Holds(WhyUntrusted(bad / "back"), bad.string() + " on the way"))
      << "the link can be replaced";
  EXPECT_TRUE(Holds(WhyUntrusted(bad / "code/../../good/code"), bad.string() + " on the way"));
  if (!IsRoot()) GTEST_SKIP() << "only root can give links to other users";
  fs::create_directory_symlink(good / "code", Folder("sticky", 01777) / "link");
  EXPECT_EQ(WhyUntrusted(root_ / "sticky/link"), "");
  ASSERT_EQ(::lchown((root_ / "sticky/link").c_str(), kNobody, kNobody), 0);
  EXPECT_TRUE(Holds(WhyUntrusted(root_ / "sticky/link"), "symbolic link "));
}

TEST_F(TrustedPathTest, FoldersAboveTheHomeFolderDoNotMatter) {
  const fs::path way = Folder("way", 0777), home = Folder("way/home", 0700);
  fs::create_directories(home / "code");
  EXPECT_NE(WhyUntrusted(home / "code"), "");
  ::setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(WhyUntrusted(home / "code"), "");
  EXPECT_EQ(WhyUntrusted(home / "missing"), "");
  EXPECT_NE(WhyUntrusted(way / "other"), "");
  // Who can write `way` decides where this link leads, also below the home folder.
  fs::create_directory_symlink(home / "code", way / "link");
  EXPECT_NE(WhyUntrusted(way / "link"), "");
  ASSERT_EQ(::chmod(home.c_str(), 0775), 0);
  EXPECT_TRUE(Holds(WhyUntrusted(home / "code"), home.string() + " on the way"));
}

TEST_F(TrustedPathTest, RelativePathsAndTheRootAreChecked) {
  const fs::path before = fs::current_path();
  fs::current_path(Folder("here", 0777));
  EXPECT_TRUE(Holds(WhyUntrusted("code"), (root_ / "here").string()));
  EXPECT_TRUE(Holds(WhyUntrusted("."), (root_ / "here").string()));
  fs::current_path(before);
  EXPECT_EQ(WhyUntrusted("/"), "");
}

// As two processes of one user that set one damaged file aside.
TEST_F(TrustedPathTest, AFileMayBeReplacedDuringTheCheck) {
  const fs::path file = File("programs.db"), link = root_ / "link";
  fs::create_symlink(root_, link);
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int i = 0; !done; ++i) {
      const fs::path next = File(Concat("next", i % 2));
      if (i % 3 == 0) fs::remove(file);
      fs::rename(next, file);
    }
  });
  std::string why;
  for (int i = 0; i < 3000 && why.empty(); ++i) {
    for (const fs::path& path : {file, link / "programs.db"}) why += WhyUntrusted(path);
  }
  done = true;
  other.join();
  EXPECT_EQ(why, "");
}

TEST_F(TrustedPathTest, LinksOfProcThatLeadElsewhereAreSeen) {
  const fs::path folder = Folder("gone"), other = root_ / "other";
  const int open = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(open, 0);
  // The text of the link is the name that the folder had when it was removed, and " (deleted)".
  fs::remove(folder);
  Folder("gone (deleted)");
  EXPECT_NE(WhyUntrusted(Concat("/proc/self/fd/", open)), "");
  ::close(open);
}

TEST_F(TrustedPathTest, AFolderIsWritableIfFilesCanBeMadeInIt) {
  const fs::path folder = Folder("folder"), file = File("file");
  EXPECT_EQ(WhyUnwritable(folder), "");
  EXPECT_EQ(WhyUnwritable(folder / "deeper/and/deeper"), "");
  EXPECT_TRUE(fs::is_empty(folder)) << "the probe leaves nothing";
  EXPECT_TRUE(Holds(WhyUnwritable(file), "is not a directory"));
  EXPECT_TRUE(Holds(WhyUnwritable(file / "below"), "is not a directory"));
  // Root has every right there, and the kernel makes no files.
  EXPECT_TRUE(Holds(WhyUnwritable("/proc/none"), "/proc: "));
}

TEST_F(TrustedPathTest, AFullDiskIsNotWritable) {
  const fs::path folder = Folder("disk");
  const int status = InChild(0, [&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.c_str(), "tmpfs", 0, "size=128k") != 0) {
      return 77;
    }
    if (!WhyUnwritable(folder).empty()) return 1;
    std::ofstream(folder / "filler") << std::string(100000, 'x');
    return Holds(WhyUnwritable(folder), "No space left on device") ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "cannot mount a file system";
  EXPECT_EQ(status, 0);
}

TEST_F(TrustedPathTest, FoldersAreMadePrivate) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(MakePrivateFolder(root_ / "a/b/c"), 0);
  EXPECT_EQ(MakePrivateFolder(root_ / "a"), 0);
  ::umask(before);
  for (const char* name : {"a", "a/b", "a/b/c"}) {
    EXPECT_EQ(static_cast<int>(fs::status(root_ / name).permissions()), 0700) << name;
  }
  EXPECT_EQ(MakePrivateFolder(File("file")), 0);
  EXPECT_EQ(MakePrivateFolder(root_ / "file/below"), ENOTDIR);
}

TEST_F(TrustedPathTest, TemporaryFoldersArePrivate) {
  const char* const value = std::getenv("TMPDIR");
  const std::string before = value ? value : "";
  std::string why;
  ::setenv("TMPDIR", Folder("open", 0777).c_str(), 1);
  const fs::path elsewhere = MakeTemporaryFolder("name", &why);
  EXPECT_TRUE(fs::is_empty(root_ / "open"));
  EXPECT_NE(elsewhere.parent_path(), root_ / "open");
  ::setenv("TMPDIR", Folder("sticky", 01777).c_str(), 1);
  const fs::path folder = MakeTemporaryFolder("name", &why);
  EXPECT_EQ(folder.parent_path(), root_ / "sticky") << why;
  EXPECT_EQ(WhyUntrusted(folder), "");
  EXPECT_EQ(static_cast<int>(fs::status(folder).permissions()), 0700);
  before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
  fs::remove(folder);
  if (!elsewhere.empty()) fs::remove(elsewhere);
}

}  // namespace
}  // namespace caffe
