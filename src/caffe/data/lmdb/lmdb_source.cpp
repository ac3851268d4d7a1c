#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <mutex>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/data/lmdb/lmdb.hpp"
#include "caffe/data/lmdb/lmdb_error.hpp"

namespace caffe {
namespace {

// On some kinds of damage LMDB aborts the process, unless its assertion handler does not return. So
// the handler jumps out; only frames of LMDB lie between setjmp and longjmp.
thread_local std::jmp_buf* way_out = nullptr;

void LeaveLmdb(MDB_env*, const char*) {
  if (way_out) std::longjmp(*way_out, 1);
}

int GetRecord(MDB_cursor* cursor, MDB_val* key, MDB_val* value, MDB_cursor_op operation) {
  std::jmp_buf here;
  way_out = &here;
  if (setjmp(here) != 0) {
    way_out = nullptr;
    return MDB_CORRUPTED;
  }
  const int result = mdb_cursor_get(cursor, key, value, operation);
  way_out = nullptr;
  return result;
}

// A key with its unprintable bytes escaped.
std::string Printable(std::string_view key) {
  std::string text;
  for (const unsigned char byte : key) {
    char code[8];
    std::snprintf(code, sizeof(code), byte < 32 || byte > 126 ? "\\x%02x" : "%c", byte);
    text += code;
  }
  return text;
}

// The fields of a meta page of a 64-bit machine that LMDB uses without a check: with noise in them it
// crashes, or reports a lack of memory.
struct MetaPage {
  char page_header[16];
  uint32_t magic, version;
  uint64_t address, map_size;
  struct Tree {
    uint32_t page_size;
    uint16_t flags, depth;
    uint64_t pages[3], entries, root;
  } free, records;
  uint64_t last_page, transaction;

