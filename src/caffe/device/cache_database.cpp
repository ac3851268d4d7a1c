#include "cache_database.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "trusted_path.hpp"

namespace caffe::cache {
namespace {

namespace fs = std::filesystem;
using Kind = DatabaseError::Kind;

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x43525444;  // "CRTD"

constexpr char kSchema[] = R"sql(
CREATE TABLE programs(
  key TEXT PRIMARY KEY NOT NULL,
  device TEXT NOT NULL,
  program TEXT NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  last_use INTEGER NOT NULL,
  build_seconds REAL NOT NULL,
  refused INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  build_log BLOB NOT NULL,
  binary BLOB NOT NULL);
CREATE INDEX programs_by_age ON programs(last_use, size);
CREATE TABLE tuning(
  family TEXT NOT NULL,
  shape_bucket TEXT NOT NULL,
  types TEXT NOT NULL,
  device TEXT NOT NULL,
  driver TEXT NOT NULL,
  configuration TEXT NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY(family, shape_bucket, types, device, driver));
)sql";

Kind KindOf(int code) {
  if (code == SQLITE_READONLY_DBMOVED) {
    return Kind::kMoved;
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    // The statements are constant, so that these come from a damaged schema.
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: return Kind::kDamaged;
    case SQLITE_READONLY:
    case SQLITE_FULL:
    case SQLITE_PERM: return Kind::kReadOnly;
    case SQLITE_IOERR:
      // The file is shorter than its first page says. Older versions of SQLite call that damage,
      // too.
      if (code == SQLITE_IOERR_SHORT_READ) return Kind::kDamaged;
      // Quotas and file size limits are reported as a failed write, not as SQLITE_FULL.
      return code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC ? Kind::kReadOnly
                                                                      : Kind::kOther;
    default: return Kind::kOther;
  }
}

[[noreturn]] void Throw(sqlite3* connection, int code) {
  if (connection == nullptr) {
    throw DatabaseError(KindOf(code), sqlite3_errstr(code));
  }
  std::string text = sqlite3_errmsg(connection);
  const int system = sqlite3_system_errno(connection);
  const int primary = code & 0xff;
  if (system != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)) {
    text += Concat(" (", std::strerror(system), ")");
  }
  throw DatabaseError(KindOf(code), text);
}

[[noreturn]] void ThrowSystem(const std::string& what, int code) {
  const bool not_writable =
      code == EACCES || code == EPERM || code == EROFS || code == ENOSPC || code == EDQUOT;
  throw DatabaseError(not_writable ? Kind::kReadOnly : Kind::kOther,
                      Concat(what, ": ", std::strerror(code)));
}

// WAL needs memory that all processes share; network file systems do not provide it. FUSE counts as
// one, since the file system behind it is unknown.
bool OnNetworkFileSystem(const fs::path& directory) {
  struct statfs information;
  if (::statfs(directory.c_str(), &information) != 0) {
    return true;
  }
  static constexpr uint32_t kNetwork[] = {
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB 2
      0x01021997,  // 9P
      0x65735546,  // FUSE
      0x00c36400,  // Ceph
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x01161970,  // GFS2
      0x5346414f,  // AFS
      0x6b414653,  // kAFS
      0x73757245,  // Coda
      0x19830326,  // BeeGFS
      0xaad7aaea,  // PanFS
      0x7461636f,  // OCFS2
  };
  const auto type = static_cast<uint32_t>(information.f_type);
  return std::find(std::begin(kNetwork), std::end(kNetwork), type) != std::end(kNetwork);
}

