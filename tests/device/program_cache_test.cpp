#include "caffe/device/program_cache.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;
using Entry = ProgramCache::Entry;
using Mode = ProgramCache::Mode;

std::string KeyOf(const std::string& source) {
  return CacheKey({.source = source, .options = "-O", .backend = "cpu", .device_identity = "d"});
}

Entry EntryOf(const std::string& source, size_t size = 5000) {
  Entry entry;
  for (size_t i = 0; i < size; ++i) {
    entry.binary += static_cast<char>(source[i % source.size()] + i / 7);
  }
  entry.build_log = "log of " + source;
  entry.build_seconds = 0.25;
  return entry;
}

bool Same(const std::optional<Entry>& a, const Entry& b) {
  return a && a->binary == b.binary && a->build_log == b.build_log && a->refused == b.refused &&
         a->build_seconds == b.build_seconds;
}

bool Stored(ProgramCache& cache, const std::string& source) {
  return Same(cache.Find(KeyOf(source)), EntryOf(source));
}

void Put(ProgramCache& cache, const std::string& source) {
  cache.Store(KeyOf(source), "some device", source, EntryOf(source));
}

// The exit status of work in a separate process; 128 + signal if a signal ended it.
int Wait(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t Spawn(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(work());
  }
  return child;
}

class ProgramCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "program-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    ::chmod(name.c_str(), 0755);
    root_ = name;
    directory_ = root_ / "cortado";
    file_ = directory_ / "programs.db";
  }
  void TearDown() override { fs::remove_all(root_); }

  // Executes statements on the file, without the cache.
  void Sql(const std::string& text) {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &connection), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(connection, text.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message;
    sqlite3_close(connection);
  }

  void Fill(const std::vector<std::string>& sources) {
    ProgramCache cache(directory_, Mode::kReadWrite);
    for (const std::string& source : sources) {
      Put(cache, source);
    }
    ASSERT_EQ(cache.state().disabled_reason, "");
  }

  int SetAsideCount() const {
    int count = 0;
    for (const auto& file : fs::directory_iterator(directory_)) {
      const std::string name = file.path().filename();
      count += name.starts_with("programs.db.corrupt-") && !name.ends_with("-wal") &&
               !name.ends_with("-shm");
    }
    return count;
  }

  // A file like this one is replaced, and the cache works.
  void ExpectRebuilt() {
    {
      ProgramCache cache(directory_, Mode::kReadWrite);
      EXPECT_FALSE(cache.Find(KeyOf("a")));
      Put(cache, "a");
      EXPECT_TRUE(Stored(cache, "a"));
      EXPECT_EQ(cache.state().disabled_reason, "");
    }
    EXPECT_EQ(SetAsideCount(), 1);
    ProgramCache next(directory_, Mode::kReadWrite);
    EXPECT_TRUE(Stored(next, "a"));
    EXPECT_EQ(SetAsideCount(), 1);
  }

  // Works in memory and logs the reason.
  void ExpectMemoryOnly(ProgramCache& cache) {
    EXPECT_FALSE(cache.Find(KeyOf("new")));
    Put(cache, "new");
    cache.StoreTuning({"gemm", "small", "f32", "d", "v"}, "TILE=8");
    EXPECT_TRUE(Stored(cache, "new"));
    EXPECT_EQ(cache.FindTuning({"gemm", "small", "f32", "d", "v"}), "TILE=8");
    EXPECT_TRUE(cache.List().empty());
    EXPECT_EQ(cache.Verify().rows, 0);
    EXPECT_EQ(cache.Prune(0, true).removed_rows, 0);
    EXPECT_EQ(cache.state().mode, Mode::kOff);
    EXPECT_NE(cache.state().disabled_reason, "");
  }

  fs::path root_, directory_, file_;
};

TEST(CacheKeyTest, DependsOnEachPartAndOnWhereItEnds) {
  std::set<std::string> keys;
  keys.insert(CacheKey({"s", "o", "b", "d"}));
  keys.insert(CacheKey({"S", "o", "b", "d"}));
  keys.insert(CacheKey({"s", "O", "b", "d"}));
  keys.insert(CacheKey({"s", "o", "B", "d"}));
  keys.insert(CacheKey({"s", "o", "b", "D"}));
  keys.insert(CacheKey({"so", "", "b", "d"}));
  EXPECT_EQ(keys.size(), 6);
  EXPECT_EQ(CacheKey({"s", "o", "b", "d"}), CacheKey({"s", "o", "b", "d"}));
  EXPECT_EQ(keys.begin()->size(), 64);
}

