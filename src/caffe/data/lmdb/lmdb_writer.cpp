#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "caffe/data/lmdb/lmdb.hpp"
#include "caffe/data/lmdb/lmdb_error.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

// Writes to a temporary folder, which Finish renames. Records are collected and written in batches,
// so that a batch can be written again after the map has grown.
class LmdbWriter final : public DataWriter {
 public:
  explicit LmdbWriter(const std::string& path);
  ~LmdbWriter() override;

  using DataWriter::Put;
  void Put(const std::string& key, std::string_view value) override;
  void Finish() override;

 private:
  void Open();
  void WriteBatch();
  // Returns MDB_MAP_FULL if the map must grow.
  int TryBatch();

  static constexpr size_t kBatchBytes = 16 << 20;

  const std::string path_;
  const std::string temporary_;
  MDB_env* env_ = nullptr;
  std::vector<std::pair<std::string, std::string>> batch_;
  size_t batch_bytes_ = 0;
};

// "data/" and "data" are the same folder.
std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

LmdbWriter::LmdbWriter(const std::string& path)
    : path_(WithoutSlash(path)), temporary_(Concat(path_, ".tmp-", getpid())) {
  std::error_code error;
  CAFFE_CHECK(!fs::exists(fs::symlink_status(path_, error)), "cannot create LMDB ", path_,
              ": it exists already; remove it, or choose another name");
  fs::remove_all(temporary_, error);
  CAFFE_CHECK(fs::create_directory(temporary_, error), "cannot create LMDB ", path_,
              ": cannot make the folder ", temporary_, ": ", error.message());
  try {
    Open();
  } catch (...) {
    fs::remove_all(temporary_, error);
    throw;
  }
}

// LMDB calls every write that stops short an error of input and output. This asks the disk for the room
// that was missing, and returns its reason.
int ReasonOfWrite(int result, const std::string& folder, size_t bytes) {
  if (result != EIO) return result;
  const std::string path = folder + "/room";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return errno == ENOSPC || errno == EDQUOT ? errno : result;
  const int reason = posix_fallocate(file, 0, static_cast<off_t>(std::max<size_t>(bytes, 1)));
  close(file);
  unlink(path.c_str());
  return reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? reason : result;
}

void LmdbWriter::Open() {
  CheckLmdb(ReserveLockFile(temporary_), "making the lock file", path_);
  CheckLmdb(mdb_env_create(&env_), "mdb_env_create", path_);
  // MDB_NOSYNC: the file stays private until Finish, which flushes it.
  const int result = mdb_env_open(env_, temporary_.c_str(), MDB_NOSYNC, 0664);
  if (result != MDB_SUCCESS) {
    mdb_env_close(env_);
    env_ = nullptr;
  }
  CheckLmdb(result, "mdb_env_open", path_);
}

LmdbWriter::~LmdbWriter() {
  if (!env_) return;
  mdb_env_close(env_);
  std::error_code error;
  fs::remove_all(temporary_, error);
}

void LmdbWriter::Put(const std::string& key, std::string_view value) {
  CAFFE_CHECK(env_, "LMDB ", path_, " is finished already");
  batch_.emplace_back(key, value);
  batch_bytes_ += key.size() + value.size();
  if (batch_bytes_ >= kBatchBytes) WriteBatch();
}

int LmdbWriter::TryBatch() {
  MDB_txn* transaction = nullptr;
  CheckLmdb(mdb_txn_begin(env_, nullptr, 0, &transaction), "mdb_txn_begin", path_);
  MDB_dbi database;
  int result = mdb_dbi_open(transaction, nullptr, 0, &database);
  for (auto record = batch_.begin(); result == MDB_SUCCESS && record != batch_.end(); ++record) {
    MDB_val key{record->first.size(), record->first.data()};
    MDB_val value{record->second.size(), record->second.data()};
    result = mdb_put(transaction, database, &key, &value, MDB_NOOVERWRITE);
    if (result != MDB_SUCCESS && result != MDB_MAP_FULL) {
      mdb_txn_abort(transaction);
      const int reason = ReasonOfWrite(result, temporary_, batch_bytes_);
      CAFFE_THROW("LMDB ", path_, ": cannot write the record of key '", record->first,
                  "': ", mdb_strerror(reason));
    }
  }
  if (result == MDB_SUCCESS) return mdb_txn_commit(transaction);
  mdb_txn_abort(transaction);
  return result;
}

void LmdbWriter::WriteBatch() {
  int result = TryBatch();
  while (result == MDB_MAP_FULL) {
    MDB_envinfo info;
    CheckLmdb(mdb_env_info(env_, &info), "mdb_env_info", path_);
    CheckLmdb(mdb_env_set_mapsize(env_, info.me_mapsize * 2), "mdb_env_set_mapsize", path_);
    result = TryBatch();
  }
  CheckLmdb(ReasonOfWrite(result, temporary_, batch_bytes_), "writing", path_);
  batch_.clear();
  batch_bytes_ = 0;
}

void LmdbWriter::Finish() {
  CAFFE_CHECK(env_, "LMDB ", path_, " is finished already");
  WriteBatch();
  CheckLmdb(mdb_env_sync(env_, 1), "mdb_env_sync", path_);
  mdb_env_close(env_);
  env_ = nullptr;
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
    CAFFE_THROW("cannot create LMDB ", path_, ": ", error.message());
  }
}

}  // namespace

std::unique_ptr<DataWriter> CreateLmdb(const std::string& path) {
  return std::make_unique<LmdbWriter>(path);
}

}  // namespace caffe