  bool IsSound() const {
    constexpr uint64_t kMostMapped = uint64_t{1} << 47, kNone = ~uint64_t{0};
    const uint32_t size = free.page_size;
    if (size < 256 || size > 65536 || !std::has_single_bit(size)) return false;
    if (map_size > kMostMapped || last_page > kMostMapped / size) return false;
    return std::ranges::all_of(std::initializer_list<Tree>{free, records}, [&](const Tree& tree) {
      return tree.flags < 128 && tree.depth <= 32 && (tree.root == kNone || tree.root <= last_page);
    });
  }
};
static_assert(sizeof(MetaPage) == 152);

// Throws if a meta page has impossible values. A file that is too short or that has another magic
// number is left to LMDB.
void CheckMetaPages(const std::string& path) {
  constexpr uint32_t kMagic = 0xBEEFC0DE;
  std::ifstream in(path + "/data.mdb", std::ios::binary);
  MetaPage first, second;
  const auto read = [&](std::streamoff at, MetaPage* page) {
    in.seekg(at);
    return in.read(reinterpret_cast<char*>(page), sizeof(*page)) && page->magic == kMagic;
  };
  if (!read(0, &first)) return;
  bool sound = first.IsSound();
  if (sound && read(first.free.page_size, &second)) {
    sound = second.IsSound() && second.free.page_size == first.free.page_size;
  }
  CAFFE_CHECK(sound, "cannot open LMDB ", path, ": data.mdb is damaged; copy or make it again");
}

// An open database file. LMDB forbids opening a file twice in a process, so all sources of a file
// share one.
class Environment {
 public:
  static std::shared_ptr<Environment> Of(const std::string& path);
  explicit Environment(const std::string& path);
  ~Environment() { mdb_env_close(env_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MDB_env* get() const { return env_; }
  // Lock this around calls that change state shared by an environment's transactions.
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

 private:
  void Open(const std::string& path);
  void CheckLength(const std::string& path) const;

  MDB_env* env_ = nullptr;
};

std::shared_ptr<Environment> Environment::Of(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string what = Concat("cannot open LMDB ", path, ": ");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  CAFFE_CHECK(fs::exists(status), what, "the folder does not exist",
              status.type() == fs::file_type::none ? " (" + error.message() + ")" : "");
  CAFFE_CHECK(fs::is_directory(status), what, "it is a file; an LMDB is a folder with data.mdb");
  struct stat file;
  CAFFE_CHECK(stat((path + "/data.mdb").c_str(), &file) == 0, what,
              errno == ENOENT ? "the folder has no data.mdb" : std::strerror(errno));
  CAFFE_CHECK(file.st_size > 0, what, "data.mdb is empty; make or copy it again");

  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Environment>> open;
  const std::lock_guard lock(mutex());
  std::weak_ptr<Environment>& known = open[{file.st_dev, file.st_ino}];
  std::shared_ptr<Environment> environment = known.lock();
  if (!environment) known = environment = std::make_shared<Environment>(path);
  return environment;
}

Environment::Environment(const std::string& path) {
  Open(path);
  try {
    CheckLength(path);
  } catch (...) {
    mdb_env_close(env_);
    throw;
  }
}

void Environment::Open(const std::string& path) {
  CheckMetaPages(path);
  // Without a lock file (missing permission) reading is safe as long as no process writes.
  for (unsigned flags : {0, MDB_NOLOCK}) {
    CheckLmdb(mdb_env_create(&env_), "mdb_env_create", path);
    const int result = mdb_env_open(env_, path.c_str(), MDB_RDONLY | MDB_NOTLS | flags, 0664);
    if (result == MDB_SUCCESS) {
      mdb_env_set_assert(env_, LeaveLmdb);
      return;
    }
    mdb_env_close(env_);
    if (result == EACCES && flags == 0) continue;
    CAFFE_CHECK(result != MDB_INVALID, "cannot open LMDB ", path,
                ": data.mdb is not an LMDB file, or it is damaged");
    CAFFE_THROW("cannot open LMDB ", path, ": ", mdb_strerror(result));
  }
}

// Reading a page beyond the end of the file would end the process with SIGBUS. (LMDB may omit
// unused pages at the end after records were deleted; mdb_copy -c writes such a file in full.)
void Environment::CheckLength(const std::string& path) const {
  MDB_envinfo info;
  MDB_stat stat;
  CheckLmdb(mdb_env_info(env_, &info), "mdb_env_info", path);
  CheckLmdb(mdb_env_stat(env_, &stat), "mdb_env_stat", path);
  const uint64_t needed = (uint64_t{info.me_last_pgno} + 1) * stat.ms_psize;
  const uint64_t size = std::filesystem::file_size(path + "/data.mdb");
  // Not size >= needed: a damaged number of the last page makes the product wrap around.
  CAFFE_CHECK(info.me_last_pgno < size / stat.ms_psize, "cannot open LMDB ", path,
              ": data.mdb is cut off: it has ", size, " bytes of ", needed,
              "; copy or make it again");
}

// Keeps one transaction open, so that it sees the database as it was when it was opened.
class LmdbSource final : public DataSource {
 public:
  explicit LmdbSource(const std::string& path);
  ~LmdbSource() override;

  bool Next(Datum* datum) override;
  bool Skip() override;
  void Rewind() override { position_ = 0; }
  int64_t position() const override { return position_; }
  int64_t count() const override { return count_; }
  std::string key() const override { return key_; }

 private:
  bool Advance(MDB_val* value);

  const std::string path_;
  std::shared_ptr<Environment> environment_;
  MDB_txn* transaction_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
  int64_t position_ = 0, count_ = 0;
  std::string key_;
};

LmdbSource::LmdbSource(const std::string& path) : path_(path), environment_(Environment::Of(path)) {
  CheckLmdb(mdb_txn_begin(environment_->get(), nullptr, MDB_RDONLY, &transaction_), "mdb_txn_begin",
            path);
  try {
    MDB_dbi database;
    {
      const std::lock_guard lock(Environment::mutex());
      CheckLmdb(mdb_dbi_open(transaction_, nullptr, 0, &database), "mdb_dbi_open", path);
    }
    MDB_stat stat;
    CheckLmdb(mdb_stat(transaction_, database, &stat), "mdb_stat", path);
    count_ = static_cast<int64_t>(stat.ms_entries);
    CAFFE_CHECK(count_ > 0, "LMDB ", path, " holds no records");
    CheckLmdb(mdb_cursor_open(transaction_, database, &cursor_), "mdb_cursor_open", path);
  } catch (...) {
    mdb_txn_abort(transaction_);
    throw;
  }
  log::Info(Concat("Opened lmdb ", path));
}

LmdbSource::~LmdbSource() {
  mdb_cursor_close(cursor_);
  mdb_txn_abort(transaction_);
}

bool LmdbSource::Advance(MDB_val* value) {
  if (position_ == count_) return false;
  MDB_val key;
  const int result = GetRecord(cursor_, &key, value, position_ == 0 ? MDB_FIRST : MDB_NEXT);
  CAFFE_CHECK(result == MDB_SUCCESS, "LMDB ", path_, ": record ", position_, " of ", count_,
              ": the database is damaged: ", mdb_strerror(result));
  key_ = Printable({static_cast<const char*>(key.mv_data), key.mv_size});
  ++position_;
  return true;
}

bool LmdbSource::Skip() {
  MDB_val value;
  return Advance(&value);
}

bool LmdbSource::Next(Datum* datum) {
  MDB_val value;
  if (!Advance(&value)) return false;
  const bool parsed = value.mv_size <= INT32_MAX &&
                      datum->ParseFromArray(value.mv_data, static_cast<int>(value.mv_size));
  CAFFE_CHECK(parsed, "LMDB ", path_, ": record ", position_ - 1, " (key ", key_,
              ") is not a Datum; the database is damaged or holds other records");
  return true;
}

}  // namespace

std::unique_ptr<DataSource> OpenLmdb(const std::string& path) {
  return std::make_unique<LmdbSource>(path);
}

}  // namespace caffe