TEST_F(ProgramCacheTest, KeepsEntriesForTheNextProcess) {
  Entry refused;
  refused.refused = true;
  refused.build_log = "no fp64 here";
  {
    ProgramCache cache(directory_, Mode::kReadWrite);
    EXPECT_FALSE(fs::exists(file_)) << "is opened at first use only";
    EXPECT_FALSE(cache.Find(KeyOf("a")));
    Put(cache, "a");
    cache.Store(KeyOf("b"), "some device", "b", refused);
    EXPECT_TRUE(Stored(cache, "a"));
  }
  EXPECT_FALSE(fs::exists(file_.string() + "-wal")) << "is closed cleanly";
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_TRUE(Same(cache.Find(KeyOf("b")), refused));
  EXPECT_FALSE(cache.Find(KeyOf("c")));
  const auto rows = cache.List();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[1].program, "a");
  EXPECT_EQ(rows[1].key, KeyOf("a"));
  EXPECT_EQ(rows[1].device, "some device");
  EXPECT_EQ(rows[1].bytes, 5000 + 8);
  EXPECT_TRUE(rows[0].refused);
  EXPECT_EQ(cache.state().rows, 2);
  EXPECT_EQ(cache.state().bytes, 5000 + 8 + 12);
  EXPECT_EQ(cache.state().path, file_);
}

TEST_F(ProgramCacheTest, ReplacesAndRemovesEntries) {
  for (const Mode mode : {Mode::kReadWrite, Mode::kOff}) {
    ProgramCache cache(directory_, mode);
    Put(cache, "a");
    cache.Store(KeyOf("a"), "some device", "a", EntryOf("other"));
    EXPECT_TRUE(Same(cache.Find(KeyOf("a")), EntryOf("other"))) << ProgramCache::ModeName(mode);
    cache.Remove(KeyOf("a"));
    EXPECT_FALSE(cache.Find(KeyOf("a"))) << ProgramCache::ModeName(mode);
  }
}

TEST_F(ProgramCacheTest, RefusesAProgramWithoutABinary) {
  ProgramCache cache(directory_, Mode::kReadWrite);
  cache.Store(KeyOf("a"), "some device", "a", Entry());
  EXPECT_FALSE(cache.Find(KeyOf("a")));
}

TEST_F(ProgramCacheTest, KeepsTuningResults) {
  const ProgramCache::TuningKey key = {"gemm", "64x64", "f16", "device", "535"};
  {
    ProgramCache cache(directory_, Mode::kReadWrite);
    EXPECT_FALSE(cache.FindTuning(key));
    cache.StoreTuning(key, "TILE=8");
    cache.StoreTuning(key, "TILE=16");
  }
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_EQ(cache.FindTuning(key), "TILE=16");
  auto other = key;
  other.driver = "550";
  EXPECT_FALSE(cache.FindTuning(other));
  Sql("UPDATE tuning SET configuration = 'TILE=32'");
  EXPECT_FALSE(cache.FindTuning(key)) << "its checksum does not match";
}

TEST_F(ProgramCacheTest, DeletesARowWhoseChecksumDoesNotMatch) {
  for (const char* damage : {"binary = x'00' || substr(binary, 2)", "binary = substr(binary, 1, 9)",
                             "build_log = x'00'", "refused = 1", "checksum = x'00'"}) {
    fs::remove_all(directory_);
    Fill({"a", "b"});
    Sql(Concat("UPDATE programs SET ", damage, " WHERE program = 'a'"));
    {
      ProgramCache reader(directory_, Mode::kReadOnly);
      EXPECT_FALSE(reader.Find(KeyOf("a"))) << damage;
      EXPECT_EQ(reader.state().rows, 2) << damage;
    }
    ProgramCache cache(directory_, Mode::kReadWrite);
    EXPECT_FALSE(cache.Find(KeyOf("a"))) << damage;
    EXPECT_TRUE(Stored(cache, "b")) << damage;
    EXPECT_EQ(cache.state().rows, 1) << damage;
    Put(cache, "a");
    EXPECT_TRUE(Stored(cache, "a")) << damage;
  }
}

TEST_F(ProgramCacheTest, VerifyRemovesUnsoundRows) {
  Fill({"a", "b", "c"});
  Sql("UPDATE programs SET binary = x'00' WHERE program IN ('a', 'c')");
  ProgramCache cache(directory_, Mode::kReadWrite);
  const auto report = cache.Verify();
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(report.unsound, 2);
  EXPECT_EQ(report.file_damage, "");
  EXPECT_EQ(cache.Verify().rows, 1);
  EXPECT_EQ(cache.Verify().unsound, 0);
}

