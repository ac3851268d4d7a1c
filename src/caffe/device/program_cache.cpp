#include "caffe/device/program_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "cache_database.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/sha256.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;
using cache::Database;
using cache::DatabaseError;
using cache::Statement;
using cache::Transaction;

// Change this when the meaning of a key changes: how a text is assembled, or what is stored.
constexpr char kCacheVersion[] = "cortado-program-1";

constexpr int64_t kMemoryCapBytes = int64_t{256} << 20;
constexpr int64_t kMicro = 1000000;
// A file that is damaged repeatedly has a cause that a new file does not cure.
constexpr int kMaxRecoveries = 3;

int64_t NowMicroseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t SizeOf(const ProgramCache::Entry& entry) {
  return static_cast<int64_t>(entry.binary.size() + entry.build_log.size());
}

std::string TextOf(const Sha256::Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string Checksum(const std::string& key, const ProgramCache::Entry& entry) {
  Sha256 hash;
  hash.UpdateFramed(key);
  hash.UpdateFramed(entry.refused ? "refused" : "built");
  hash.UpdateFramed(entry.build_log);
  hash.UpdateFramed(entry.binary);
  return TextOf(hash.Finish());
}

std::string Checksum(const ProgramCache::TuningKey& key, const std::string& configuration) {
  Sha256 hash;
  for (const std::string* part :
       {&key.family, &key.shape_bucket, &key.types, &key.device, &key.driver, &configuration}) {
    hash.UpdateFramed(*part);
  }
  return TextOf(hash.Finish());
}

struct StoredEntry {
  ProgramCache::Entry entry;
  int64_t last_use = 0;
  bool sound = false;
};

std::optional<StoredEntry> ReadEntry(Database& database, const std::string& key) {
  Statement select = database.Prepare(
      "SELECT binary, build_log, build_seconds, refused, checksum, last_use FROM programs "
      "WHERE key = ?");
  if (!select.Text(1, key).Step()) {
    return std::nullopt;
  }
  StoredEntry stored;
  stored.entry.binary = select.BlobAt(0);
  stored.entry.build_log = select.BlobAt(1);
  stored.entry.build_seconds = select.RealAt(2);
  stored.entry.refused = select.IntegerAt(3) != 0;
  stored.sound = select.BlobAt(4) == Checksum(key, stored.entry);
  stored.last_use = select.IntegerAt(5);
  return stored;
}

void DeleteRow(Database& database, const std::string& key) {
  database.Prepare("DELETE FROM programs WHERE key = ?").Text(1, key).Step();
}

// Sizes are not part of a checksum; those of a damaged file can be anything.
std::pair<int64_t, int64_t> CountAndBytes(Database& database) {
  Statement total = database.Prepare(
      "SELECT count(*), coalesce(sum(size), 0), coalesce(min(size), 0), "
      "coalesce(max(typeof(size) <> 'integer'), 0) FROM programs");
  total.Step();
  if (total.IntegerAt(2) < 0 || total.IntegerAt(3) != 0) {
    throw DatabaseError(DatabaseError::Kind::kDamaged, "a row has no valid size");
  }
  return {total.IntegerAt(0), total.IntegerAt(1)};
}

// Call this inside a transaction. Returns the number of deleted rows and bytes.
std::pair<int64_t, int64_t> DeleteOldest(Database& database, int64_t max_bytes) {
  int64_t excess = CountAndBytes(database).second - max_bytes;
  if (excess <= 0) {
    return {0, 0};
  }
  std::vector<std::pair<int64_t, int64_t>> oldest;  // row, size
  {
    Statement select = database.Prepare("SELECT rowid, size FROM programs ORDER BY last_use");
    while (excess > 0 && select.Step()) {
      oldest.emplace_back(select.IntegerAt(0), select.IntegerAt(1));
      excess -= oldest.back().second;
    }
  }
  int64_t bytes = 0;
  for (const auto& [row, size] : oldest) {
    database.Prepare("DELETE FROM programs WHERE rowid = ?").Integer(1, row).Step();
    bytes += size;
  }
  return {static_cast<int64_t>(oldest.size()), bytes};
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string CacheKey(const CacheKeyParts& parts) {
  Sha256 hash;
  hash.UpdateFramed(kCacheVersion);
  hash.UpdateFramed(parts.source);
  hash.UpdateFramed(parts.options);
  hash.UpdateFramed(parts.backend);
  hash.UpdateFramed(parts.device_identity);
  return Sha256::Hex(hash.Finish());
}

fs::path ProgramCache::DefaultDirectory() {
  if (const std::string own = Environment("CAFFE_CACHE_DIR"); !own.empty()) {
    return own;
  }
  // The XDG specification says that relative paths are ignored; a relative HOME is ignored, too.
  if (const fs::path cache = Environment("XDG_CACHE_HOME"); cache.is_absolute()) {
    return cache / "cortado";
  }
  if (const fs::path home = Environment("HOME"); home.is_absolute()) {
    return home / ".cache" / "cortado";
  }
  return {};
}

ProgramCache::Mode ProgramCache::ModeFromEnvironment() {
  const std::string value = Environment("CAFFE_CACHE");
  if (value == "off") {
    return Mode::kOff;
  }
  if (value == "ro") {
    return Mode::kReadOnly;
  }
  if (!value.empty() && value != "rw") {
    log::WarnOnce(Concat("CAFFE_CACHE is \"", value, "\", which is not off, ro or rw; using rw"));
  }
  return Mode::kReadWrite;
}

const char* ProgramCache::ModeName(Mode mode) {
  switch (mode) {
    case Mode::kOff: return "off";
    case Mode::kReadOnly: return "read-only";
    case Mode::kReadWrite: return "read-write";
  }
  return "unknown";
}

ProgramCache::ProgramCache(fs::path directory, Mode mode)
    : ProgramCache(std::move(directory), mode, Options()) {}

ProgramCache::ProgramCache(fs::path directory, Mode mode, Options options)
    : directory_(std::move(directory)),
      path_(directory_.empty() ? fs::path() : directory_ / "programs.db"),
      options_(options),
      mode_(mode) {
  if (directory_.empty() && mode_ != Mode::kOff) {
    mode_ = Mode::kOff;
    disabled_reason_ = "no directory: CAFFE_CACHE_DIR, XDG_CACHE_HOME and HOME are not set";
  }
}

ProgramCache::~ProgramCache() {
  if (database_ != nullptr && owner_process_ != ::getpid()) {
    database_->Abandon();
  }
}

void ProgramCache::Degrade(Mode mode, const std::string& reason) const {
  database_.reset();
  mode_ = mode;
  const char* consequence =
      mode == Mode::kReadOnly ? "; it is not written from now on" : "; continuing without it";
  if (disabled_reason_.empty()) {
    log::Warning(Concat("program cache ", path_.string(), ": ", reason, consequence));
  }
  disabled_reason_ = reason;
}

void ProgramCache::ReportDamage(const std::string& damage) const {
  last_damage_ = damage;
  log::Warning(Concat("program cache ", path_.string(), ": ", damage,
                      "; the file is set aside and a new one is created"));
}

bool ProgramCache::Access(Need need, const Work& work) const {
  if (database_ != nullptr && owner_process_ != ::getpid()) {
    // A fork copies SQLite's record of the parent's locks, so that not even a new connection would
    // be safe.
    database_->Abandon();
    database_.reset();
    mode_ = Mode::kOff;
    disabled_reason_ = "forked while the cache was open";
  }
  for (;;) {
    if (mode_ == Mode::kOff || (need == Need::kWrite && mode_ == Mode::kReadOnly)) {
      return false;
    }
    try {
      if (database_ == nullptr) {
        database_ = mode_ == Mode::kReadWrite
                        ? Database::OpenForWriting(path_, options_.busy_milliseconds,
                                                   options_.shared_memory)
                        : Database::OpenForReading(path_, options_.busy_milliseconds);
        owner_process_ = ::getpid();
        if (database_ == nullptr) {
          return false;
        }
        if (!database_->damage().empty()) {
          ReportDamage(database_->damage());
        }
      }
      work(*database_);
      return true;
    } catch (const DatabaseError& error) {
      using Kind = DatabaseError::Kind;
      const Kind kind = error.kind();
      if (kind == Kind::kReadOnly && mode_ == Mode::kReadWrite) {
        std::error_code unknown;
        Degrade(fs::exists(path_, unknown) ? Mode::kReadOnly : Mode::kOff, error.what());
      } else if (mode_ == Mode::kReadWrite && (kind == Kind::kDamaged || kind == Kind::kMoved) &&
                 database_ != nullptr && recoveries_ < kMaxRecoveries) {
        ++recoveries_;
        try {
          if (kind == Kind::kDamaged) {
            ReportDamage(error.what());
            database_->SetAside();
          }
          database_.reset();
        } catch (const std::exception& second) {
          Degrade(Mode::kOff, second.what());
        }
      } else {
        Degrade(Mode::kOff, error.what());
      }
    } catch (const std::exception& error) {
      Degrade(Mode::kOff, error.what());
    }
  }
}

void ProgramCache::Forget(const std::string& key) {
  if (const auto held = memory_.find(key); held != memory_.end()) {
    memory_bytes_ -= SizeOf(held->second);
    memory_.erase(held);
    std::erase(memory_order_, key);
  }
}

void ProgramCache::Remember(const std::string& key, const Entry& entry) {
  const int64_t size = SizeOf(entry);
  if (size > kMemoryCapBytes) {
    return;
  }
  size_t drop = 0;
  while (drop < memory_order_.size() && memory_bytes_ + size > kMemoryCapBytes) {
    const auto oldest = memory_.find(memory_order_[drop++]);
    memory_bytes_ -= SizeOf(oldest->second);
    memory_.erase(oldest);
  }
  memory_order_.erase(memory_order_.begin(), memory_order_.begin() + static_cast<ptrdiff_t>(drop));
  memory_.emplace(key, entry);
  memory_order_.push_back(key);
  memory_bytes_ += size;
}

std::optional<ProgramCache::Entry> ProgramCache::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (const auto held = memory_.find(key); held != memory_.end()) {
    return held->second;
  }
  if (directory_.empty() && !disabled_reason_.empty()) {
    log::WarnOnce(Concat("program cache: ", disabled_reason_,
                         "; programs are kept in memory until this process ends"));
  }
  std::optional<StoredEntry> stored;
  Access(Need::kRead, [&](Database& database) { stored = ReadEntry(database, key); });
  if (!stored) {
    return std::nullopt;
  }
  if (!stored->sound) {
    log::WarnOnce(Concat("program cache ", path_.string(),
                         ": a checksum does not match; such programs are built again"));
    Access(Need::kWrite, [&](Database& database) { DeleteRow(database, key); });
    return std::nullopt;
  }
  const int64_t now = NowMicroseconds();
  if (stored->last_use < now - options_.touch_seconds * kMicro) {
    Access(Need::kWrite, [&](Database& database) {
      database.Prepare("UPDATE programs SET last_use = ? WHERE key = ?")
          .Integer(1, now)
          .Text(2, key)
          .Step();
    });
  }
  return std::move(stored->entry);
}

void ProgramCache::Store(const std::string& key, const std::string& device_name,
                         const std::string& program_name, const Entry& entry) {
  if (!entry.refused && entry.binary.empty()) {
    log::Warning(Concat("program cache: ", program_name, " has no binary; not stored"));
    return;
  }
  std::lock_guard lock(mutex_);
  Forget(key);
  const int64_t size = SizeOf(entry);
  const bool stored =
      size <= options_.size_cap_bytes && Access(Need::kWrite, [&](Database& database) {
        const std::string checksum = Checksum(key, entry);
        const int64_t now = NowMicroseconds();
        Transaction transaction(database);
        Statement insert = database.Prepare(
            "INSERT OR REPLACE INTO programs(key, device, program, size, created, last_use, "
            "build_seconds, refused, checksum, build_log, binary) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        insert.Text(1, key).Text(2, device_name).Text(3, program_name);
        insert.Integer(4, size).Integer(5, now).Integer(6, now);
        insert.Real(7, entry.build_seconds).Integer(8, entry.refused ? 1 : 0);
        insert.Blob(9, checksum).Blob(10, entry.build_log).Blob(11, entry.binary);
        insert.Step();
        DeleteOldest(database, options_.size_cap_bytes);
        transaction.Commit();
      });
  if (!stored) {
    Remember(key, entry);
  }
}

void ProgramCache::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  Forget(key);
  Access(Need::kWrite, [&](Database& database) { DeleteRow(database, key); });
}

std::optional<std::string> ProgramCache::FindTuning(const TuningKey& key) {
  std::lock_guard lock(mutex_);
  if (const auto held = memory_tuning_.find(key); held != memory_tuning_.end()) {
    return held->second;
  }
  std::optional<std::string> configuration;
  Access(Need::kRead, [&](Database& database) {
    Statement select = database.Prepare(
        "SELECT configuration, checksum FROM tuning WHERE family = ? AND shape_bucket = ? "
        "AND types = ? AND device = ? AND driver = ?");
    select.Text(1, key.family).Text(2, key.shape_bucket).Text(3, key.types);
    select.Text(4, key.device).Text(5, key.driver);
    if (select.Step() && select.BlobAt(1) == Checksum(key, select.TextAt(0))) {
      configuration = select.TextAt(0);
    }
  });
  return configuration;
}

void ProgramCache::StoreTuning(const TuningKey& key, const std::string& configuration) {
  std::lock_guard lock(mutex_);
  memory_tuning_.erase(key);
  const bool stored = Access(Need::kWrite, [&](Database& database) {
    const std::string checksum = Checksum(key, configuration);
    Statement insert = database.Prepare(
        "INSERT OR REPLACE INTO tuning(family, shape_bucket, types, device, driver, "
        "configuration, checksum) VALUES(?, ?, ?, ?, ?, ?, ?)");
    insert.Text(1, key.family).Text(2, key.shape_bucket).Text(3, key.types);
    insert.Text(4, key.device).Text(5, key.driver).Text(6, configuration).Blob(7, checksum);
    insert.Step();
  });
  if (!stored) {
    memory_tuning_[key] = configuration;
  }
}

std::vector<ProgramCache::Row> ProgramCache::List() {
  std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  Access(Need::kRead, [&](Database& database) {
    rows.clear();
    Statement select = database.Prepare(
        "SELECT key, device, program, size, created, last_use, build_seconds, refused "
        "FROM programs ORDER BY last_use DESC");
    while (select.Step()) {
      Row row;
      row.key = select.TextAt(0);
      row.device = select.TextAt(1);
      row.program = select.TextAt(2);
      row.bytes = select.IntegerAt(3);
      row.created = select.IntegerAt(4) / kMicro;
      row.last_used = select.IntegerAt(5) / kMicro;
      row.build_seconds = select.RealAt(6);
      row.refused = select.IntegerAt(7) != 0;
      rows.push_back(std::move(row));
    }
  });
  return rows;
}

ProgramCache::VerifyReport ProgramCache::Verify() {
  std::lock_guard lock(mutex_);
  VerifyReport report;
  last_damage_.clear();
  std::vector<std::string> keys;
  std::string complaint;
  Access(Need::kRead, [&](Database& database) {
    keys.clear();
    Statement select = database.Prepare("SELECT key FROM programs");
    while (select.Step()) {
      keys.push_back(select.TextAt(0));
    }
  });
  for (const std::string& key : keys) {
    std::optional<StoredEntry> stored;
    Access(Need::kRead, [&](Database& database) { stored = ReadEntry(database, key); });
    if (!stored) {
      continue;  // another process deleted it
    }
    ++report.rows;
    if (!stored->sound) {
      ++report.unsound;
      Access(Need::kWrite, [&](Database& database) { DeleteRow(database, key); });
    }
  }
  Access(Need::kRead, [&](Database& database) {
    Statement check = database.Prepare("PRAGMA integrity_check(1)");
    complaint = check.Step() ? check.TextAt(0) : "no answer from the integrity check";
  });
  if (!complaint.empty() && complaint != "ok") {
    // For example an index that disagrees with its table: a new file is cheaper than a repair.
    const bool replaced = Access(Need::kWrite, [&](Database& database) {
      if (last_damage_.empty()) {
        ReportDamage(complaint);
        database.SetAside();
      }
    });
    if (replaced) {
      database_.reset();
    }
    last_damage_ = complaint;
  }
  report.file_damage = last_damage_;
  return report;
}

ProgramCache::PruneReport ProgramCache::Prune(int64_t max_bytes, bool all) {
  std::lock_guard lock(mutex_);
  PruneReport report;
  Access(Need::kWrite, [&](Database& database) {
    {
      Transaction transaction(database);
      if (all) {
        std::tie(report.removed_rows, report.removed_bytes) = CountAndBytes(database);
        database.Execute("DELETE FROM programs; DELETE FROM tuning");
      } else {
        std::tie(report.removed_rows, report.removed_bytes) = DeleteOldest(database, max_bytes);
      }
      std::tie(report.kept_rows, report.kept_bytes) = CountAndBytes(database);
      transaction.Commit();
    }
    database.Execute("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)");
    if (all) {
      Database::RemoveSetAside(path_, 0);
    }
  });
  return report;
}

ProgramCache::State ProgramCache::state() const {
  std::lock_guard lock(mutex_);
  State state;
  std::error_code error;
  if (mode_ != Mode::kOff && (database_ != nullptr || fs::exists(path_, error))) {
    Access(Need::kRead, [&](Database& database) {
      std::tie(state.rows, state.bytes) = CountAndBytes(database);
      Statement count = database.Prepare("SELECT count(*) FROM tuning");
      count.Step();
      state.tuning_rows = count.IntegerAt(0);
    });
  }
  state.path = path_;
  state.mode = mode_;
  state.disabled_reason = disabled_reason_;
  return state;
}

}  // namespace caffe
