#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/data/lmdb/lmdb.hpp"
#include "caffe/data/lmdb/lmdb_error.hpp"
#include "caffe/data/lmdb/lmdb_pages.hpp"
#include "caffe/data/lmdb/lock_file.hpp"

namespace caffe {
namespace {

// Throws if a meta page has impossible values. A file that is too short or that has another magic
// number is left to LMDB.
void CheckMetaPages(const std::string& path) {
  std::ifstream in(path + "/data.mdb", std::ios::binary);
  LmdbMeta first, second;
  const auto read = [&](std::streamoff at, LmdbMeta* page) {
    in.seekg(at);
    return in.read(reinterpret_cast<char*>(page), sizeof(*page)) && page->magic == LmdbMeta::kMagic;
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
  explicit Environment(const std::string& path) { Open(path); }
  ~Environment() { mdb_env_close(env_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MDB_env* get() const { return env_; }

 private:
  void Open(const std::string& path);

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
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Environment>& known = open[{file.st_dev, file.st_ino}];
  std::shared_ptr<Environment> environment = known.lock();
  if (!environment) known = environment = std::make_shared<Environment>(path);
  return environment;
}

void Environment::Open(const std::string& path) {
  CheckMetaPages(path);
  // Without a lock file (missing permission, full disk) reading is safe as long as no process
  // writes.
  const unsigned lock = PrepareLockFile(path) == 0 ? 0 : MDB_NOLOCK;
  CheckLmdb(mdb_env_create(&env_), "mdb_env_create", path);
  const int result = mdb_env_open(env_, path.c_str(), MDB_RDONLY | MDB_NOTLS | lock, 0664);
  if (result == MDB_SUCCESS) return;
  mdb_env_close(env_);
  CAFFE_CHECK(result != MDB_INVALID, "cannot open LMDB ", path,
              ": data.mdb is not an LMDB file, or it is damaged");
  CAFFE_THROW("cannot open LMDB ", path, ": ", mdb_strerror(result));
}

// A key in one line of a message.
std::string InOneLine(std::string_view key) {
  std::string text = Printable(key);
  for (const auto& [byte, code] : {std::pair("\n", "\\x0a"), std::pair("\t", "\\x09")}) {
    for (size_t at = 0; (at = text.find(byte, at)) != std::string::npos;) text.replace(at, 1, code);
  }
  return text;
}

// Keeps one transaction open, so that it sees the database as it was when it was opened: LMDB does
// not write to the pages that a transaction can see.
class LmdbSource final : public DataSource {
 public:
  explicit LmdbSource(const std::string& path);
  ~LmdbSource() override { mdb_txn_abort(transaction_); }

  bool Next(Datum* datum) override;
  bool Skip() override;
  void Rewind() override;
  int64_t position() const override { return position_; }
  int64_t count() const override { return static_cast<int64_t>(meta_.records.entries); }
  std::string key() const override { return InOneLine(key_); }

 private:
  void Start();
  void Advance();
  // Runs `read` for the record that is next; an error names it.
  template <class Read> void ReadRecord(const Read& read);

  const std::string path_;
  std::shared_ptr<Environment> environment_;
  MDB_txn* transaction_ = nullptr;
  std::unique_ptr<LmdbPages> pages_;
  LmdbMeta meta_;
  int64_t position_ = 0;
  std::string key_;
};

LmdbSource::LmdbSource(const std::string& path) : path_(path), environment_(Environment::Of(path)) {
  CheckLmdb(mdb_txn_begin(environment_->get(), nullptr, MDB_RDONLY, &transaction_), "mdb_txn_begin",
            path);
  try {
    Start();
  } catch (const Error& error) {
    mdb_txn_abort(transaction_);
    CAFFE_THROW("cannot open LMDB ", path, ": data.mdb: ", error.what(), "; copy or make it again");
  }
  if (count() == 0) {
    mdb_txn_abort(transaction_);
    CAFFE_THROW("LMDB ", path, " holds no records");
  }
  log::Info(Concat("Opened lmdb ", path));
}

void LmdbSource::Start() {
  constexpr int kAttempts = 100;
  MDB_stat stat;
  CheckLmdb(mdb_env_stat(environment_->get(), &stat), "mdb_env_stat", path_);
  int descriptor = -1;
  CheckLmdb(mdb_env_get_fd(environment_->get(), &descriptor), "mdb_env_get_fd", path_);
  for (int attempt = 0;; ++attempt) {
    pages_ = std::make_unique<LmdbPages>(descriptor, stat.ms_psize);
    if (pages_->ReadMeta(mdb_txn_id(transaction_), &meta_)) break;
    // Processes that write have replaced it since the transaction began.
    CAFFE_CHECK(attempt < kAttempts, "it is damaged: no meta page is that of the transaction ",
                mdb_txn_id(transaction_));
    mdb_txn_reset(transaction_);
    CheckLmdb(mdb_txn_renew(transaction_), "mdb_txn_renew", path_);
  }
  CAFFE_CHECK(meta_.IsSound() && meta_.free.page_size == stat.ms_psize &&
                  meta_.version == LmdbMeta::kVersion,
              "it is damaged");
  pages_->Start(meta_);
}

void LmdbSource::Rewind() {
  pages_->Start(meta_);
  position_ = 0;
}

template <class Read> void LmdbSource::ReadRecord(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    CAFFE_THROW("LMDB ", path_, ": record ", position_, " of ", count(),
                ": the database is damaged: ", error.what(), "; copy or make it again");
  }
}

void LmdbSource::Advance() {
  CAFFE_CHECK(pages_->Next(), "there are no more records");
  key_ = pages_->key();
}

bool LmdbSource::Skip() {
  if (position_ == count()) return false;
  ReadRecord([&] { Advance(); });
  ++position_;
  return true;
}

bool LmdbSource::Next(Datum* datum) {
  if (position_ == count()) return false;
  std::string_view value;
  ReadRecord([&] {
    Advance();
    value = pages_->value();
  });
  ++position_;
  const bool parsed = value.size() <= INT32_MAX &&
                      datum->ParseFromArray(value.data(), static_cast<int>(value.size()));
  CAFFE_CHECK(parsed, "LMDB ", path_, ": record ", position_ - 1, " (key ", key(),
              ") is not a Datum; the database is damaged or holds other records");
  return true;
}

}  // namespace

std::unique_ptr<DataSource> OpenLmdb(const std::string& path) {
  return std::make_unique<LmdbSource>(path);
}

}  // namespace caffe