TEST_F(ProgramCacheTest, VerifySetsAsideAFileWithAWrongIndex) {
  Fill({"a", "b", "c"});
  Sql("PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, "
      "'last_use, size', 'size, last_use') WHERE name = 'programs_by_age'");
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_NE(cache.Verify().file_damage, "");
  EXPECT_EQ(SetAsideCount(), 1);
  EXPECT_EQ(cache.state().rows, 0);
  Put(cache, "a");
  EXPECT_EQ(cache.Verify().file_damage, "");
  EXPECT_TRUE(Stored(cache, "a"));
}

TEST_F(ProgramCacheTest, ReplacesAFileThatIsNoDatabase) {
  fs::create_directories(directory_);
  std::ofstream(file_) << std::string(10000, '#');
  ExpectRebuilt();
}

TEST_F(ProgramCacheTest, ReplacesAForeignDatabase) {
  fs::create_directories(directory_);
  Sql("CREATE TABLE programs(key TEXT)");
  ExpectRebuilt();
}

TEST_F(ProgramCacheTest, ReplacesATruncatedFile) {
  Fill({"a", "b", "c"});
  fs::resize_file(file_, fs::file_size(file_) / 2);
  ExpectRebuilt();
}

TEST_F(ProgramCacheTest, ReplacesAFileOfAnotherSchemaVersion) {
  Fill({"a"});
  Sql("PRAGMA user_version = 2");
  ExpectRebuilt();
}

TEST_F(ProgramCacheTest, ReplacesAFileWithoutATable) {
  Fill({"a"});
  Sql("DROP TABLE tuning");
  ExpectRebuilt();
}

TEST_F(ProgramCacheTest, ReplacesAFileWithOtherColumnsOrWithAView) {
  for (const char* change :
       {"ALTER TABLE programs RENAME COLUMN binary TO code",
        "ALTER TABLE tuning RENAME COLUMN configuration TO c",
        "ALTER TABLE tuning RENAME TO t; CREATE VIEW tuning AS SELECT * FROM t"}) {
    SCOPED_TRACE(change);
    fs::remove_all(directory_);
    Fill({"b"});
    Sql(change);
    ExpectRebuilt();
  }
}

TEST_F(ProgramCacheTest, ReplacesAFileWithWrongSizes) {
  for (const char* size :
       {"-1", "-9223372036854775808", "9223372036854775807", "'many'", "1e300"}) {
    SCOPED_TRACE(size);
    fs::remove_all(directory_);
    Fill({"a", "b", "c"});
    Sql(Concat("UPDATE programs SET size = ", size));
    ProgramCache cache(directory_, Mode::kReadWrite, {.size_cap_bytes = 16000});
    Put(cache, "d");
    EXPECT_TRUE(Stored(cache, "d"));
    EXPECT_EQ(cache.state().rows, 1);
    EXPECT_EQ(cache.state().disabled_reason, "");
    EXPECT_EQ(SetAsideCount(), 1);
  }
}

TEST_F(ProgramCacheTest, ATimeOfUseMayBeAnything) {
  for (const char* time : {"-9223372036854775808", "9223372036854775807", "'noon'"}) {
    fs::remove_all(directory_);
    Fill({"a"});
    Sql(Concat("UPDATE programs SET created = ", time, ", last_use = ", time));
    ProgramCache cache(directory_, Mode::kReadWrite);
    EXPECT_TRUE(Stored(cache, "a")) << time;
    EXPECT_EQ(cache.List().size(), 1) << time;
  }
}

TEST_F(ProgramCacheTest, RunsNoTriggerOfAFile) {
  Fill({"a"});
  Sql("CREATE TRIGGER t AFTER INSERT ON programs BEGIN DELETE FROM programs; END");
  ProgramCache cache(directory_, Mode::kReadWrite);
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_TRUE(Stored(cache, "b"));
}

TEST_F(ProgramCacheTest, RecoversFromDamageWhileItIsOpen) {
  Fill({"a", "b", "c"});
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_EQ(cache.state().rows, 3);
  {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(fs::file_size(file_) - 4096, '\xff');
  }
  // The first page is sound, so this is noticed when a row is read or, at the latest, written.
  Sql("PRAGMA user_version");
  EXPECT_FALSE(cache.Find(KeyOf("a")) && cache.Find(KeyOf("b")) && cache.Find(KeyOf("c")));
  Put(cache, "d");
  EXPECT_TRUE(Stored(cache, "d"));
  EXPECT_EQ(cache.state().disabled_reason, "");
  EXPECT_EQ(cache.Verify().unsound, 0);
}

TEST_F(ProgramCacheTest, IgnoresALogLeftWithoutItsFile) {
  Fill({"a"});
  fs::remove(file_);
  std::ofstream(file_.string() + "-wal") << std::string(5000, '#');
  std::ofstream(file_.string() + "-journal") << std::string(5000, '#');
  ProgramCache cache(directory_, Mode::kReadWrite);
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "b"));
  EXPECT_EQ(cache.state().rows, 1);
  EXPECT_EQ(SetAsideCount(), 0);
}

