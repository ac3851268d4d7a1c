#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "caffe/data/lmdb/lmdb.hpp"
#include "caffe/data/lmdb/lmdb_error.hpp"
#include "caffe/data/lmdb/lock_file.hpp"
#include "caffe/io/file.hpp"

namespace caffe {
namespace {

// Records are collected and written in batches, so that a batch can be written again after the map
// has grown.
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
  AtomicFolder folder_;
  MDB_env* env_ = nullptr;
  std::vector<std::pair<std::string, std::string>> batch_;
  size_t batch_bytes_ = 0;
};

LmdbWriter::LmdbWriter(const std::string& path) : path_(path), folder_(path) { Open(); }

// LMDB calls every write that stops short an error of input and output. This asks the disk for the
// room that was missing, and returns its reason.
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
  CheckLmdb(PrepareLockFile(folder_.temporary_path()), "making the lock file", path_);
  CheckLmdb(mdb_env_create(&env_), "mdb_env_create", path_);
  // MDB_NOSYNC: the file stays private until Finish, which flushes it.
  const int result = mdb_env_open(env_, folder_.temporary_path().c_str(), MDB_NOSYNC, 0664);
  if (result != MDB_SUCCESS) {
    mdb_env_close(env_);
    env_ = nullptr;
  }
  CheckLmdb(result, "mdb_env_open", path_);
}

LmdbWriter::~LmdbWriter() {
  if (env_) mdb_env_close(env_);
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
      const int reason = ReasonOfWrite(result, folder_.temporary_path(), batch_bytes_);
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
  CheckLmdb(ReasonOfWrite(result, folder_.temporary_path(), batch_bytes_), "writing", path_);
  batch_.clear();
  batch_bytes_ = 0;
}

void LmdbWriter::Finish() {
  CAFFE_CHECK(env_, "LMDB ", path_, " is finished already");
  WriteBatch();
  CheckLmdb(mdb_env_sync(env_, 1), "mdb_env_sync", path_);
  mdb_env_close(env_);
  env_ = nullptr;
  folder_.Commit();
}

}  // namespace

std::unique_ptr<DataWriter> CreateLmdb(const std::string& path) {
  return std::make_unique<LmdbWriter>(path);
}

}  // namespace caffe