// Held while a process opens, creates or sets aside the file. If the file system has no locks,
// SQLite's own locking decides.
class OpenLock {
 public:
  OpenLock(const fs::path& path, int busy_ms) {
    const fs::path name = path.string() + ".lock";
    descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor_ < 0) {
      ThrowSystem(Concat("cannot create ", name.string()), errno);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_ms);
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return;
      }
      if (std::chrono::steady_clock::now() > end) {
        ::close(descriptor_);
        throw DatabaseError(Kind::kOther, Concat(name.string(), " is held by another process"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~OpenLock() { ::close(descriptor_); }
  OpenLock(const OpenLock&) = delete;
  OpenLock& operator=(const OpenLock&) = delete;

 private:
  int descriptor_;
};

constexpr const char* kSidecars[] = {"-wal", "-shm", "-journal"};

struct FileIdentity {
  uint64_t device, inode;
};

std::optional<FileIdentity> IdentityOf(const fs::path& path) {
  struct stat information;
  if (::stat(path.c_str(), &information) != 0) {
    return std::nullopt;
  }
  return FileIdentity{information.st_dev, information.st_ino};
}

void CreateDirectory(const fs::path& directory) {
  if (const int code = MakePrivateFolder(directory); code != 0) {
    ThrowSystem(Concat("cannot create ", directory.string()), code);
  }
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw DatabaseError(Kind::kOther, Concat(directory.string(), " is not a directory"));
  }
}

// Throws if another user may have written one of the files, or can write or replace one: the rows
// are machine code that this process runs, and their checksums do not say who wrote them. SQLite
// keeps the sidecars beside the file that a link leads to.
void CheckTrust(const fs::path& path) {
  std::error_code error;
  if (fs::is_symlink(path, error) && !fs::exists(path, error)) {
    throw DatabaseError(Kind::kOther, "the file is a symbolic link to a file that does not exist");
  }
  fs::path file = fs::canonical(path, error);
  if (error) {
    file = path;
  }
  std::vector<fs::path> files = {path, path.string() + ".lock"};
  for (const char* suffix : kSidecars) {
    files.push_back(file.string() + suffix);
  }
  // A file that a folder lacks needs no check of its own.
  std::erase_if(files,
                [&](const fs::path& one) { return !fs::exists(fs::symlink_status(one, error)); });
  std::vector<fs::path> all = {path.parent_path(), file.parent_path()};
  all.insert(all.end(), files.begin(), files.end());
  for (const fs::path& one : all) {
    if (const std::string why = WhyUntrusted(one); !why.empty()) {
      throw DatabaseError(Kind::kOther,
                          Concat("not used, because ", why,
                                 "; or set CAFFE_CACHE_DIR to a folder that only you can write"));
    }
  }
  for (const fs::path& one : files) {
    // One look: another process may remove a sidecar at any time.
    const fs::file_status status = fs::status(one, error);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw DatabaseError(Kind::kOther, Concat(one.string(), " is not a regular file"));
    }
  }
}

// Call this with the lock held. The sidecar files are renamed, too: SQLite would replay them into
// the next file.
void RenameAside(const fs::path& path) {
  static std::atomic<int> count{0};
  const std::string target = Concat(path.string(), ".corrupt-", ::getpid(), "-", count++);
  if (::rename(path.c_str(), target.c_str()) != 0 && errno != ENOENT) {
    ThrowSystem(Concat("cannot rename ", path.string()), errno);
  }
  for (const char* suffix : kSidecars) {
    ::rename((path.string() + suffix).c_str(), (target + suffix).c_str());
  }
  Database::RemoveSetAside(path, 2);
}