TEST_F(ProgramCacheTest, KeepsFewFilesSetAside) {
  for (int i = 0; i < 4; ++i) {
    fs::create_directories(directory_);
    std::ofstream(file_) << "damage number " << i;
    ProgramCache cache(directory_, Mode::kReadWrite);
    Put(cache, "a");
  }
  EXPECT_EQ(SetAsideCount(), 2);
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_EQ(cache.Prune(0, true).removed_rows, 1);
  EXPECT_EQ(SetAsideCount(), 0);
}

TEST_F(ProgramCacheTest, FollowsARenameByAnotherProcess) {
  for (const bool shared_memory : {true, false}) {
    const ProgramCache::Options options = {.shared_memory = shared_memory};
    fs::remove_all(directory_);
    ProgramCache cache(directory_, Mode::kReadWrite, options);
    Put(cache, "a");
    fs::rename(file_, file_.string() + ".corrupt-1-0");
    for (const char* suffix : {"-wal", "-shm"}) {
      if (shared_memory) {
        fs::rename(file_.string() + suffix, file_.string() + ".corrupt-1-0" + suffix);
      }
    }
    ProgramCache other(directory_, Mode::kReadWrite, options);
    Put(other, "b");
    Put(cache, "c");
    EXPECT_TRUE(Stored(cache, "c"));
    EXPECT_TRUE(Stored(other, "b"));
    EXPECT_EQ(cache.state().disabled_reason, "");
    EXPECT_EQ(other.Verify().file_damage, "");
  }
}

TEST_F(ProgramCacheTest, ChangesTheJournalOfAnExistingFile) {
  Fill({"a"});
  for (const bool shared_memory : {false, true}) {
    ProgramCache cache(directory_, Mode::kReadWrite, {.shared_memory = shared_memory});
    Put(cache, "b");
    EXPECT_TRUE(Stored(cache, "a"));
    EXPECT_EQ(fs::exists(file_.string() + "-wal"), shared_memory);
  }
}

TEST_F(ProgramCacheTest, DropsTheLeastRecentlyUsedBeyondTheCap) {
  const ProgramCache::Options options = {.size_cap_bytes = 16000, .touch_seconds = 0};
  ProgramCache cache(directory_, Mode::kReadWrite, options);
  for (const char* source : {"a", "b", "c"}) {
    Put(cache, source);
  }
  EXPECT_TRUE(Stored(cache, "a"));  // is now younger than b
  Put(cache, "d");
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_FALSE(cache.Find(KeyOf("b")));
  EXPECT_TRUE(Stored(cache, "c"));
  EXPECT_TRUE(Stored(cache, "d"));
  // Too large for the file at all: the others stay.
  cache.Store(KeyOf("huge"), "some device", "huge", EntryOf("huge", 20000));
  EXPECT_TRUE(cache.Find(KeyOf("huge")));
  EXPECT_EQ(cache.state().rows, 3);
}

TEST_F(ProgramCacheTest, DoesNotWriteTheLastUseAtEachLookUp) {
  Fill({"a"});
  Sql("UPDATE programs SET last_use = last_use - 3600000000");
  ProgramCache cache(directory_, Mode::kReadWrite);
  const int64_t before = cache.List().at(0).last_used;
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_EQ(cache.List().at(0).last_used, before);
  Sql("UPDATE programs SET last_use = last_use - 90000000000");
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_GE(cache.List().at(0).last_used, before + 3600);
}

TEST_F(ProgramCacheTest, PruneShrinksTheFile) {
  ProgramCache cache(directory_, Mode::kReadWrite);
  for (int i = 0; i < 40; ++i) {
    Put(cache, Concat("program ", i));
  }
  const auto half = cache.Prune(100000, false);
  EXPECT_LE(half.kept_bytes, 100000);
  EXPECT_EQ(half.kept_rows + half.removed_rows, 40);
  EXPECT_EQ(half.kept_rows, 19);
  EXPECT_TRUE(Stored(cache, "program 39"));
  EXPECT_FALSE(cache.Find(KeyOf("program 0")));
  const auto size = fs::file_size(file_);
  EXPECT_EQ(cache.Prune(0, true).removed_rows, 19);
  EXPECT_EQ(cache.state().rows, 0);
  EXPECT_LT(fs::file_size(file_), size / 2);
}

