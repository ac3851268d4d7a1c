#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace caffe {

namespace cache {
class Database;
}

// All inputs that determine the binary of a kernel text.
struct CacheKeyParts {
  std::string source;           // complete, with prelude and every include expanded
  std::string options;          // as given to the compiler
  std::string backend;          // "opencl", "cuda", "cpu"
  std::string device_identity;  // platform, vendor, device, architecture, driver, compiler version
};

// SHA-256 over the parts and the cache version, 64 hexadecimal digits.
std::string CacheKey(const CacheKeyParts& parts);

// A persistent cache of compiled programs and tuning results: a memory tier, and an SQLite file
// `programs.db` in `directory`, shared by any number of processes. The file is opened at first use.
//
// No member throws. A failure of the disk or the file is logged once, and the cache continues
// without writing or in memory only. A file that is damaged or has another schema version is
// renamed to `programs.db.corrupt-<pid>-<n>`, and a new one is created. The entries are machine
// code: a file or folder that users other than the effective one and root can write is not used,
// with one warning, and is left as it is. Thread-safe. A child that was forked while the file was
// open uses only the memory tier.
class ProgramCache {
 public:
  enum class Mode { kOff, kReadOnly, kReadWrite };

  struct Options {
    int64_t size_cap_bytes = int64_t{1}
                             << 30;  // beyond this, the least recently used programs are deleted
    int64_t touch_seconds = 24 * 60 * 60;  // a row's last use is updated at most this often
    int busy_milliseconds = 10000;         // how long to wait for another process's lock
    bool shared_memory = true;             // false: without WAL, as on a network file system
  };

  struct Entry {
    std::string binary;
    std::string build_log;
    double build_seconds = 0;
    bool refused = false;  // the device cannot build this program; build_log has the reason
  };

  struct Row {
    std::string key, device, program;
    int64_t bytes = 0;      // binary and log
    int64_t created = 0;    // seconds since 1970
    int64_t last_used = 0;  // likewise
    double build_seconds = 0;
    bool refused = false;
  };

  struct VerifyReport {
    int64_t rows = 0;
    int64_t unsound = 0;      // of them: wrong checksum; deleted unless read-only
    std::string file_damage;  // why the file was set aside; empty if it is intact
  };

  struct PruneReport {
    int64_t removed_rows = 0, removed_bytes = 0;
    int64_t kept_rows = 0, kept_bytes = 0;
  };

  struct TuningKey {
    std::string family, shape_bucket, types, device, driver;
    auto operator<=>(const TuningKey&) const = default;
  };

  struct State {
    std::filesystem::path path;  // of the file; empty without a directory
    Mode mode = Mode::kOff;      // the mode in effect, after any failure
    int64_t rows = 0, bytes = 0;
    int64_t tuning_rows = 0;      // results of StoreTuning
    std::string disabled_reason;  // why mode is weaker than requested; empty if it is not
  };

  // CAFFE_CACHE_DIR, else $XDG_CACHE_HOME/cortado, else $HOME/.cache/cortado, else empty.
  static std::filesystem::path DefaultDirectory();
  // CAFFE_CACHE=off|ro|rw; rw if unset.
  static Mode ModeFromEnvironment();
  static const char* ModeName(Mode mode);

  // With an empty directory or Mode::kOff there is only the memory tier.
  ProgramCache(std::filesystem::path directory, Mode mode);
  ProgramCache(std::filesystem::path directory, Mode mode, Options options);
  ~ProgramCache();
  ProgramCache(const ProgramCache&) = delete;
  ProgramCache& operator=(const ProgramCache&) = delete;

  // Returns the entry after checking its checksum; a row with a wrong one is deleted and not
  // returned.
  std::optional<Entry> Find(const std::string& key);
  // Replaces an earlier entry of that key. An entry that is not refused needs a binary.
  void Store(const std::string& key, const std::string& device_name,
             const std::string& program_name, const Entry& entry);
  // For a binary that the driver cannot load: the next Find misses.
  void Remove(const std::string& key);

  std::optional<std::string> FindTuning(const TuningKey& key);
  void StoreTuning(const TuningKey& key, const std::string& configuration);

  // The file's rows, most recently used first.
  std::vector<Row> List();
  VerifyReport Verify();
  // Deletes the least recently used programs beyond max_bytes; with `all` every program, every
  // tuning result and every file that was set aside.
  PruneReport Prune(int64_t max_bytes, bool all);

  // Does not create the file.
  State state() const;

 private:
  enum class Need { kRead, kWrite };
  using Work = std::function<void(cache::Database&)>;

  // Runs work on the file, on a new one if it is damaged. Returns false if it was not done.
  bool Access(Need need, const Work& work) const;
  void Degrade(Mode mode, const std::string& reason) const;
  void ReportDamage(const std::string& damage) const;
  void Forget(const std::string& key);
  void Remember(const std::string& key, const Entry& entry);

  const std::filesystem::path directory_;
  const std::filesystem::path path_;
  const Options options_;

  mutable std::mutex mutex_;
  mutable Mode mode_;
  mutable std::string disabled_reason_;
  mutable std::unique_ptr<cache::Database> database_;
  mutable int64_t owner_process_ = 0;  // of database_
  mutable int recoveries_ = 0;
  mutable std::string last_damage_;

  // The entries that are not in the file; memory_order_ has the oldest first.
  std::map<std::string, Entry> memory_;
  std::vector<std::string> memory_order_;
  int64_t memory_bytes_ = 0;
  std::map<TuningKey, std::string> memory_tuning_;
};

}  // namespace caffe