std::string ImmutableUri(const fs::path& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : fs::absolute(path).string()) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '-') {
      uri += c;
    } else {
      uri += '%';
      uri += kDigits[static_cast<unsigned char>(c) >> 4];
      uri += kDigits[c & 15];
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

Statement::Statement(sqlite3* connection, const char* text) : connection_(connection) {
  Check(sqlite3_prepare_v2(connection, text, -1, &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Check(int code) const {
  if (code != SQLITE_OK) {
    Throw(connection_, code);
  }
}

Statement& Statement::Text(int index, std::string_view value) {
  Check(sqlite3_bind_text64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                            SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::Blob(int index, std::string_view value) {
  Check(sqlite3_bind_blob64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                            SQLITE_STATIC));
  return *this;
}

Statement& Statement::Integer(int index, int64_t value) {
  Check(sqlite3_bind_int64(statement_, index, value));
  return *this;
}

Statement& Statement::Real(int index, double value) {
  Check(sqlite3_bind_double(statement_, index, value));
  return *this;
}

bool Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    Throw(connection_, code);
  }
  return code == SQLITE_ROW;
}

std::string Statement::TextAt(int column) const { return BlobAt(column); }

std::string Statement::BlobAt(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

int64_t Statement::IntegerAt(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::RealAt(int column) const { return sqlite3_column_double(statement_, column); }

Database::Database(fs::path path, int busy_ms) : path_(std::move(path)), busy_ms_(busy_ms) {}

Database::~Database() {
  if (connection_ != nullptr) {
    sqlite3_close_v2(connection_);
  }
}

void Database::Connect(const std::string& name, int flags) {
  if (connection_ != nullptr) {
    sqlite3_close_v2(connection_);
    connection_ = nullptr;
  }
  // SQLite's own mutexes stay enabled: two caches of one process may use one file.
  const int code =
      sqlite3_open_v2(name.c_str(), &connection_, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) {
    Throw(connection_, code);
  }
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_busy_timeout(connection_, busy_ms_);
  // A damaged schema must not do more than ours, which has neither views nor triggers.
  for (const int off : {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW}) {
    sqlite3_db_config(connection_, off, 0, nullptr);
  }
  Execute("PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0");
  if (const auto identity = IdentityOf(path_)) {
    device_ = identity->device;
    inode_ = identity->inode;
  }
}

void Database::Execute(const char* text) {
  const int code = sqlite3_exec(connection_, text, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    Throw(connection_, code);
  }
}

int64_t Database::IntegerOf(const char* text) {
  Statement statement(connection_, text);
  return statement.Step() ? statement.IntegerAt(0) : 0;
}

bool Database::IsEmpty() {
  return IntegerOf("PRAGMA application_id") == 0 && IntegerOf("PRAGMA user_version") == 0 &&
         IntegerOf("SELECT count(*) FROM sqlite_master") == 0;
}

void Database::CreateSchema() {
  Transaction transaction(*this);
  if (IsEmpty()) {
    Execute(kSchema);
    Execute(Concat("PRAGMA application_id = ", kApplicationId).c_str());
    Execute(Concat("PRAGMA user_version = ", kSchemaVersion).c_str());
  }
  transaction.Commit();
}

void Database::CheckSchema() {
  if (IntegerOf("PRAGMA application_id") != kApplicationId) {
    throw DatabaseError(Kind::kDamaged, "the file is not a program cache");
  }
  const int64_t version = IntegerOf("PRAGMA user_version");
  if (version != kSchemaVersion) {
    throw DatabaseError(Kind::kDamaged,
                        Concat("the file has schema version ", version, ", not ", kSchemaVersion));
  }
  for (const char* table : {"programs", "tuning"}) {
    Statement statement(connection_,
                        "SELECT count(*) FROM sqlite_master WHERE name = ? AND type = 'table'");
    if (!statement.Text(1, table).Step() || statement.IntegerAt(0) == 0) {
      throw DatabaseError(Kind::kDamaged, Concat("table ", table, " is missing"));
    }
  }
  // A column that is missing is an error here already.
  Prepare(
      "SELECT key, device, program, size, created, last_use, build_seconds, refused, checksum, "
      "build_log, binary FROM programs");
  Prepare(
      "SELECT family, shape_bucket, types, device, driver, configuration, checksum FROM tuning");
}

std::unique_ptr<Database> Database::OpenForWriting(const fs::path& path, int busy_ms,
                                                   bool shared_memory) {
  // Nothing is made in a folder of others, and what was made may have been made by others.
  CheckTrust(path);
  CreateDirectory(path.parent_path());
  CheckTrust(path);
  OpenLock lock(path, busy_ms);
  std::unique_ptr<Database> database(new Database(path, busy_ms));
  for (int attempt = 0;; ++attempt) {
    if (!IdentityOf(path)) {
      // Sidecars of a file that a process set aside before it died.
      for (const char* suffix : kSidecars) {
        ::unlink((path.string() + suffix).c_str());
      }
    }
    try {
      database->Connect(path.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
      if (sqlite3_db_readonly(database->connection_, "main") == 1) {
        throw DatabaseError(Kind::kReadOnly, "the file is not writable");
      }
      const bool empty = database->IsEmpty();
      if (empty) {
        // Possible only before the first page is written; setting the journal mode writes it.
        database->Execute("PRAGMA auto_vacuum = INCREMENTAL");
      } else {
        database->CheckSchema();
      }
      bool wal = shared_memory && !OnNetworkFileSystem(path.parent_path());
      if (wal) {
        try {
          Statement mode(database->connection_, "PRAGMA journal_mode = WAL");
          wal = mode.Step() && mode.TextAt(0) == "wal";
          database->IntegerOf("SELECT count(*) FROM sqlite_master");
        } catch (const DatabaseError& error) {
          if (error.kind() != Kind::kOther) {
            throw;
          }
          wal = false;
        }
      }
      if (!wal) {
        database->Execute("PRAGMA journal_mode = DELETE");
      }
      database->Execute("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216");
      if (empty) {
        database->CreateSchema();
      }
      return database;
    } catch (const DatabaseError& error) {
      if (error.kind() != Kind::kDamaged || attempt > 0) {
        throw;
      }
      database->damage_ = error.what();
      RenameAside(path);
    }
  }
}

std::unique_ptr<Database> Database::OpenForReading(const fs::path& path, int busy_ms) {
  CheckTrust(path);
  if (!IdentityOf(path)) {
    return nullptr;
  }
  std::unique_ptr<Database> database(new Database(path, busy_ms));
  bool empty = false;
  try {
    database->Connect(path.string(), SQLITE_OPEN_READONLY);
    empty = database->IsEmpty();
  } catch (const DatabaseError& error) {
    const int code = sqlite3_errcode(database->connection_) & 0xff;
    if (error.kind() != Kind::kReadOnly && code != SQLITE_CANTOPEN) {
      throw;
    }
    // The file is in WAL mode, in a directory where the shared memory file cannot be created.
    database->Connect(ImmutableUri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    empty = database->IsEmpty();
  }
  if (empty) {
    return nullptr;
  }
  database->CheckSchema();
  return database;
}

void Database::SetAside() {
  sqlite3_close_v2(connection_);
  connection_ = nullptr;
  OpenLock lock(path_, busy_ms_);
  const auto identity = IdentityOf(path_);
  if (identity && identity->device == device_ && identity->inode == inode_) {
    RenameAside(path_);
  }
}

void Database::RemoveSetAside(const fs::path& path, size_t keep) {
  const std::string prefix = path.filename().string() + ".corrupt-";
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator file(path.parent_path(), error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().filename().string().starts_with(prefix)) {
      std::error_code unknown;
      files.emplace_back(file->last_write_time(unknown), file->path());
    }
  }
  auto is_sidecar = [](const fs::path& file) {
    return std::any_of(std::begin(kSidecars), std::end(kSidecars),
                       [&](const char* suffix) { return file.string().ends_with(suffix); });
  };
  std::sort(files.rbegin(), files.rend());
  size_t seen = 0;
  for (const auto& [time, file] : files) {
    if (is_sidecar(file)) {
      // The log of a file that is set aside is useless without the file.
      if (keep == 0) {
        fs::remove(file, error);
      }
    } else if (seen++ >= keep) {
      fs::remove(file, error);
      for (const char* suffix : kSidecars) {
        fs::remove(file.string() + suffix, error);
      }
    }
  }
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.Execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (open_) {
    try {
      database_.Execute("ROLLBACK");
    } catch (const DatabaseError&) {
      // After a full disk SQLite has already rolled back.
    }
  }
}

void Transaction::Commit() {
  database_.Execute("COMMIT");
  open_ = false;
}

}  // namespace caffe::cache