TEST_F(ProgramCacheTest, ReadOnlyReadsAndNeverWrites) {
  {
    ProgramCache cache(directory_, Mode::kReadOnly);
    EXPECT_FALSE(cache.Find(KeyOf("a")));
    EXPECT_EQ(cache.state().disabled_reason, "")
        << "a cache that does not exist yet is not an error";
  }
  EXPECT_FALSE(fs::exists(directory_));
  Fill({"a"});
  ProgramCache cache(directory_, Mode::kReadOnly);
  EXPECT_TRUE(Stored(cache, "a"));
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "b")) << "in memory";
  EXPECT_EQ(cache.state().rows, 1);
  EXPECT_EQ(cache.Prune(0, true).removed_rows, 0);
  EXPECT_EQ(cache.state().rows, 1);
  EXPECT_EQ(cache.state().disabled_reason, "");
}

TEST_F(ProgramCacheTest, ReadOnlyLeavesADamagedFileAlone) {
  fs::create_directories(directory_);
  std::ofstream(file_) << std::string(10000, '#');
  ProgramCache cache(directory_, Mode::kReadOnly);
  ExpectMemoryOnly(cache);
  EXPECT_EQ(SetAsideCount(), 0);
}

TEST_F(ProgramCacheTest, OffStaysInMemory) {
  Fill({"a"});
  ProgramCache cache(directory_, Mode::kOff);
  EXPECT_FALSE(cache.Find(KeyOf("a")));
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "b"));
  EXPECT_EQ(cache.state().disabled_reason, "");
}

TEST_F(ProgramCacheTest, RunsWithoutADirectory) {
  ProgramCache cache({}, Mode::kReadWrite);
  ExpectMemoryOnly(cache);
}

TEST_F(ProgramCacheTest, RunsWhereTheDirectoryIsAFile) {
  std::ofstream(directory_) << "a file";
  ProgramCache cache(directory_, Mode::kReadWrite);
  ExpectMemoryOnly(cache);
  ProgramCache below(directory_ / "deeper", Mode::kReadWrite);
  ExpectMemoryOnly(below);
}

TEST_F(ProgramCacheTest, RunsWhereTheFileIsADirectory) {
  fs::create_directories(file_);
  ProgramCache cache(directory_, Mode::kReadWrite);
  ExpectMemoryOnly(cache);
}

TEST_F(ProgramCacheTest, RunsWithoutAFileThatStaysLocked) {
  Fill({"a"});
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(connection, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  ProgramCache cache(directory_, Mode::kReadWrite, {.busy_milliseconds = 50});
  EXPECT_TRUE(Stored(cache, "a"));
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "b"));
  EXPECT_NE(cache.state().disabled_reason, "");
  sqlite3_close(connection);
}

// As a user without rights there; root, whom permissions do not stop, becomes another user first.
TEST_F(ProgramCacheTest, ReadsADirectoryThatItMayNotWrite) {
  Fill({"a"});
  ::chmod(file_.c_str(), 0444);
  ::chmod(directory_.c_str(), 0555);
  const int status = Wait(Spawn([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) {
      return 77;
    }
    ProgramCache cache(directory_, Mode::kReadWrite);
    if (!Stored(cache, "a")) {
      return 1;
    }
    Put(cache, "b");
    const auto state = cache.state();
    return Stored(cache, "b") && state.mode == Mode::kReadOnly && state.rows == 1 &&
                   !state.disabled_reason.empty()
               ? 0
               : 2;
  }));
  const int fresh = Wait(Spawn([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) {
      return 77;
    }
    ProgramCache cache(directory_ / "deeper", Mode::kReadWrite);
    Put(cache, "b");
    return Stored(cache, "b") && cache.state().mode == Mode::kOff ? 0 : 1;
  }));
  ::chmod(directory_.c_str(), 0755);
  if (status == 77) {
    GTEST_SKIP() << "cannot become a user without rights";
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fresh, 0);
}

// Files that others may have written: a folder or a file of another owner, or that others may
// write.
class UntrustedCacheTest : public ProgramCacheTest {
 protected:
  static constexpr uid_t kNobody = 65534, kSomebody = 65533;

  std::vector<std::string> FilesOf(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  // Cases of the owner, the mode and the user that runs: with them the cache must work in memory
  // alone, with one warning, or be used.
  void Try(const fs::path& path, mode_t mode, uid_t owner, uid_t user, bool used) {
    SCOPED_TRACE(Concat(path.filename().string(), ", mode ", std::to_string(mode), ", owner ",
                        owner, ", user ", user));
    ASSERT_TRUE(owner == ::geteuid() || ::chown(path.c_str(), owner, owner) == 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto before = FilesOf(directory_);
    testing::internal::CaptureStderr();
    const int status = Wait(Spawn([&] {
      if (user != ::geteuid() && ::seteuid(user) != 0) return 77;
      for (const Mode kind : {Mode::kReadWrite, Mode::kReadOnly}) {
        ProgramCache cache(directory_, kind);
        if (used != Stored(cache, "a")) return 1;
        if (used) continue;
        ExpectMemoryOnly(cache);
        if (HasFailure()) return 2;
      }
      return 0;
    }));
    const std::string errors = testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, 0) << errors;
    if (used) return;
    EXPECT_EQ(FilesOf(directory_), before) << "it is left as it is";
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2) << "one for each cache\n"
                                                                 << errors;
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", mode);
    for (const std::string& part : {file_.string(), path.string(), Concat("mode ", octal),
                                    Concat("uid ", owner), std::string("CAFFE_CACHE_DIR")}) {
      EXPECT_NE(errors.find(part), std::string::npos) << errors << "lacks " << part;
    }
    EXPECT_EQ(errors.find("chown") != std::string::npos, owner != 0 && owner != user) << errors;
    EXPECT_EQ(errors.find("chmod") != std::string::npos, (mode & 022) != 0) << errors;
  }
};

TEST_F(UntrustedCacheTest, AFolderThatOthersMayWriteIsNotUsed) {
  for (const mode_t mode : {0755, 0700, 0775, 0757, 0777, 01777}) {
    Fill({"a"});
    Try(directory_, mode, ::geteuid(), ::geteuid(), (mode & 022) == 0);
    ::chmod(directory_.c_str(), 0755);
  }
}

TEST_F(UntrustedCacheTest, AFileThatOthersMayWriteIsNotUsed) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal", ".lock"}) {
    for (const mode_t mode : {0664, 0646, 0666}) {
      fs::remove_all(directory_);
      Fill({"a"});
      const fs::path file = file_.string() + suffix;
      std::ofstream(file, std::ios::app).flush();
      Try(file, mode, ::geteuid(), ::geteuid(), false);
    }
  }
}

TEST_F(UntrustedCacheTest, AFolderOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  for (const uid_t owner : {uid_t{0}, kNobody, kSomebody}) {
    for (const uid_t user : {uid_t{0}, kNobody}) {
      for (const mode_t mode : {0755, 0775, 0777}) {
        fs::remove_all(directory_);
        Fill({"a"});
        const bool used = (owner == 0 || owner == user) && mode == 0755;
        Try(directory_, mode, owner, user, used);
      }
    }
  }
}

TEST_F(UntrustedCacheTest, AFileOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  for (const char* suffix : {"", "-wal", "-shm", "-journal", ".lock"}) {
    for (const uid_t user : {uid_t{0}, kSomebody}) {
      fs::remove_all(directory_);
      Fill({"a"});
      ::chmod(directory_.c_str(), 0755);
      const fs::path file = file_.string() + suffix;
      std::ofstream(file, std::ios::app).flush();
      Try(file, 0644, kNobody, user, false);
    }
  }
}

TEST_F(UntrustedCacheTest, AFolderOnTheWayThatOthersMayWriteIsNotUsed) {
  directory_ = root_ / "way" / "cortado";
  file_ = directory_ / "programs.db";
  Fill({"a"});
  ::chmod((root_ / "way").c_str(), 0777);
  {
    ProgramCache cache(directory_, Mode::kReadWrite);
    EXPECT_FALSE(cache.Find(KeyOf("a")));
    EXPECT_NE(cache.state().disabled_reason.find((root_ / "way").string() + " on the way"),
              std::string::npos)
        << cache.state().disabled_reason;
    ProgramCache missing(root_ / "way" / "other", Mode::kReadWrite);
    ExpectMemoryOnly(missing);
    EXPECT_FALSE(fs::exists(root_ / "way" / "other"));
  }
  ::chmod((root_ / "way").c_str(), 01777);
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_TRUE(Stored(cache, "a"));
}

TEST_F(UntrustedCacheTest, LinksAreUsedWhereBothSidesAreTrusted) {
  Fill({"a"});
  fs::create_directories(root_ / "links");
  fs::create_symlink(file_, root_ / "links" / "programs.db");
  {
    ProgramCache cache(root_ / "links", Mode::kReadWrite);
    EXPECT_TRUE(Stored(cache, "a"));
  }
  // SQLite keeps its log beside the file, not beside the link.
  ::chmod(directory_.c_str(), 01777);
  {
    ProgramCache cache(root_ / "links", Mode::kReadWrite);
    ExpectMemoryOnly(cache);
  }
  ::chmod(directory_.c_str(), 0755);
  fs::remove(file_);
  ProgramCache cache(root_ / "links", Mode::kReadWrite);
  ExpectMemoryOnly(cache);
  EXPECT_FALSE(fs::exists(file_)) << "nothing is made through a link";
}

TEST_F(UntrustedCacheTest, WhatTheCacheMakesIsPrivate) {
  const mode_t before = ::umask(0);
  directory_ = root_ / "a" / "b" / "cortado";
  file_ = directory_ / "programs.db";
  Fill({"a"});
  ::umask(before);
  for (const fs::path& folder : {root_ / "a", root_ / "a" / "b", directory_}) {
    EXPECT_EQ(static_cast<int>(fs::status(folder).permissions()), 0700) << folder;
  }
  for (const auto& file : fs::directory_iterator(directory_)) {
    EXPECT_EQ(static_cast<int>(file.status().permissions()) & 022, 0) << file;
  }
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_TRUE(Stored(cache, "a"));
}

TEST_F(UntrustedCacheTest, OtherThanFilesAreNotOpened) {
  for (const char* suffix : {"", "-wal", ".lock"}) {
    fs::remove_all(directory_);
    Fill({"a"});
    const fs::path file = file_.string() + suffix;
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    ProgramCache cache(directory_, Mode::kReadWrite);
    ExpectMemoryOnly(cache);
  }
}

// A limit on the size of files makes writes fail as a quota does.
TEST_F(ProgramCacheTest, StopsWritingWhenWritesFail) {
  Fill({"a"});
  EXPECT_EQ(Wait(Spawn([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit = {200000, 200000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              ProgramCache cache(directory_, Mode::kReadWrite);
              for (int i = 0; i < 100; ++i) {
                Put(cache, Concat("program ", i));
                if (!Stored(cache, Concat("program ", i)) || !Stored(cache, "a")) {
                  return 1;
                }
              }
              return cache.state().mode == Mode::kReadOnly ? 0 : 2;
            })),
            0);
  ProgramCache cache(directory_, Mode::kReadWrite);
  EXPECT_TRUE(Stored(cache, "a"));
  Put(cache, "b");
  EXPECT_TRUE(Stored(cache, "b"));
  EXPECT_EQ(cache.Verify().unsound, 0);
  EXPECT_EQ(SetAsideCount(), 0);
}

TEST_F(ProgramCacheTest, StopsWritingWhenTheDiskIsFull) {
  fs::create_directories(directory_);
  for (const char* size : {"size=256k", "size=8k"}) {
    testing::internal::CaptureStderr();
    const int status = Wait(Spawn([&] {
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", directory_.c_str(), "tmpfs", 0, Concat(size, ",mode=755").c_str()) != 0) {
        return 77;
      }
      for (int round = 0; round < 2; ++round) {
        ProgramCache cache(directory_, Mode::kReadWrite);
        for (int i = 0; i < 100; ++i) {
          Put(cache, Concat("program ", i));
          if (!Stored(cache, Concat("program ", i))) {
            return 1;
          }
        }
        if (cache.state().mode == Mode::kReadWrite || cache.state().disabled_reason.empty()) {
          return 2;
        }
      }
      return 0;
    }));
    const std::string errors = testing::internal::GetCapturedStderr();
    if (status == 77) {
      GTEST_SKIP() << "cannot mount a file system";
    }
    EXPECT_EQ(status, 0) << size << errors;
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2) << "one for each cache\n"
                                                                 << errors;
    for (const std::string& part : {file_.string(), std::string("full")}) {
      EXPECT_NE(errors.find(part), std::string::npos) << errors << "lacks " << part;
    }
  }
}

TEST_F(ProgramCacheTest, AForkedChildLeavesTheFileAlone) {
  ProgramCache cache(directory_, Mode::kReadWrite);
  Put(cache, "a");
  EXPECT_EQ(Wait(Spawn([&] {
              const bool missed = !cache.Find(KeyOf("a"));
              Put(cache, "b");
              return missed && Stored(cache, "b") ? 0 : 1;
            })),
            0);
  EXPECT_TRUE(Stored(cache, "a"));
  EXPECT_FALSE(cache.Find(KeyOf("b")));
}

TEST_F(ProgramCacheTest, ServesThreadsAtOnce) {
  ProgramCache cache(directory_, Mode::kReadWrite);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 10; ++i) {
        Put(cache, Concat(t, " ", i));
        EXPECT_TRUE(Stored(cache, Concat(t, " ", i)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(cache.state().rows, 80);
}

// The parameter: with WAL, or with the rollback journal of network file systems.
class ProgramCacheProcessesTest : public ProgramCacheTest,
                                  public testing::WithParamInterface<bool> {
 protected:
  ProgramCache::Options Settings() const {
    return {.size_cap_bytes = 2000000, .shared_memory = GetParam()};
  }

  static constexpr int kProcesses = 16;

  // All begin at once, write 10 programs each and 5 that all of them write.
  void RunAll() {
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      children.push_back(Spawn([&] {
        char byte;
        ::close(gate[1]);
        if (::read(gate[0], &byte, 1) != 0) {
          return 9;
        }
        ProgramCache cache(directory_, Mode::kReadWrite, Settings());
        for (int i = 0; i < 10; ++i) {
          const std::string own = Concat("of ", p, " ", i), shared = Concat("shared ", i % 5);
          if (cache.Find(KeyOf(own))) {
            return 1;
          }
          Put(cache, own);
          if (!cache.Find(KeyOf(shared))) {
            Put(cache, shared);
          }
          if (!Stored(cache, own) || !Stored(cache, shared)) {
            return 2;
          }
        }
        return cache.state().disabled_reason.empty() ? 0 : 3;
      }));
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (const pid_t child : children) {
      EXPECT_EQ(Wait(child), 0);
    }
    ProgramCache cache(directory_, Mode::kReadWrite, Settings());
    EXPECT_EQ(cache.state().rows, kProcesses * 10 + 5);
    EXPECT_EQ(fs::exists(file_.string() + "-wal"), GetParam());
    const auto report = cache.Verify();
    EXPECT_EQ(report.unsound, 0);
    EXPECT_EQ(report.file_damage, "");
  }
};

TEST_P(ProgramCacheProcessesTest, ShareAnEmptyCache) {
  RunAll();
  EXPECT_EQ(SetAsideCount(), 0);
}

TEST_P(ProgramCacheProcessesTest, ReplaceADamagedFileOnce) {
  fs::create_directories(directory_);
  std::ofstream(file_) << std::string(100000, '#');
  RunAll();
  EXPECT_EQ(SetAsideCount(), 1);
}

TEST_P(ProgramCacheProcessesTest, SurviveAKillAtAnyTime) {
  int written = 0;
  for (int round = 0; round < 40; ++round) {
    if (round % 10 == 5) {
      fs::remove_all(directory_);  // also while the schema is made
    }
    const pid_t child = Spawn([&] {
      ProgramCache cache(directory_, Mode::kReadWrite, Settings());
      for (int i = 0;; ++i) {
        Put(cache, Concat("round ", round, " ", i));
      }
      return 0;
    });
    ::usleep(500 + 1700 * (round % 10));
    ::kill(child, SIGKILL);
    EXPECT_EQ(Wait(child), 128 + SIGKILL);
    ProgramCache cache(directory_, Mode::kReadWrite, Settings());
    const auto report = cache.Verify();
    EXPECT_EQ(report.unsound, 0);
    EXPECT_EQ(report.file_damage, "");
    written += report.rows > 0;
    Put(cache, "after");
    EXPECT_TRUE(Stored(cache, "after"));
    EXPECT_EQ(cache.state().disabled_reason, "");
  }
  EXPECT_GE(written, 15) << "rounds in which the writer came to write";
  EXPECT_EQ(SetAsideCount(), 0);
}

INSTANTIATE_TEST_SUITE_P(Journal, ProgramCacheProcessesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Wal" : "Rollback"; });

// Values of environment variables, put back at the end.
class ProgramCacheEnvironmentTest : public testing::Test {
 protected:
  static constexpr const char* kNames[] = {"CAFFE_CACHE", "CAFFE_CACHE_DIR", "XDG_CACHE_HOME",
                                           "HOME"};
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      saved_[i] ? ::setenv(kNames[i], saved_[i]->c_str(), 1) : ::unsetenv(kNames[i]);
    }
  }
  std::vector<std::optional<std::string>> saved_;
};

TEST_F(ProgramCacheEnvironmentTest, GivesTheDirectory) {
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "");
  ::setenv("HOME", "relative", 1);
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "");
  ::setenv("HOME", "/home/u", 1);
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "/home/u/.cache/cortado");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "/home/u/.cache/cortado");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "/x/cortado");
  ::setenv("CAFFE_CACHE_DIR", "here", 1);
  EXPECT_EQ(ProgramCache::DefaultDirectory(), "here");
}

TEST_F(ProgramCacheEnvironmentTest, GivesTheMode) {
  EXPECT_EQ(ProgramCache::ModeFromEnvironment(), Mode::kReadWrite);
  for (const auto& [text, mode] :
       std::vector<std::pair<std::string, Mode>>{{"off", Mode::kOff},
                                                 {"ro", Mode::kReadOnly},
                                                 {"rw", Mode::kReadWrite},
                                                 {"nonsense", Mode::kReadWrite}}) {
    ::setenv("CAFFE_CACHE", text.c_str(), 1);
    EXPECT_EQ(ProgramCache::ModeFromEnvironment(), mode) << text;
  }
}

}  // namespace
}  // namespace caffe
